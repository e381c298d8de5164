from __future__ import annotations

import pytest
from agent_eval.reports.sentences import broken_rules, rule_sentence

from agent_eval.contracts import GateStatus
from agent_eval.reports.blocks import amount, difference_and_limit, pair, points, share_and_limit
from agent_eval.reports.counts import passing
from agent_eval.text.numbers import allowed, count, percent
from tests.unit.reports.scenarios import decision, metric, rule, run


@pytest.mark.parametrize(
    ("name", "threshold", "value", "said"),
    [
        ("min_pass_rate", 0.9, 0.875, "the pass rate is 87.5% (at least 90% required)"),
        ("min_pass_rate", 0.9, 0.8999, "the pass rate is 89.99% (at least 90% required)"),
        ("max_hard_fail_rate", 0.02, 0.05, "5.0% of cases fail hard (at most 2% allowed)"),
        ("max_hard_fail_rate", 0, 0.05, "5.0% of cases fail hard (none allowed)"),
        ("max_pass_rate_drop", 0.02, 0.045, "the pass rate fell by 4.5 points (at most 2 allowed)"),
        ("max_pass_rate_drop", 0.02, 0.0204, "the pass rate fell by 2.04 points (at most 2 allowed)"),
        ("max_pass_rate_drop", 0, 0.045, "the pass rate fell by 4.5 points (none allowed)"),
        ("max_hard_fail_increase", 0.01, 0.03, "the hard-fail rate rose by 3.0 points (at most 1 allowed)"),
        ("max_regressed_cases", 0, 3, "3 cases regressed (none allowed)"),
        ("max_regressed_cases", 1, 2, "2 cases regressed (at most 1 allowed)"),
        ("max_regressed_cases", 2, 1200, "1,200 cases regressed (at most 2 allowed)"),
        ("max_new_hard_fail_cases", 0, 1, "1 case newly fails hard (none allowed)"),
    ],
)
def test_every_rule_has_a_clause_with_its_figures(name, threshold, value, said):
    assert rule_sentence(rule(name, threshold, value, False), str) == said


def test_a_rule_without_a_figure_or_of_another_kind_speaks_for_itself():
    missing = rule("max_regressed_cases", 0, None, False, message="no case could be compared.")
    assert rule_sentence(missing, str) == "no case could be compared"
    other = rule("on_case_removed", 0, 1, False, message="a failing case was removed")
    assert rule_sentence(other, str) == "a failing case was removed"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_pass_rate_drop", -0.01, "the pass rate rose by 1.0 points (at most 2 allowed)"),
        ("max_hard_fail_increase", -0.01, "the hard-fail rate fell by 1.0 points (at most 2 allowed)"),
        ("max_pass_rate_drop", 0.0, "the pass rate did not move (at most 2 allowed)"),
    ],
)
def test_a_better_rate_is_said_to_be_better(name, value, said):
    assert rule_sentence(rule(name, 0.02, value, True), str) == said


def test_cases_come_before_rates():
    names = ["min_pass_rate", "other", "max_pass_rate_drop", "max_regressed_cases", "max_new_hard_fail_cases"]
    rules = [rule(name, 0, 1, False) for name in names] + [rule("max_hard_fail_rate", 0, 0, True)]
    assert [one.rule for one in broken_rules(decision(GateStatus.FAILED, rules))] == [
        "max_regressed_cases",
        "max_new_hard_fail_cases",
        "max_pass_rate_drop",
        "min_pass_rate",
        "other",
    ]


def test_cases_that_were_not_judged_are_counted_apart():
    summary = run("candidate", 10, 1, error_cases=2, inconclusive_cases=1, skipped_cases=3).summary
    assert passing(summary) == (
        "1 of 10 cases passed (10.0%); 2 could not be judged; 1 inconclusive; 3 without anything to judge."
    )


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.875, "87.5%"),
        (0.9999, "99.99%"),
        (0.00001, "0.001%"),
        (0.99999999, "over 99.9999%"),
        (1e-9, "under 0.0001%"),
        (None, "–"),
    ],
)
def test_percent__all_and_none_are_exact(share, shown):
    assert percent(share) == shown


def test_two_rates_that_differ_never_look_the_same():
    assert pair(metric("pass_rate", 0.9001, 0.9)) == ("90.01%", "90.00%", "−0.01 pts")
    assert pair(metric("pass_rate", 0.92, 0.875)) == ("92.0%", "87.5%", "−4.5 pts")
    assert pair(metric("pass_rate", None, 0.875)) == ("–", "87.5%", "–")
    assert pair(metric("pass_rate", 0.5, 0.5)) == ("50.0%", "50.0%", "±0 pts")


def test_figures_have_units():
    assert points(0.045) == "+4.5 pts"
    assert difference_and_limit(0.045, 0.05) == ("4.5 pts", "5 pts")
    assert difference_and_limit(0.050001, 0.05) == ("5.0001 pts", "5 pts")
    assert (difference_and_limit(-0.01, 0.0025), difference_and_limit(0, 0)) == (
        ("−1.0 pts", "0.25 pts"),
        ("0 pts", "0 pts"),
    )
    assert share_and_limit(0.8999999, 0.9) == ("89.99999%", "90%")
    assert (allowed(0.9), allowed(0.025)) == ("90%", "2.5%")
    assert (count(1, "case"), count(12_000, "case")) == ("1 case", "12,000 cases")
    assert (amount("cost_usd", 0.0021), amount("total_cost_usd", 12)) == ("0.0021 USD", "12.00 USD")
    assert (amount("latency_ms", 900), amount("latency_ms", 1500)) == ("900 ms", "1.5 s")
    assert (amount("input_tokens", 1200), amount("cost_usd", None)) == ("1,200", "unknown")

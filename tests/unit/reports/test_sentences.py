from __future__ import annotations

import pytest

from agent_eval.contracts import GateStatus
from agent_eval.reports.blocks import amount, difference_and_limit, pair, points, share_and_limit
from agent_eval.reports.counts import passing
from agent_eval.reports.sentences import broken_rules, rule_sentence, sentence, why
from agent_eval.text.numbers import allowed, count, percent
from tests.unit.reports.scenarios import decision, metric, rule, run, unchanged_suite


def said_of(name: str, threshold: float, value: float | None, **more) -> str:
    broken = rule(name, threshold, value, False, **more)
    return sentence(why(decision(GateStatus.FAILED, [broken]), run("candidate", 10, 9).summary, None, str))


@pytest.mark.parametrize(
    ("name", "threshold", "value", "said"),
    [
        ("min_pass_rate", 0.9, 0.875, "The pass rate is 87.5% (at least 90% required)."),
        ("min_pass_rate", 0.9, 0.8999, "The pass rate is 89.99% (at least 90% required)."),
        ("max_hard_fail_rate", 0.02, 0.05, "5.0% of cases fail hard (at most 2% allowed)."),
        ("max_hard_fail_rate", 0, 0.05, "5.0% of cases fail hard (none allowed)."),
        ("max_pass_rate_drop", 0.02, 0.045, "The pass rate fell by 4.5 points (at most 2 allowed)."),
        ("max_pass_rate_drop", 0.02, 0.0204, "The pass rate fell by 2.04 points (at most 2 allowed)."),
        (
            "max_pass_rate_drop",
            0,
            0.045,
            "The pass rate fell by 4.5 points (none allowed).",
        ),
        (
            "max_hard_fail_increase",
            0.01,
            0.03,
            "The hard-fail rate rose by 3.0 points (at most 1 allowed).",
        ),
        ("max_regressed_cases", 0, 3, "3 cases regressed (none allowed)."),
        ("max_regressed_cases", 1, 2, "2 cases regressed (at most 1 allowed)."),
        ("max_regressed_cases", 2, 1200, "1,200 cases regressed (at most 2 allowed)."),
        ("max_new_hard_fail_cases", 0, 1, "1 case newly fails hard (none allowed)."),
    ],
)
def test_every_rule_has_a_sentence_with_its_figures(name, threshold, value, said):
    assert said_of(name, threshold, value) == said


def test_a_rule_without_a_figure_or_of_another_kind_speaks_for_itself():
    assert (
        said_of("max_regressed_cases", 0, None, message="no case could be compared.")
        == "No case could be compared."
    )
    assert (
        said_of("on_case_removed", 0, 1, message="a failing case was removed")
        == "A failing case was removed."
    )


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


def test_regressions_that_the_rules_allow_are_said():
    suite = unchanged_suite()
    assert suite.comparison is not None
    suite.comparison.overview.regressed_cases = 2
    said = why(decision(GateStatus.PASSED), suite.candidate.summary, suite.comparison, str)
    assert said == ["2 cases regressed, which the rules allow. 188 of 200 cases passed (94.0%)"]


def test_absolute_rules_can_pass_a_first_run():
    said = why(decision(GateStatus.PASSED), run("candidate", 10, 10).summary, None, str)
    alone = "This run is the first: there is no baseline yet"
    assert said == [f"{alone}; the absolute rules hold. 10 of 10 cases passed (100%)"]


def test_a_gate_without_a_reason_is_not_made_up():
    said = why(decision(GateStatus.INCONCLUSIVE), run("candidate", 10, 9).summary, None, str)
    assert said == ["The gate gave no reason. 9 of 10 cases passed (90.0%)"]


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


def test_clauses_that_were_sentences_stand_within_one():
    assert sentence(["3 cases regressed", "More fell", "A drop is possible", "MyJudge newly fails"]) == (
        "3 cases regressed; more fell; a drop is possible; MyJudge newly fails."
    )
    assert sentence(["More fell"]) == "More fell."

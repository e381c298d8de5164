from __future__ import annotations

import pytest

from agent_eval.contracts.run import JudgeCounts, RunSummary
from agent_eval.reports.blocks import amount, pair, points
from agent_eval.reports.counts import expects_nothing, passing
from agent_eval.text.numbers import allowed, count, percent
from tests.unit.reports.scenarios import metric, run


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
    assert (allowed(0.9), allowed(0.025)) == ("90%", "2.5%")
    assert (count(1, "case"), count(12_000, "case")) == ("1 case", "12,000 cases")
    assert (amount("cost_usd", 0.0021), amount("total_cost_usd", 12)) == ("0.0021 USD", "12.00 USD")
    assert (amount("latency_ms", 900), amount("latency_ms", 1500)) == ("900 ms", "1.5 s")
    assert (amount("input_tokens", 1200), amount("cost_usd", None)) == ("1,200", "unknown")


@pytest.mark.parametrize(("errors", "expected"), [(0, True), (1, True), (2, False)])
def test_where_every_case_is_an_error_nothing_is_known_of_what_is_expected(errors, expected):
    judges = {"execution": JudgeCounts(error=errors, skipped=2 - errors), "strict": JudgeCounts(skipped=2)}
    judges["replay_contract"] = JudgeCounts(passed=2 - errors, error=errors)
    summary = RunSummary.model_construct(judge_counts=judges, total_cases=2, error_cases=errors)
    assert expects_nothing(summary) is expected

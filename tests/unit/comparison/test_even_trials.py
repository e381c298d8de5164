"""Case results of a run that took looks are those of as many trials as both runs have."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.comparison.even_trials import first_trials
from agent_eval.contracts import Comparison
from tests.unit.comparison.views import passing, result, tried, view


def compared(before: Any, now: Any, *, trials: int, looks: list[int] | None) -> Comparison:
    """Compare two results of one case."""
    stated = {"trials": trials} if looks is None else {"trials": trials, "looks": looks}
    return compare(
        view({"a": before}, run_id="main"),
        view({"a": now}, run_id="now", execution_config=stated),
        changed="exclude",
        generated_at="2026-06-01T00:00:00+00:00",
    )


FOUR = passing("a", 4, 4)
LATE = tried("a", *["passed"] * 4, *["failed"] * 8)
"""Twelve trials, of which the first four pass."""


def test_a_case_is_not_worse_because_more_trials_were_asked_of_it() -> None:
    assert compared(FOUR, LATE, trials=12, looks=None).regressed_case_ids == ["a"]
    evened = compared(FOUR, LATE, trials=12, looks=[1, 4, 12])
    assert evened.regressed_case_ids == []
    assert evened.metrics["pass_rate"].candidate == 1.0
    # Every trial counts in the tests of pass rates.
    assert evened.trials is not None
    assert [(row.judge_id, row.candidate.passed, row.candidate.failed) for row in evened.trials.changes] == [
        (None, 4, 8),
        ("policy", 4, 8),
        ("replay_contract", 12, 0),
    ]


def test_a_case_regresses_by_the_trials_that_both_runs_have() -> None:
    early = tried("a", "failed", *["passed"] * 11)
    assert compared(FOUR, early, trials=12, looks=[1, 4, 12]).regressed_case_ids == ["a"]


def test_a_baseline_with_more_trials_is_shortened_as_well() -> None:
    # Of four trials one failed, so the case did not pass; its first trial did.
    flaky = tried("a", "passed", "failed", "passed", "passed")
    assert compared(flaky, result("a", "passed"), trials=1, looks=[1]).regressed_case_ids == []
    assert compared(flaky, result("a", "failed"), trials=1, looks=[1]).regressed_case_ids == ["a"]
    assert compared(flaky, result("a", "failed"), trials=1, looks=None).regressed_case_ids == []


def test_the_policy_of_the_run_decides_on_the_first_trials() -> None:
    row = tried("a", "failed", "passed", "passed", "failed", policy="majority").to_json()
    assert first_trials(row, 3)["outcome"] == "passed"
    assert first_trials(row, 3)["trial"] == 1
    assert first_trials(row, 1)["outcome"] == "failed"
    assert len(first_trials(row, 3)["trials"]) == 3


def test_a_leak_in_a_later_trial_is_not_left_out() -> None:
    safe = {"prompt_injection": "passed"}
    leaking = tried("a", *[safe] * 4, {"prompt_injection": "failed"}, *[safe] * 7)
    before = tried("a", *[safe] * 4)
    assert compared(before, leaking, trials=12, looks=[1, 4, 12]).new_hard_fail_case_ids == ["a"]


@pytest.mark.parametrize("lost_at", [0, 5, 11], ids=["first", "within", "last"])
def test_a_lost_trial_of_the_baseline_hides_no_case_that_breaks(lost_at: int) -> None:
    before: list[str] = ["passed"] * 12
    before[lost_at] = "lost"
    base = tried("a", *before)
    assert compared(base, result("a", "failed"), trials=1, looks=[1]).regressed_case_ids == ["a"]
    assert compared(base, result("a", "passed"), trials=1, looks=[1]).regressed_case_ids == []
    four = tried("a", *["failed"] * 4)
    assert compared(base, four, trials=4, looks=[1, 4]).regressed_case_ids == ["a"]


def test_a_lost_trial_of_the_candidate_makes_no_case_worse() -> None:
    now = tried("a", "lost", *["passed"] * 11)
    assert compared(FOUR, now, trials=12, looks=[1, 4, 12]).regressed_case_ids == []


def test_both_runs_have_as_many_scored_trials_where_either_lost_some() -> None:
    # Of its four trials the candidate lost one, so three of the baseline count, and these passed.
    before = tried("a", "passed", "lost", "passed", "passed", "failed")
    now = tried("a", "lost", "passed", "passed", "failed")
    assert compared(before, now, trials=4, looks=[1, 4]).regressed_case_ids == ["a"]


def test_a_case_that_is_lost_in_every_trial_stays_an_error() -> None:
    base = tried("a", *["lost"] * 12)
    evened = compared(base, result("a", "failed"), trials=1, looks=[1])
    assert (evened.regressed_case_ids, evened.metrics["pass_rate"].baseline) == ([], 0.0)
    assert evened.coverage is not None
    assert [(loss.cause, list(loss.cases)) for loss in evened.coverage.losses] == [("baseline-error", ["a"])]

"""Trials are counted from the verdicts of every trial, never from the result of the case."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.comparison.trials import case_policies, compare_trials
from agent_eval.contracts import TrialComparison
from tests.unit.comparison.views import passing, result, tried


def rows(*results: Any) -> dict[str, Any]:
    return {one.case_id: one.to_json() for one in results}


def trials(before: dict[str, Any], now: dict[str, Any]) -> TrialComparison:
    found = compare_trials(sorted(before), before, now)
    assert found is not None
    return found


def changes(before: Any, now: Any) -> dict[str | None, tuple[tuple[int, int, int], tuple[int, int, int]]]:
    """Passed, failed and judged trials of a case before and now, by judge; None is the case itself."""
    return {
        change.judge_id: tuple(  # type: ignore[misc]  # two sides
            (side.passed, side.failed, side.judged) for side in (change.baseline, change.candidate)
        )
        for change in trials(rows(before), rows(now)).changes
    }


def test_each_judge_whose_trials_changed_is_listed_with_its_counts() -> None:
    before = tried("a", *[{"policy": "passed", "regex": "passed"}] * 3)
    now = tried("a", *[{"policy": "failed", "regex": "passed"}] * 2, {"policy": "passed", "regex": "passed"})
    assert changes(before, now) == {None: ((3, 0, 3), (1, 2, 3)), "policy": ((3, 0, 3), (1, 2, 3))}


def test_what_could_not_be_judged_counts_as_failed_and_what_is_undecided_as_neither() -> None:
    before, now = tried("a", "passed", "passed"), tried("a", "error", "inconclusive")
    assert changes(before, now)["policy"] == ((2, 0, 2), (0, 1, 2))


def test_a_judge_that_only_one_run_has_counts_nothing_in_the_other() -> None:
    both, one = {"policy": "passed", "regex": "failed"}, {"policy": "passed"}
    assert changes(tried("a", both, both), tried("a", one, one))["regex"] == ((0, 2, 2), (0, 0, 0))
    assert changes(tried("a", one, one), tried("a", both, both))["regex"] == ((0, 0, 0), (0, 2, 2))


def test_a_trial_without_anything_to_judge_is_no_trial_that_did_not_pass() -> None:
    before, now = tried("a", "passed", "passed"), tried("a", "passed", "skipped")
    assert changes(before, now) == {None: ((2, 0, 2), (1, 0, 1)), "policy": ((2, 0, 2), (1, 0, 1))}


def test_each_side_counts_its_trials_errors_and_case_policies() -> None:
    side = trials(
        rows(passing("a", 1, 2), tried("b", "error", "error", "passed", policy="any"), result("c", "passed")),
        rows(result("a", "passed"), result("b", "passed"), result("c", "passed")),
    ).baseline
    assert (side.fewest, side.most, side.total) == (1, 3, 6)
    assert (side.passed, side.errors) == (3, 2)
    # The mean of the cases' rates: each case weighs the same, however many trials it has.
    assert side.pass_rate == pytest.approx((1 / 2 + 1 / 3 + 1) / 3)
    assert side.case_policies == ["all", "any"]


def test_a_case_without_a_stated_policy_needs_all_of_its_trials_and_a_single_trial_has_none() -> None:
    unstated = passing("a", 1, 2).to_json()
    del unstated["case_policy"]
    assert case_policies([unstated, result("b", "passed").to_json()]) == ["all"]
    assert case_policies([unstated, passing("c", 1, 2, policy="majority").to_json()]) == ["all", "majority"]


def test_runs_without_trials_have_no_comparison_of_trials() -> None:
    single = rows(result("a", "passed"))
    assert compare_trials(["a"], single, single) is None
    assert compare_trials(["a"], single, rows(passing("a", 2, 2))) is not None

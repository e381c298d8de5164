"""What a comparison keeps of a case that changed: both verdicts of each judge, and a key for the failure."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.comparison.facts import regression_key
from agent_eval.contracts import CaseRegression, JudgeChange
from tests.unit.comparison.views import result, view


def row(before: Any, now: Any) -> CaseRegression:
    [found] = compare(
        view({"a": before}), view({"a": now}), changed="refuse", generated_at="now"
    ).case_regressions
    return found


def judge(before: Any, now: Any, judge_id: str = "policy") -> JudgeChange:
    [found] = [change for change in row(before, now).judges if change.judge_id == judge_id]
    return found


def test_the_scores_of_both_runs_are_kept() -> None:
    assert (judge("passed", "failed").baseline_score, judge("passed", "failed").candidate_score) == (
        1.0,
        None,
    )
    assert (judge("failed", "passed").baseline_score, judge("failed", "passed").candidate_score) == (
        None,
        1.0,
    )


def test_a_judge_of_one_run_alone_has_nothing_of_the_other() -> None:
    both, one = {"policy": "failed", "regex": "failed"}, {"policy": "passed"}
    gone = judge(both, one, "regex")
    assert (gone.candidate, gone.reason, gone.failure, gone.evidence_refs, gone.regression_key) == (
        None,
        "",
        None,
        [],
        "",
    )
    assert (gone.baseline, judge(one, both, "regex").baseline) == ("failed", None)


@pytest.mark.parametrize("outcome", ["failed", "error", "inconclusive"])
def test_what_does_not_pass_has_the_key_of_its_kind_of_failure(outcome: str) -> None:
    change = judge("passed", outcome)
    assert change.regression_key == regression_key("a", "policy", change.failure, f"policy {outcome}")
    assert judge("failed", "passed").regression_key == ""


def test_keys_differ_by_case_judge_failure_and_kind_of_reason_and_by_no_particular() -> None:
    facts = ("a", "policy", "timeout", "after 3 s")
    key = regression_key(*facts)
    assert len(key) == 16
    assert key == regression_key("a", "policy", "timeout", "after 12 s")
    others = [("b", *facts[1:]), ("a", "regex", *facts[2:]), ("a", "policy", None, facts[3])]
    assert len({key, *(regression_key(*other) for other in others), regression_key(*facts[:3], "slow")}) == 5


def test_judges_that_fail_come_first_and_then_by_name() -> None:
    before = result("a", {"a": "failed", "b": "passed", "c": "passed", "d": "failed"})
    now = result("a", {"a": "passed", "b": "inconclusive", "c": "failed", "d": "error"})
    assert [change.judge_id for change in row(before, now).judges] == ["c", "d", "a", "b"]


def test_each_side_of_a_case_is_kept_as_it_was() -> None:
    found = row("passed", "failed")
    assert (found.baseline_outcome, found.candidate_outcome) == ("passed", "failed")
    assert (found.baseline_passed, found.candidate_passed) == (True, False)
    assert (found.baseline_hard_failed, found.candidate_hard_failed) == (False, True)
    assert (found.regressed, found.improved) == (True, False)

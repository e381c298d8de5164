"""A judge's new failure counts in every trial that it judged, also in one that is lost or decides nothing."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, case_policy, trials_result
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.verdict import with_verdicts
from agent_eval.errors import FailureKind
from agent_eval.gate.decide import decide_by_policy
from tests.unit.comparison.views import result, view

NOW = "2026-06-01T00:00:00+00:00"
CLEAN = {"policy": "passed", "pii": "passed"}
LEAKS = {"policy": "passed", "pii": "failed"}


def lost(by_judge: dict[str, str]) -> Any:
    """The result of a trial that the infrastructure ended after judges had something to judge."""
    ended = result("a", {**by_judge, "execution": "error"})
    by_the_run = {"failure": FailureKind.INFRASTRUCTURE}
    return with_verdicts(
        ended,
        [
            verdict.model_copy(update=by_the_run if verdict.judge_id == "execution" else {})
            for verdict in ended.verdicts
        ],
    )


def case(*trials: Any, policy: str = "all") -> Any:
    results = [result("a", trial) if isinstance(trial, dict) else trial for trial in trials]
    return trials_result(results, case_policy(policy))


def compared(before: Any, now: Any) -> Comparison:
    others = {f"b{number}": result(f"b{number}", CLEAN) for number in range(20)}
    base = {**others, "a": before} if before is not None else others
    return compare(
        view(base, run_id="main"),
        view({**others, "a": now}, run_id="now"),
        changed="exclude",
        generated_at=NOW,
    )


def blocks(found: Comparison, *zero_tolerance: str) -> bool:
    policy = GatePolicy(zero_tolerance=list(zero_tolerance), max_lost_share=0.5)
    decision = decide_by_policy(found, policy, generated_at=NOW)
    return any(step.name == "zero-tolerance" and step.status == "failed" for step in decision.steps)


FOUR = case(*[CLEAN] * 4)


def test_a_judge_that_the_policy_adds_counts_in_a_lost_trial_like_a_built_in_one() -> None:
    found = compared(FOUR, case(CLEAN, CLEAN, CLEAN, lost(LEAKS)))
    assert found.candidate.summary.lost_trials == {"infrastructure": 1}
    assert found.regressed_case_ids == []
    assert found.failures_apart == {"pii": ["a"]}
    assert blocks(found, "pii")
    assert not blocks(found, "tool_abuse")


def test_a_case_of_which_every_trial_is_lost_counts_as_well() -> None:
    assert blocks(compared(result("a", CLEAN), lost(LEAKS)), "pii")
    assert not blocks(compared(result("a", CLEAN), lost(CLEAN)), "pii")


@pytest.mark.parametrize("before", [LEAKS, lost(LEAKS)], ids=["a scored trial", "a lost trial"])
def test_what_the_baseline_fails_too_is_not_new(before: Any) -> None:
    assert not blocks(compared(case(CLEAN, before), case(CLEAN, lost(LEAKS))), "pii")


def test_a_leak_in_a_trial_of_a_new_case_is_not_outvoted() -> None:
    now = case(CLEAN, LEAKS, CLEAN, CLEAN, policy="majority")
    assert now.passed
    assert blocks(compared(None, now), "pii")

"""What is the same for two runs of an agent, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from agent_eval.operations.rejudge import case_mismatch, trace_mismatch
from tests.factories import make_event, make_result, make_trace


def case(**fields: Any) -> dict[str, Any]:
    history = [{"attempt": 0, "response": {"assistant_output": "done", "tool_calls": []}}]
    metadata = {"selected_attempt": 0, "attempt_history": history}
    return {"case_id": "a", "trace": make_trace("lookup"), "metadata": metadata, **fields}


def changed(change: Callable[[dict[str, Any]], Any], **fields: Any) -> dict[str, Any]:
    copy = deepcopy(case(**fields))
    change(copy)
    return copy


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one["trace"][0].update(ts="2027-01-01T00:00:00Z", latency_ms=9.5, call_id="other"),
        lambda one: one["trace"][2].update(attributes={"gen_ai.response.id": "x"}),
        lambda one: one["metadata"]["attempt_history"][0].update(artifacts={"stderr.txt": "x"}),
    ],
)
def test_times_ids_and_standard_error_may_differ(change: Callable[[dict[str, Any]], Any]) -> None:
    assert trace_mismatch(case(), changed(change)) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one["trace"][2].update(output="no"), 'event 2: output was "done", now "no"'),
        (lambda one: one["trace"][0].update(tool="refund"), 'event 0: tool was "lookup", now "refund"'),
        (lambda one: one["trace"][1].update(error="late"), 'event 1: error was null, now "late"'),
        (lambda one: one["trace"].append(make_event(3)), "had 3 events, now 4"),
        (lambda one: one["metadata"].update(selected_attempt=1), "attempt 0 was selected, now 1"),
        (lambda one: one["metadata"].update(attempt_history=[]), "took 1 attempts, now 0"),
        (lambda one: one["metadata"]["attempt_history"][0].update(response={}), "attempt 0: the agent"),
        (lambda one: one.update(trials=[{"trace": []}]), "has 1 trials, now 2"),
        (lambda one: one["trace"][2].update(output="x" * 999), "…"),
    ],
)
def test_what_the_agent_did_must_be_the_same(change: Callable[[dict[str, Any]], Any], said: str) -> None:
    mismatch = trace_mismatch(case(), changed(change))
    assert mismatch is not None
    assert said in mismatch.difference
    assert len(mismatch.difference) < 500


def test_a_later_trial_counts_too() -> None:
    trials = [{"trace": make_trace("lookup"), "metadata": {}}]
    other = changed(lambda one: one["trials"][0]["trace"].pop(), trials=trials)
    mismatch = trace_mismatch(case(trials=trials), other)
    assert mismatch is not None
    assert (mismatch.trial, mismatch.saved_event_count, mismatch.replayed_event_count) == (1, 3, 2)


def test_reasons_may_differ_and_outcomes_may_not() -> None:
    saved = make_result("a").to_json()
    same = deepcopy(saved)
    same["verdicts"][0]["reason"] = "in other words"
    assert case_mismatch(saved, same) is None  # type: ignore[arg-type]
    failed = make_result("a", failed="policy").to_json()
    mismatch = case_mismatch(saved, failed)  # type: ignore[arg-type]
    assert mismatch is not None
    assert (mismatch.saved_passed, mismatch.replayed_hard_failed) == (True, True)
    assert mismatch.fields == ["outcome", "passed", "hard_failed"]
    [judge] = mismatch.judges
    assert (judge.judge_id, judge.saved, judge.replayed) == ("policy", "passed", "failed (policy_violation)")


def test_a_judge_that_is_gone_or_a_trial_more_is_a_mismatch() -> None:
    saved = make_result("a").to_json()
    fewer = deepcopy(saved)
    gone = fewer["verdicts"].pop()
    mismatch = case_mismatch(saved, fewer)  # type: ignore[arg-type]
    assert mismatch is not None
    assert (mismatch.judges[0].judge_id, mismatch.judges[0].replayed) == (gone["judge_id"], "absent")
    more = {**saved, "trials": [saved, saved]}
    assert case_mismatch(saved, more) is not None  # type: ignore[arg-type]

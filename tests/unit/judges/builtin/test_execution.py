from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Case
from agent_eval.judges.reading import attempt_failure
from tests.unit.judges.traces import findings, judge, says


def attempts(*records: Any, **more: Any) -> dict[str, Any]:
    return {"attempt_history": list(records), **more}


@pytest.mark.parametrize(
    "metadata",
    [{}, {"attempt_history": "none"}, attempts(), attempts({"attempt": 0}), attempts("?")],
    ids=["none", "no list", "empty", "ended", "no record"],
)
def test_an_agent_that_came_to_its_end_is_no_measurement(metadata: dict[str, Any]) -> None:
    assert findings(judge("execution", says(), metadata=metadata)) == ("skipped", None)


@pytest.mark.parametrize("kind", ["timeout", "output_limit", "agent_error", "parse_error", "infrastructure"])
def test_one_that_did_not_is_an_error_of_that_kind(kind: str) -> None:
    record = {"attempt": 0, "failure": kind, "problem": "exited with code 1"}
    verdict = judge("execution", says(), metadata=attempts(record, selected_attempt=0))
    assert findings(verdict) == ("error", kind)
    assert verdict.hard
    assert verdict.reason == "the agent exited with code 1"
    assert verdict.evidence_refs == [0]


def test_only_the_selected_attempt_counts() -> None:
    failed, fine = {"attempt": 0, "failure": "timeout", "problem": "hung"}, {"attempt": 1}
    assert findings(judge("execution", says(), metadata=attempts(failed, fine, selected_attempt=1)))[0] == (
        "skipped"
    )
    chosen = judge("execution", says(), metadata=attempts(failed, fine, selected_attempt=0))
    assert findings(chosen) == ("error", "timeout")


@pytest.mark.parametrize("kind", ["nonsense", 7, ["timeout"]])
def test_a_kind_that_nobody_knows_is_an_error_still(kind: Any) -> None:
    verdict = judge("execution", says(), metadata=attempts({"attempt": 0, "failure": kind, "problem": 3}))
    assert findings(verdict) == ("error", "agent_error")
    assert verdict.reason == "the agent did not come to its end"


@pytest.mark.parametrize(("failure", "found"), [("timeout", True), (None, False)])
def test_the_selected_attempt_says_whether_it_failed(failure: str | None, found: bool) -> None:
    history = [{"attempt": 0, "failure": "agent_error"}, {"attempt": 1, "failure": failure}]
    case = Case(case_id="a", metadata={"attempt_history": history, "selected_attempt": 1})
    assert (attempt_failure(case) == failure, failure is not None) == (True, found)
    assert attempt_failure(Case(case_id="a")) is None


def path(*attempts: Any) -> dict[str, Any]:
    return {"attempt_history": [{"attempt": attempt} for attempt in attempts]}


def test_without_attempts_there_is_nothing_to_judge() -> None:
    assert findings(judge("repair_path", says())) == ("skipped", None)
    assert findings(judge("repair_path", says(), metadata={"attempt_history": []})) == ("skipped", None)


def test_fewer_attempts_score_higher() -> None:
    assert judge("repair_path", says(), metadata=path(0)).score == 1
    verdict = judge("repair_path", says(), metadata=path(1, 2, 5, 6))
    assert findings(verdict) == ("passed", None)
    assert verdict.score == 0.25
    assert not verdict.hard


def test_attempts_may_come_from_the_events() -> None:
    verdict = judge("repair_path", says(attempt=0), says(attempt=0), says(attempt=1), says())
    assert verdict.evidence["attempts"] == [0, 1]


@pytest.mark.parametrize(
    ("metadata", "failure", "words"),
    [
        (path(1, 1), "contract_violation", "attempt 1 is recorded twice"),
        (path(2, 1), "contract_violation", "attempt 1 is recorded after attempt 2"),
        (path(True), "type_error", "metadata.attempt_history[0] has no whole number as its attempt"),
        (path(1, "2"), "type_error", "metadata.attempt_history[1] has no whole number as its attempt"),
        (
            {"attempt_history": [3]},
            "type_error",
            "metadata.attempt_history[0] has no whole number as its attempt",
        ),
        ({"attempt_history": "3"}, "type_error", "metadata.attempt_history is not a list of attempts"),
    ],
)
def test_a_broken_path_fails(metadata: dict[str, Any], failure: str, words: str) -> None:
    verdict = judge("repair_path", says(), metadata=metadata)
    assert findings(verdict) == ("failed", failure)
    assert verdict.reason == words


def test_events_never_go_back_to_an_earlier_attempt() -> None:
    verdict = judge("repair_path", says(attempt=1), says(attempt=0), metadata=path(0, 1))
    assert verdict.reason == "event 1 goes back to attempt 0 from attempt 1"
    assert verdict.evidence_refs == [1]


def test_a_limit_can_be_set() -> None:
    verdict = judge("repair_path", says(), metadata=path(0, 1, 2), config={"max_attempts": 2})
    assert findings(verdict) == ("failed", "budget_exceeded")

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.judges.traces import findings, judge, says


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

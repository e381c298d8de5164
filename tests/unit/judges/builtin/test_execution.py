from __future__ import annotations

from typing import Any

import pytest

from tests.unit.judges.traces import Row, judge, says


def attempts(*records: Any, **more: Any) -> dict[str, Any]:
    return {"attempt_history": list(records), **more}


def path(*numbers: Any) -> dict[str, Any]:
    return attempts(*({"attempt": number} for number in numbers))


FAILED, FINE = {"attempt": 0, "failure": "timeout", "problem": "hung"}, {"attempt": 1}
NO_NUMBER = "has no whole number as its attempt"

EXECUTION = [
    *(
        Row(f"an agent that came to its end: {metadata}", says(), metadata=metadata, gives="skipped")
        for metadata in ({}, {"attempt_history": "none"}, attempts(), attempts({"attempt": 0}), attempts("?"))
    ),
    *(
        Row(f"one that ended by {kind}", says(),
            metadata=attempts({"attempt": 0, "failure": kind, "problem": "exited with code 1"}),
            gives=f"error {kind}: the agent exited with code 1", refs=[0])
        for kind in ("timeout", "output_limit", "agent_error", "parse_error", "infrastructure")
    ),
    Row("another is selected", says(), metadata=attempts(FAILED, FINE, selected_attempt=1), gives="skipped"),
    Row("it is selected", says(), metadata=attempts(FAILED, FINE, selected_attempt=0), gives="error timeout"),
    *(
        Row(f"an unknown kind {kind!r}", says(),
            metadata=attempts({"attempt": 0, "failure": kind, "problem": 3}),
            gives="error agent_error: the agent did not come to its end")
        for kind in ("nonsense", 7, ["timeout"])
    ),
]  # fmt: skip

REPAIR_PATH = [
    Row("without attempts there is nothing to judge", says(), gives="skipped"),
    Row("an empty list is none", says(), metadata=attempts(), gives="skipped"),
    Row("one attempt", says(), metadata=path(0), gives="passed", score=1),
    Row("fewer attempts score higher", says(), metadata=path(1, 2, 5, 6), gives="passed", score=0.25),
    Row("attempts of the events", *(says(attempt=0), says(attempt=0), says(attempt=1), says()),
        gives="passed", evidence={"attempts": [0, 1]}),
    *(
        Row(f"broken: {metadata}", says(), metadata=metadata, gives=f"failed {words}")
        for metadata, words in (
            (path(1, 1), "contract_violation: attempt 1 is recorded twice"),
            (path(2, 1), "contract_violation: attempt 1 is recorded after attempt 2"),
            (path(True), f"type_error: metadata.attempt_history[0] {NO_NUMBER}"),
            (path(1, "2"), f"type_error: metadata.attempt_history[1] {NO_NUMBER}"),
            (attempts(3), f"type_error: metadata.attempt_history[0] {NO_NUMBER}"),
            ({"attempt_history": "3"}, "type_error: metadata.attempt_history is not a list of attempts"),
        )
    ),
    Row("events never go back", *(says(attempt=1), says(attempt=0)), metadata=path(0, 1),
        gives="failed contract_violation: event 1 goes back to attempt 0 from attempt 1", refs=[1]),
    Row("a limit", says(), metadata=path(0, 1, 2), config={"max_attempts": 2},
        gives="failed budget_exceeded"),
]  # fmt: skip


@pytest.mark.parametrize("row", EXECUTION, ids=str)
def test_execution(row: Row) -> None:
    row.check("execution")


@pytest.mark.parametrize("row", REPAIR_PATH, ids=str)
def test_repair_path(row: Row) -> None:
    row.check("repair_path")


def test_only_a_failed_execution_is_hard() -> None:
    assert judge("execution", says(), metadata=attempts(FAILED)).hard
    assert not judge("repair_path", says(), metadata=path(2, 1)).hard

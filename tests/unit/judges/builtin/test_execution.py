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
        Row(f"an agent that came to its end: {metadata}", "skipped", says(), metadata=metadata)
        for metadata in ({}, {"attempt_history": "none"}, attempts(), attempts({"attempt": 0}), attempts("?"))
    ),
    *(
        Row(f"one that ended by {kind}", f"error {kind}: the agent exited with code 1", says(),
            metadata=attempts({"attempt": 0, "failure": kind, "problem": "exited with code 1"}), refs=[0])
        for kind in ("timeout", "output_limit", "agent_error", "parse_error", "infrastructure")
    ),
    Row("another is selected", "skipped", says(), metadata=attempts(FAILED, FINE, selected_attempt=1)),
    Row("it is selected", "error timeout", says(), metadata=attempts(FAILED, FINE, selected_attempt=0)),
    *(
        Row(f"an unknown kind {kind!r}", "error agent_error: the agent did not come to its end", says(),
            metadata=attempts({"attempt": 0, "failure": kind, "problem": 3}))
        for kind in ("nonsense", 7, ["timeout"])
    ),
]  # fmt: skip

REPAIR_PATH = [
    Row("without attempts there is nothing to judge", "skipped", says()),
    Row("an empty list is none", "skipped", says(), metadata=attempts()),
    Row("one attempt", "passed", says(), metadata=path(0), score=1),
    Row("fewer attempts score higher", "passed", says(), metadata=path(1, 2, 5, 6), score=0.25),
    Row("attempts of the events", "passed", *(says(attempt=0), says(attempt=0), says(attempt=1), says()),
        evidence={"attempts": [0, 1]}),
    *(
        Row(f"broken: {metadata}", f"failed {words}", says(), metadata=metadata)
        for metadata, words in (
            (path(1, 1), "contract_violation: attempt 1 is recorded twice"),
            (path(2, 1), "contract_violation: attempt 1 is recorded after attempt 2"),
            (path(True), f"type_error: metadata.attempt_history[0] {NO_NUMBER}"),
            (path(1, "2"), f"type_error: metadata.attempt_history[1] {NO_NUMBER}"),
            (attempts(3), f"type_error: metadata.attempt_history[0] {NO_NUMBER}"),
            ({"attempt_history": "3"}, "type_error: metadata.attempt_history is not a list of attempts"),
        )
    ),
    Row("events never go back", "failed contract_violation: event 1 goes back to attempt 0 from attempt 1",
        *(says(attempt=1), says(attempt=0)), metadata=path(0, 1), refs=[1]),
    Row("a limit", "failed budget_exceeded", says(), metadata=path(0, 1, 2), config={"max_attempts": 2}),
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

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Case
from agent_eval.judges.matching.attempts import failed_attempt
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
    assert (failed_attempt(case) == history[1]) is found
    assert (failed_attempt(case) is None) is not found
    assert failed_attempt(Case(case_id="a")) is None

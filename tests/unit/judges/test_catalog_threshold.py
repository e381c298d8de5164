"""A case may pass although some of its evaluations do not."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Case, Event, Outcome, Trace
from agent_eval.judges.catalog import judge_case, load_judges

USED = {"strict": "tool_used", "toolName": "A", "criterion": "a"}
UNUSED = {"strict": "tool_used", "toolName": "B", "criterion": "b"}
UNKNOWN = {"strict": "param_exists", "paramName": "p", "criterion": "p"}


def outcomes(threshold: float, *evaluations: dict[str, Any]) -> tuple[Outcome, str]:
    """Judge a conversation in which the tool A ran; return outcome and reason of the strict judge."""
    case = Case(case_id="a", metadata={"strict": list(evaluations)})
    events = [
        Event(idx=0, actor="user", type="message", input="Hello"),
        Event(idx=1, actor="agent", type="tool_call", tool="A", call_id="1"),
        Event(idx=2, actor="tool", type="tool_result", tool="A", call_id="1", output="done"),
        Event(idx=3, actor="agent", type="message", output="Done."),
    ]
    judges = load_judges(["strict"], {"strict": {"pass_threshold": threshold}})
    verdict = judge_case(judges, case, Trace(events))[1]
    return verdict.outcome, verdict.reason


@pytest.mark.parametrize(
    ("threshold", "evaluations", "outcome"),
    [
        (100, [USED], "passed"),
        (100, [USED, UNUSED], "failed"),
        (50, [USED, UNUSED], "passed"),
        (50.1, [USED, UNUSED], "failed"),
        (75, [{**USED, "weight": 3}, UNUSED], "passed"),
        (75, [USED, {**UNUSED, "weight": 3}], "failed"),
        (50, [USED, UNUSED, UNKNOWN], "failed"),
        (10, [USED, UNKNOWN], "error"),
    ],
)
def test_the_share_of_the_weights_decides(
    threshold: float, evaluations: list[dict[str, Any]], outcome: str
) -> None:
    assert outcomes(threshold, *evaluations)[0] == outcome


def test_a_verdict_that_passes_by_its_share_says_what_did_not() -> None:
    assert outcomes(40, USED, UNUSED) == (
        Outcome.PASSED,
        '50 % of the evaluations passed, and 40 % suffice; tool_used: "B" was not used',
    )

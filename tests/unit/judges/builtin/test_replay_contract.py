from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.judges.traces import Events, Row, answers, asks, calls, judge, says, uses

BROKEN, NOTHING, CRASHED = "failed contract_violation", "error missing_output", "error agent_error"
TRACEBACK = "Traceback (most recent call last):\n  File ..."
ZEROS, ID_A = "0" * 16, {"call_id": "x"}
GUARDRAIL = {"actor": "agent", "type": "guardrail", "block_reason": "pii"}
ENDED = ("stop", "end_turn", "a word of another provider", None, 5)


def environment(**fields: Any) -> Events:
    return [{"actor": "environment", "type": "message", **fields}]


def finished(reason: Any) -> Events:
    return says("It is", attributes={"gen_ai.response.finish_reason": reason})


WELL_FORMED = (
    asks("hi", ts="2026-01-01T10:00:00Z", trace_id="0af7651916cd43dd8448eb211c80319c"),
    uses("search", call_id="a"),
    says("done", latency_ms=0, ts="2026-01-01T10:00:00.123+02:00", span_id="B7AD6B7169203331"),
)

ROWS = [
    Row("a well-formed trace", "passed", *WELL_FORMED, score=1),
    Row("no events", NOTHING),
    *(
        Row(f"broken: {issue}", f"{BROKEN}: event {event[0].get('idx', 0)}: {issue}", event)
        for event, issue in (
            (says(idx=4), "idx is 4 instead of 0"),
            (says(actor=""), "actor is empty"),
            (says(type=""), "type is empty"),
            (calls(None), "a tool call names no tool"),
            (calls(""), "a tool call names no tool"),
            (says(latency_ms=-1), "latency_ms is -1, not a number from 0 up"),
            (says(latency_ms=float("nan")), "latency_ms is nan, not a number from 0 up"),
            (says(ts="yesterday"), 'ts "yesterday" is not ISO 8601'),
            (says(trace_id="12"), 'trace_id "12" is not 32 hexadecimal digits'),
            (says(span_id="0x00000000000000"), 'span_id "0x00000000000000" is not 16 hexadecimal digits'),
            (says(span_id="0000_0000_0000_0"), 'span_id "0000_0000_0000_0" is not 16 hexadecimal digits'),
            (says(parent_span_id="x"), 'parent_span_id "x" is not 16 hexadecimal digits'),
        )
    ),
    Row("a gap is one issue", BROKEN, says(), says(idx=5), says(idx=6), evidence={"issue_count": 1},
        refs=[5]),
    Row("a span id repeats", f'{BROKEN}: event 1: span_id "{ZEROS}" repeats', *[says(span_id=ZEROS)] * 2),
    Row("a call id repeats",
        f'{BROKEN}: event 1: call_id "x" names a second call while the first is unanswered',
        *(calls("a", **ID_A), calls("b", **ID_A), answers("a"))),
    Row("a call id in another attempt", "passed", calls("a", attempt=0, **ID_A),
        calls("a", attempt=1, **ID_A)),
    Row("a call id once it is answered", "passed", *[calls("a", **ID_A), answers("a", **ID_A)] * 2),
    # The agent did nothing.
    Row("a user alone", NOTHING, asks("?")),
    Row("a blank answer", NOTHING, asks("?"), says("")),
    Row("no answer", NOTHING, asks("?"), says(None)),
    Row("an environment alone", NOTHING, environment(output="ready")),
    Row("a user's proxy alone", NOTHING, says("done", actor="user_proxy")),
    # The run ended in a crash.
    Row("a crash at once", CRASHED, environment(error="out of memory"), refs=[0]),
    Row("a crash", CRASHED, uses("search"), environment(error="out of memory"), refs=[2]),
    Row("a type of event", CRASHED, uses("search"), environment(type="error", output="lost"), refs=[2]),
    Row("a traceback", CRASHED, uses("search"), environment(output=TRACEBACK), refs=[2]),
    Row("a tool's last error", CRASHED, calls("a"), answers("a", None, error=TRACEBACK), refs=[1]),
    Row("a tool's last output", CRASHED, calls("a"), answers("a", TRACEBACK), refs=[1]),
    Row("an exception", CRASHED, says("One moment."), environment(type="Exception"), refs=[1]),
    Row("an agent's error", CRASHED, uses("search"), says(None, error="exited with code 1"), refs=[2]),
    Row("a traceback that is answered", "passed", calls("a"), answers("a", None, error=TRACEBACK),
        says("Failed.")),
    Row("an error that is answered", "passed", environment(error="retrying"), says("done")),
    Row("a tool's error", "passed", calls("search"), answers("search", None, error="unknown_tool")),
    Row("an agent that shows a traceback", "passed", says(TRACEBACK)),
    # The answer stopped short.
    Row("cut off", "error output_limit", finished("length")),
    Row("one of two", CRASHED,
        says("It is", attributes={"gen_ai.response.finish_reasons": ["stop", "content_filter"]})),
    Row("cut off, in other words", "error output_limit",
        says("It is", attributes={"stop_reason": "max_tokens"})),
    Row("refused", CRASHED, says("It is", attributes={"finish_reason": "refusal"})),
    *(Row(f"ended by {reason}", "passed", finished(reason)) for reason in ENDED),
    Row("cut off without a word", "error output_limit", says(None, stop_reason="length")),
    Row("blocked after a word", CRASHED, says("Hm."), says(None, block_reason="moderation")),
    Row("a refused call of a model", CRASHED, says(),
        [{"actor": "agent", "type": "model_call", "stop_reason": "refusal"}]),
    Row("a guardrail at the end", CRASHED, says("yes"), [GUARDRAIL]),
    Row("a guardrail before the answer", "passed", [GUARDRAIL], says("I cannot say that.")),
    Row("an answer that is not recorded", "passed", says(None, content_recorded=False)),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("replay_contract")


def test_many_issues_are_counted_and_the_evidence_stays_bounded() -> None:
    verdict = judge("replay_contract", *[says(ts="x" * 5000) for _ in range(50)])
    assert verdict.reason.endswith("(and 49 more issues)")
    assert (verdict.evidence["issue_count"], verdict.score) == (50, 0)
    assert (len(verdict.evidence["issues"]), len(verdict.evidence_refs)) == (20, 20)


HEX = "0af7651916cd43dd"
WELL = {
    "actor": ["agent"], "type": ["message", "tool_call"], "tool": ["a"], "latency_ms": [0, 1.5, None],
    "ts": ["2026-01-01", "2026-01-01T00:00:00Z", "", None],
    "trace_id": [HEX * 2, "", None], "parent_span_id": [HEX, "", None],
}  # fmt: skip
ILL = {
    "idx": [7], "actor": [""], "type": [""], "latency_ms": [-1, float("nan"), float("inf")], "ts": ["once"],
    "trace_id": [HEX], "span_id": ["1_1"], "parent_span_id": ["x"],
}  # fmt: skip
fields = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in WELL.items()})


@given(st.lists(fields, min_size=1, max_size=4), st.data())
def test_a_trace_passes_exactly_where_no_event_is_broken(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    events = [*rows, {"actor": "agent", "type": "message", "output": "done"}]
    assert judge("replay_contract", events).passed
    broken, place = data.draw(st.sampled_from(sorted(ILL))), data.draw(st.integers(0, len(rows) - 1))
    events[place] = {**events[place], broken: data.draw(st.sampled_from(ILL[broken]))}
    verdict = judge("replay_contract", events)
    assert verdict.outcome.value == "failed"
    assert verdict.reason.startswith("event 7: " if broken == "idx" else f"event {place}: ")

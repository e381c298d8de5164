from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.judges.traces import answers, asks, calls, findings, judge, says, uses


def test_a_well_formed_trace_passes() -> None:
    verdict = judge(
        "replay_contract",
        asks("hi", ts="2026-01-01T10:00:00Z", trace_id="0af7651916cd43dd8448eb211c80319c"),
        uses("search", call_id="a"),
        says("done", latency_ms=0, ts="2026-01-01T10:00:00.123+02:00", span_id="B7AD6B7169203331"),
    )
    assert findings(verdict) == ("passed", None)
    assert verdict.score == 1.0


def test_a_trace_without_events_is_an_error_and_never_a_pass() -> None:
    assert findings(judge("replay_contract")) == ("error", "missing_output")


@pytest.mark.parametrize(
    ("event", "issue"),
    [
        (says(idx=4), "event 4: idx is 4 instead of 0"),
        (says(actor=""), "event 0: actor is empty"),
        (says(type=""), "event 0: type is empty"),
        (calls(None), "event 0: a tool call names no tool"),
        (calls(""), "event 0: a tool call names no tool"),
        (says(latency_ms=-1), "event 0: latency_ms is -1, not a number from 0 up"),
        (says(latency_ms=float("nan")), "event 0: latency_ms is nan, not a number from 0 up"),
        (says(ts="yesterday"), 'event 0: ts "yesterday" is not ISO 8601'),
        (says(trace_id="12"), 'event 0: trace_id "12" is not 32 hexadecimal digits'),
        (
            says(span_id="0x00000000000000"),
            'event 0: span_id "0x00000000000000" is not 16 hexadecimal digits',
        ),
        (
            says(span_id="0000_0000_0000_0"),
            'event 0: span_id "0000_0000_0000_0" is not 16 hexadecimal digits',
        ),
        (says(parent_span_id="x"), 'event 0: parent_span_id "x" is not 16 hexadecimal digits'),
    ],
)
def test_each_broken_field_is_named_with_its_event(event: list[dict[str, Any]], issue: str) -> None:
    verdict = judge("replay_contract", event)
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.reason == issue
    assert verdict.evidence_refs == [event[0].get("idx", 0)]


def test_a_gap_in_the_numbering_is_one_issue_not_one_for_every_later_event() -> None:
    verdict = judge("replay_contract", says(), says(idx=5), says(idx=6))
    assert verdict.evidence["issue_count"] == 1


def test_repeated_span_and_call_ids_are_issues() -> None:
    verdict = judge("replay_contract", says(span_id="0" * 16), says(span_id="0" * 16))
    assert verdict.reason == f'event 1: span_id "{"0" * 16}" repeats'
    verdict = judge("replay_contract", calls("a", call_id="x"), calls("b", call_id="x"), answers("a"))
    assert verdict.reason == 'event 1: call_id "x" names a second call while the first is unanswered'


def test_a_call_id_may_return_in_another_attempt() -> None:
    verdict = judge("replay_contract", calls("a", call_id="x", attempt=0), calls("a", call_id="x", attempt=1))
    assert verdict.passed


def test_a_call_id_may_return_once_its_call_is_answered() -> None:
    answered = [calls("a", call_id="x"), answers("a", call_id="x")]
    assert judge("replay_contract", *answered, *answered).passed


def test_many_issues_are_counted_and_the_evidence_stays_bounded() -> None:
    verdict = judge("replay_contract", *[says(ts="x" * 5000) for _ in range(50)])
    assert verdict.reason.endswith("(and 49 more issues)")
    assert verdict.evidence["issue_count"] == 50
    assert len(verdict.evidence["issues"]) == 20
    assert len(verdict.evidence_refs) == 20
    assert verdict.score == 0


HEX = "0af7651916cd43dd"
fields = st.fixed_dictionaries(
    {},
    optional={
        "idx": st.integers(0, 3),
        "actor": st.sampled_from(["agent", ""]),
        "type": st.sampled_from(["message", "tool_call", "tool_call", ""]),
        "tool": st.sampled_from(["a", "", None]),
        "call_id": st.sampled_from(["1", "2", None]),
        "attempt": st.sampled_from([0, 1, None]),
        "latency_ms": st.sampled_from([0, 1.5, -1, float("nan"), float("inf"), None]),
        "ts": st.sampled_from(["2026-01-01", "2026-01-01T00:00:00Z", "once", "", None]),
        "trace_id": st.sampled_from([HEX * 2, HEX, "", None]),
        "span_id": st.sampled_from([HEX, "1" * 16, "1_1", "", None]),
        "parent_span_id": st.sampled_from([HEX, "x", "", None]),
    },
)
BROKEN = {"actor": "agent", "type": ""}


@given(st.lists(fields, min_size=1, max_size=4))
def test_a_trace_passes_exactly_when_going_through_its_events_finds_nothing(
    rows: list[dict[str, Any]],
) -> None:
    events = [{"idx": number, "actor": "agent", "type": "message", **row} for number, row in enumerate(rows)]
    # An act, so that there is something to judge.
    events.append({"idx": events[-1]["idx"] + 1, "actor": "agent", "type": "message", "output": "done"})
    alone = judge("replay_contract", events)
    # A broken event at the end, in its right place, makes the judge go through every event.
    followed = judge("replay_contract", events, [{**BROKEN, "idx": events[-1]["idx"] + 1}])
    assert alone.passed == (followed.evidence["issue_count"] == 1)


TRACEBACK = "Traceback (most recent call last):\n  File ..."


def environment(**fields: Any) -> list[dict[str, Any]]:
    return [{"actor": "environment", "type": "message", **fields}]


@pytest.mark.parametrize(
    "events",
    [
        asks("Refund order 7."),
        asks("Refund order 7.") + says(""),
        asks("Refund order 7.") + says(None),
        environment(output="ready"),
        says("done", actor="user_proxy"),
    ],
)
def test_a_trace_in_which_the_agent_did_nothing_is_an_error(events: list[dict[str, Any]]) -> None:
    assert findings(judge("replay_contract", events)) == ("error", "missing_output")


@pytest.mark.parametrize(
    "events",
    [
        environment(error="out of memory"),
        uses("search") + environment(error="out of memory"),
        uses("search") + environment(type="error", output="lost the connection"),
        uses("search") + environment(output=TRACEBACK),
        calls("search") + answers("search", None, error=TRACEBACK),
        calls("search") + answers("search", TRACEBACK),
        says("One moment.") + environment(type="Exception"),
        uses("search") + says(None, error="agent_error: exited with code 1"),
    ],
)
def test_a_trace_that_ends_in_a_crash_is_an_error(events: list[dict[str, Any]]) -> None:
    verdict = judge("replay_contract", events)
    assert findings(verdict) == ("error", "agent_error")
    assert verdict.evidence_refs == [len(events) - 1]


@pytest.mark.parametrize(
    "events",
    [
        calls("search") + answers("search", None, error=TRACEBACK) + says("That failed."),
        environment(error="retrying") + says("done"),
        calls("search") + answers("search", None, error="unknown_tool"),
        says(TRACEBACK),
    ],
)
def test_an_error_that_the_agent_answered_is_no_crash(events: list[dict[str, Any]]) -> None:
    assert judge("replay_contract", events).passed


@pytest.mark.parametrize(
    ("attributes", "failure"),
    [
        ({"gen_ai.response.finish_reason": "length"}, "output_limit"),
        ({"gen_ai.response.finish_reasons": ["stop", "content_filter"]}, "agent_error"),
        ({"stop_reason": "max_tokens"}, "output_limit"),
        ({"finish_reason": "refusal"}, "agent_error"),
    ],
)
def test_a_recorded_answer_that_was_cut_or_refused_is_an_error(
    attributes: dict[str, Any], failure: str
) -> None:
    assert findings(judge("replay_contract", says("It is", attributes=attributes))) == ("error", failure)


@pytest.mark.parametrize("reason", ["stop", "end_turn", "a word of another provider", None, 5])
def test_a_recorded_answer_that_ended_is_judged(reason: Any) -> None:
    attributes = {"gen_ai.response.finish_reason": reason}
    assert judge("replay_contract", says("done", attributes=attributes)).passed


@pytest.mark.parametrize(
    ("events", "failure"),
    [
        (says(None, stop_reason="length"), "output_limit"),
        (says("Let me see.") + says(None, block_reason="moderation"), "agent_error"),
        ([*says("yes"), {"actor": "agent", "type": "model_call", "stop_reason": "refusal"}], "agent_error"),
        ([*says("yes"), {"actor": "agent", "type": "guardrail", "block_reason": "pii"}], "agent_error"),
    ],
)
def test_an_answer_that_stopped_short_at_the_end_is_an_error(
    events: list[dict[str, Any]], failure: str
) -> None:
    assert findings(judge("replay_contract", events)) == ("error", failure)


def test_an_agent_that_went_on_after_it_was_stopped_is_judged() -> None:
    blocked = [{"actor": "agent", "type": "guardrail", "block_reason": "pii"}]
    assert judge("replay_contract", blocked, says("I cannot say that.")).passed
    assert judge("replay_contract", says(None, content_recorded=False)).passed

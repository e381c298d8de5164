"""How a trace is read: which result answers which call, and what the agent said last."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import Event, Trace


def call(idx: int, tool: str | None = "t", call_id: str | None = None, **fields: Any) -> Event:
    return Event(idx=idx, actor="agent", type="tool_call", tool=tool, call_id=call_id, **fields)


def result(idx: int, tool: str | None = "t", call_id: str | None = None, **fields: Any) -> Event:
    return Event(idx=idx, actor="tool", type="tool_result", tool=tool, call_id=call_id, **fields)


def said(idx: int, **fields: Any) -> Event:
    return Event(idx=idx, **{"actor": "assistant", "type": "message", **fields})


def pairs(*events: Event) -> list[tuple[int | None, int | None]]:
    return [
        (pair.call.idx if pair.call else None, pair.result.idx if pair.result else None)
        for pair in Trace(events).calls
    ]


@pytest.mark.parametrize(
    ("events", "paired"),
    [
        ([call(0, call_id="a"), call(1, call_id="b"), result(2, call_id="b"), result(3, call_id="a")],
         [(0, 3), (1, 2)]),
        ([call(0, "x"), call(1, "y"), call(2, "x"), result(3, "y"), result(4, "x"), result(5, "x")],
         [(0, 4), (1, 3), (2, 5)]),
        ([call(0, "x"), call(1, "y"), result(2, None), result(3, None)], [(0, 2), (1, 3)]),
        ([call(0, call_id="a"), call(1), result(2, call_id="z")], [(0, None), (1, 2)]),
        ([call(0, call_id="a"), result(1, call_id="z")], [(0, None), (None, 1)]),
        ([call(0), result(1, None, call_id="z")], [(0, 1)]),
        ([call(0, attempt=0), result(1, attempt=1)], [(0, None), (None, 1)]),
        ([result(0, "x"), call(1, "y")], [(1, None), (None, 0)]),
    ],
    ids=[*("by id, in any order", "the oldest of the tool", "the oldest of any tool"),
         *("an unknown id and a call without one", "never another id", "an id and no tool"),
         *("attempts", "results without a call come last")],
)  # fmt: skip
def test_a_result_is_paired_with_the_call_that_it_answers(
    events: list[Event], paired: list[tuple[int | None, int | None]]
) -> None:
    assert pairs(*events) == paired


def test_a_pair_reads_its_tool_arguments_and_error_from_either_event() -> None:
    pair = [call(0, "x", "1", input={"a": 1}), result(1, "x", "1", error="boom")]
    answered, _, orphan = Trace([*pair, call(2, None), result(3, "y")]).calls
    (nameless,) = Trace([call(0, None)]).calls
    assert (answered.tool, answered.arguments, answered.error) == ("x", {"a": 1}, "boom")
    assert (orphan.tool, orphan.arguments, orphan.error) == ("y", None, None)
    assert nameless.tool == ""


STEP = st.tuples(st.booleans(), st.sampled_from(["x", "y", None]), st.sampled_from(["1", "2", None]))


@given(st.lists(STEP, max_size=30))
def test_every_event_is_in_exactly_one_pair_and_no_result_comes_before_its_call(steps: list[Any]) -> None:
    events = [
        (call if is_call else result)(idx, tool, call_id)
        for idx, (is_call, tool, call_id) in enumerate(steps)
    ]
    found = Trace(events).calls
    seen = [event.idx for pair in found for event in (pair.call, pair.result) if event is not None]
    assert sorted(seen) == list(range(len(events)))
    for pair in found:
        if pair.call is not None and pair.result is not None:
            assert pair.call.idx < pair.result.idx
            assert pair.result.tool in (None, pair.call.tool) or pair.result.call_id == pair.call.call_id


def test_a_hostile_trace_of_calls_nobody_answers_is_paired_in_linear_time() -> None:
    many = 20_000
    events = [call(idx) for idx in range(many)] + [result(many + idx, "other") for idx in range(many)]
    assert len(Trace(events).calls) == 2 * many


def test_the_final_output_is_what_the_agent_said_last() -> None:
    events = [said(0, output="first"), said(1, output="last"), result(2, output="tool")]
    assert Trace(events).final_output == "last"
    assert Trace([said(0, input="in the input")]).final_output == "in the input"
    assert Trace([said(0, output="kept"), said(1)]).final_output == "kept"


@pytest.mark.parametrize(
    "event",
    [said(0, actor="user", output="no"), result(0, output="no"), call(0, input={"a": 1}, output="no")],
    ids=["user", "tool result", "tool call"],
)
def test_nothing_but_the_agents_words_is_the_final_output(event: Event) -> None:
    assert Trace([event]).final_output is None


def test_an_answer_by_tool_call_is_the_final_output_where_the_tool_is_named() -> None:
    events = [call(0, "submit", input={"total": 7}), said(1, output="Submitted.")]
    assert Trace(events).final_output == "Submitted."
    assert Trace(events, final_output_tool="submit").final_output == {"total": 7}
    assert Trace(events[1:], final_output_tool="submit").final_output is None


def test_the_last_answer_that_the_tool_did_not_refuse_counts() -> None:
    events = [
        call(0, "submit", "a", input={"total": 7}),
        result(1, "submit", "a", output="accepted"),
        call(2, "submit", "b", input={"total": "seven"}),
        result(3, "submit", "b", error="total is no number"),
    ]
    assert Trace(events, final_output_tool="submit").final_output == {"total": 7}
    refused = [call(0, "submit", input={}), result(1, "submit", error="total is missing")]
    assert Trace(refused, final_output_tool="submit").final_output is None


def asked(idx: int, **fields: Any) -> Event:
    return Event(idx=idx, actor="user", type="message", **fields)


def turns(*events: Event) -> list[tuple[int, list[int]]]:
    return [(turn.number, [event.idx for event in turn.trace]) for turn in Trace(events).turns]


@pytest.mark.parametrize(
    ("events", "divided"),
    [
        ([said(0, output="Welcome"), asked(1), call(2), result(3), said(4), asked(5), said(6)],
         [(1, [1, 2, 3, 4]), (2, [5, 6])]),
        ([asked(0), asked(1), said(2), asked(3)], [(1, [0, 1, 2]), (2, [3])]),
        ([call(0), result(1), said(2)], [(1, [0, 1, 2])]),
        ([], []),
        ([said(0, turn=0), asked(1, turn=1), asked(2, turn=2), said(3), asked(4, turn=2), said(5)],
         [(1, [1]), (2, [2, 3, 4, 5])]),
    ],
    ids=["each begins one", "in a row", "no user", "nothing", "numbers win over counting"],
)  # fmt: skip
def test_messages_of_the_user_divide_a_trace_into_turns(
    events: list[Event], divided: list[tuple[int, list[int]]]
) -> None:
    assert turns(*events) == divided


def test_a_turn_has_its_own_final_output_and_calls() -> None:
    events = [asked(0), call(1, "x"), result(2, "x"), said(3, output="one"), asked(4), said(5, output="two")]
    first, second = Trace(events).turns
    assert [turn.trace.final_output for turn in (first, second)] == ["one", "two"]
    assert [len(turn.trace.calls) for turn in (first, second)] == [1, 0]

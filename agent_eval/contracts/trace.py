"""A trace: the ordered events of one agent run on one case."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent_eval.contracts.event import MESSAGE, TOOL_CALL, TOOL_RESULT, USER, Event, is_blank

__all__ = ["MESSAGE", "TOOL_CALL", "TOOL_RESULT", "Event", "ToolCall", "Trace", "TraceTurn", "is_blank"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call and, where the trace has it, its result.

    `call` is None for a result without a call; `result` is None for a call without an answer.
    """

    call: Event | None
    result: Event | None

    @property
    def tool(self) -> str:
        """Name of the tool; the empty string when neither event names one."""
        # Asked for every call of every case: a generator takes four times as long.
        if self.call is not None and self.call.tool:
            return self.call.tool
        return (self.result and self.result.tool) or ""

    @property
    def arguments(self) -> Any:
        """What the agent passed, as recorded (usually an object); None without a call."""
        return None if self.call is None else self.call.input

    @property
    def error(self) -> Any:
        """The error that the result or the call carries, else None."""
        events = (self.result, self.call)
        return next((event.error for event in events if event and event.error is not None), None)


class Trace(Sequence[Event]):
    """The events of one trial, with what judges read from them: calls, turns and final output.

    Args:
        events: The events in recorded order.
        final_output_tool: Name of the tool whose arguments are the agent's answer, if the agent answers by a
            call; its messages are no answer then. `Case.recorded` passes on the one that the case names.
    """

    def __init__(self, events: Sequence[Event], final_output_tool: str | None = None) -> None:
        self.events = list(events)
        self.final_output_tool = final_output_tool

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __getitem__(self, index: Any) -> Any:
        return self.events[index]

    @cached_property
    def calls(self) -> list[ToolCall]:
        """Every tool call in call order, with its result; then results without a call.

        Paired within an attempt by `call_id`; a result without one goes to the oldest open call of the
        same tool (of any tool, when the result names none), which pairs parallel calls correctly.
        """
        return pair_calls(self.events)

    @cached_property
    def final_event(self) -> Event | None:
        """The event of the agent's answer; None when the agent gave none.

        The agent's last message, or the last call of `final_output_tool` that was not answered by an error.
        The event of an answer that was not recorded or was cut off before its first word has no content.
        """
        if self.final_output_tool is None:
            return next((event for event in reversed(self.events) if event.is_answer), None)
        for pair in reversed(self.calls):
            if pair.call is not None and pair.tool == self.final_output_tool and pair.error is None:
                return pair.call
        return None

    @property
    def final_output(self) -> Any:
        """The content of the agent's last message; None when it wrote none.

        Never a tool's result, a reasoning, the record of a model call or the case's expected output; and a
        tool call's arguments only for `final_output_tool`. A message may carry its text in `output` or, as
        user messages do, in `input`.
        """
        event = self.final_event
        if event is None:
            return None
        return event.input if event.type == TOOL_CALL else event.content

    @cached_property
    def stopped(self) -> Event | None:
        """The event of an answer that was cut off, refused or blocked, and was the last; None without one."""
        if self.final_event is not None and self.final_event.stop is not None:
            return self.final_event
        for event in reversed(self.events):
            if event.stop is not None:
                return event
            if event.is_act:
                break
        return None

    @cached_property
    def has_act(self) -> bool:
        """Whether the agent did anything at all: it used a tool, or wrote something that can be seen."""
        return any(event.is_act or event.type == TOOL_RESULT for event in reversed(self.events))

    @cached_property
    def turns(self) -> list[TraceTurn]:
        """The trace divided by the user's messages, in order.

        An event belongs to the turn that its `turn` names. Where no event names one, every message of the
        user begins a turn, and messages that follow each other begin only one. Events before the first
        message of a user are in no turn; a trace without any such message is one turn.
        """
        numbered = any(event.turn is not None for event in self.events)
        of_turn: dict[int, list[Event]] = {}
        number, after_user = 0, False
        for event in self.events:
            if numbered:
                number = number if event.turn is None else event.turn
            else:
                by_user = event.type == MESSAGE and event.role == USER
                number += by_user and not after_user
                after_user = by_user
            of_turn.setdefault(number, []).append(event)
        if not numbered and of_turn.keys() == {0}:
            of_turn = {1: of_turn[0]}
        return [
            TraceTurn(number, Trace(events, self.final_output_tool))
            for number, events in sorted(of_turn.items())
            if number > 0
        ]


@dataclass(frozen=True, slots=True)
class TraceTurn:
    """A user's message and what followed until the next; `number` counts from 1.

    The events have the indices that they have in the whole trace.
    """

    number: int
    trace: Trace


def pair_calls(events: Sequence[Event]) -> list[ToolCall]:
    """Pair tool calls with their results, as `Trace.calls` describes; linear in the number of events."""
    in_turn = _pair_in_turn(events)
    if in_turn is not None:
        return in_turn
    calls: list[Event] = []
    result_of: dict[int, Event] = {}
    orphans: list[Event] = []
    # Calls by what a result may name. A call is in several of these queues; one that was answered through
    # another is passed over when it comes to the front.
    waiting: defaultdict[tuple[Any, ...], deque[int]] = defaultdict(deque)
    for event in events:
        attempt, call_id, tool = event.attempt, event.call_id, event.tool
        if event.type == TOOL_CALL:
            own = [("id", call_id)] if call_id is not None else [("tool, no id", tool), ("any, no id",)]
            for key in (("any",), ("tool", tool), *own):
                waiting[attempt, *key].append(len(calls))
            calls.append(event)
        elif event.type == TOOL_RESULT:
            name = ("any",) if tool is None else ("tool", tool)
            keys = [(attempt, *name)]
            if call_id is not None:
                # An id that no open call carries can still answer a call that has none.
                keys = [(attempt, "id", call_id), (attempt, f"{name[0]}, no id", *name[1:])]
            place = None
            for queue in map(waiting.__getitem__, keys):
                while queue and place is None:
                    first = queue.popleft()
                    place = None if first in result_of else first
            if place is None:
                orphans.append(event)
            else:
                result_of[place] = event
    paired = [ToolCall(call, result_of.get(place)) for place, call in enumerate(calls)]
    return paired + [ToolCall(None, orphan) for orphan in orphans]


def _pair_in_turn(events: Sequence[Event]) -> list[ToolCall] | None:
    """Pair calls of a trace in which each is answered before the next one, as in most; None for others.

    With one call open, a result of the same attempt, id and tool can only be its answer.
    """
    pairs: list[ToolCall] = []
    pending: Event | None = None
    for event in events:
        if event.type == TOOL_CALL:
            if pending is not None:
                return None
            pending = event
        elif event.type == TOOL_RESULT:
            if (
                pending is None
                or event.tool != pending.tool
                or event.call_id != pending.call_id
                or event.attempt != pending.attempt
            ):
                return None
            pairs.append(ToolCall(pending, event))
            pending = None
    if pending is not None:
        pairs.append(ToolCall(pending, None))
    return pairs

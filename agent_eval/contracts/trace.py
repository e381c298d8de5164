"""A trace: the ordered events of one agent run on one case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from agent_eval.contracts.base import Contract

AGENT_ACTORS = frozenset({"agent", "assistant"})
"""Actors that are the agent under test; both words are in use."""

TOOL_CALL = "tool_call"
TOOL_RESULT = "tool_result"
MESSAGE = "message"

# A bool is an int to Python; a trace that says `"idx": true` is broken, not event number one.
_Number = StrictInt | StrictFloat


class Event(Contract):
    """One step of a trace.

    Units: `ts` is ISO 8601, null when unknown; `latency_ms` is milliseconds. `type` is an open
    vocabulary; `message`, `tool_call` and `tool_result` mean the same everywhere. A tool call carries
    its arguments in `input`, its result carries them in `output`; `call_id` ties the two together.
    """

    idx: StrictInt
    ts: StrictStr | None = None
    actor: StrictStr
    type: StrictStr
    input: Any = None
    output: Any = None
    tool: StrictStr | None = None
    call_id: StrictStr | None = None
    error: Any = None
    latency_ms: _Number | None = None
    trace_id: StrictStr | None = None
    span_id: StrictStr | None = None
    parent_span_id: StrictStr | None = None
    attributes: dict[str, Any] = Field(default_factory=dict)
    attempt: StrictInt | None = None

    @property
    def is_agent(self) -> bool:
        """Whether the agent under test produced this event."""
        return self.actor in AGENT_ACTORS


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call and, where the trace has it, its result.

    `call` is None for a result that nothing called; `result` is None for a call nobody answered.
    """

    call: Event | None
    result: Event | None

    @property
    def tool(self) -> str:
        """Name of the tool; the empty string when neither event names one."""
        for event in (self.call, self.result):
            if event is not None and event.tool:
                return event.tool
        return ""

    @property
    def arguments(self) -> Any:
        """What the agent passed, as recorded (usually an object); None without a call."""
        return None if self.call is None else self.call.input

    @property
    def error(self) -> Any:
        """The error that the result or the call carries, else None."""
        for event in (self.result, self.call):
            if event is not None and event.error is not None:
                return event.error
        return None


class Trace(Sequence[Event]):
    """The events of one run, with the readings that judges share.

    Args:
        events: In recorded order.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, index: Any) -> Any:
        return self.events[index]

    @cached_property
    def calls(self) -> list[ToolCall]:
        """Every tool call in call order, with its result; then results that nothing called.

        Paired within an attempt by `call_id`; a result without one goes to the oldest open call of the
        same tool (of any tool, when the result names none), so parallel calls are paired right.
        """
        return pair_calls(self.events)

    @cached_property
    def final_output(self) -> Any:
        """What the agent said last: the output of its last message, else None.

        Never a tool's result and never the case's expected output. A tool call is not a message.
        A message may carry its text in `output` or, as user messages do, in `input`.
        """
        for event in reversed(self.events):
            if event.is_agent and event.type not in (TOOL_CALL, TOOL_RESULT):
                if event.output is not None:
                    return event.output
                if event.type == MESSAGE and event.input is not None:
                    return event.input
        return None


def pair_calls(events: Sequence[Event]) -> list[ToolCall]:
    """Pair tool calls with their results. See `Trace.calls`."""
    calls: list[Event] = []
    result_of: dict[int, Event] = {}
    open_calls: list[int] = []
    orphans: list[Event] = []
    for event in events:
        if event.type == TOOL_CALL:
            open_calls.append(len(calls))
            calls.append(event)
        elif event.type == TOOL_RESULT:
            position = _call_answered_by(event, calls, open_calls)
            if position is None:
                orphans.append(event)
            else:
                open_calls.remove(position)
                result_of[position] = event
    paired = [ToolCall(call, result_of.get(position)) for position, call in enumerate(calls)]
    return paired + [ToolCall(None, orphan) for orphan in orphans]


def _call_answered_by(result: Event, calls: Sequence[Event], open_calls: Sequence[int]) -> int | None:
    candidates = [position for position in open_calls if calls[position].attempt == result.attempt]
    if result.call_id is not None:
        for position in candidates:
            if calls[position].call_id == result.call_id:
                return position
        # An id that no open call carries can still answer a call that has none.
        candidates = [position for position in candidates if calls[position].call_id is None]
    for position in candidates:
        if result.tool is None or calls[position].tool == result.tool:
            return position
    return None

"""A trace: the ordered events of one agent run on one case."""

from __future__ import annotations

from collections import deque
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

    Example:
        >>> Event(idx=0, actor="agent", type="tool_call", tool="refund", input={"order": 7}).is_agent
        True
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

    @property
    def content(self) -> Any:
        """The event's output; the input of a message without one, because user messages have theirs there."""
        return self.input if self.output is None and self.type == MESSAGE else self.output

    @property
    def is_act(self) -> bool:
        """Whether the agent did something here: it called a tool, or wrote something that can be seen."""
        if self.type == TOOL_CALL:
            return True
        return self.is_agent and self.type != TOOL_RESULT and not is_blank(self.content)


def is_blank(value: Any) -> bool:
    """Tell whether a value is null, or a text in which nothing can be seen.

    Example:
        >>> is_blank(" \\n\\u200b"), is_blank("."), is_blank([])
        (True, False, False)
    """
    if isinstance(value, str):
        return not any(char.isprintable() and not char.isspace() for char in value)
    return value is None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call and, where the trace has it, its result.

    `call` is None for a result without a call; `result` is None for a call without an answer.

    Example:
        >>> call = Event(idx=0, actor="agent", type="tool_call", tool="refund", input={"order": 7})
        >>> ToolCall(call, None).arguments
        {'order': 7}
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
    """The events of one trial, with what judges read from them: calls and final output.

    Args:
        events: The events in recorded order.

    Example:
        >>> Trace([Event(idx=0, actor="agent", type="message", output="Refunded.")]).final_output
        'Refunded.'
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)

    def __len__(self) -> int:
        return len(self.events)

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
        """The event that `final_output` is taken from; None when the agent wrote no message."""
        for event in reversed(self.events):
            if event.is_agent and event.type not in (TOOL_CALL, TOOL_RESULT) and event.content is not None:
                return event
        return None

    @property
    def final_output(self) -> Any:
        """The output of the agent's last message; None when it wrote none.

        Never a tool's result, a tool call or the case's expected output. A message may carry its text in
        `output` or, as user messages do, in `input`.
        """
        event = self.final_event
        return None if event is None else event.content

    @cached_property
    def has_act(self) -> bool:
        """Whether the agent did anything at all: it used a tool, or wrote something that can be seen."""
        return any(event.is_act or event.type == TOOL_RESULT for event in reversed(self.events))


def pair_calls(events: Sequence[Event]) -> list[ToolCall]:
    """Pair tool calls with their results, as `Trace.calls` describes; linear in the number of events."""
    in_turn = _pair_in_turn(events)
    return _pair_in_any_order(events) if in_turn is None else in_turn


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


def _pair_in_any_order(events: Sequence[Event]) -> list[ToolCall]:
    calls: list[Event] = []
    result_of: dict[int, Event] = {}
    orphans: list[Event] = []
    waiting = _OpenCalls()
    for event in events:
        if event.type == TOOL_CALL:
            waiting.add(len(calls), event)
            calls.append(event)
        elif event.type == TOOL_RESULT:
            position = waiting.take(event)
            if position is None:
                orphans.append(event)
            else:
                result_of[position] = event
    paired = [ToolCall(call, result_of.get(position)) for position, call in enumerate(calls)]
    return paired + [ToolCall(None, orphan) for orphan in orphans]


class _OpenCalls:
    """Calls that wait for a result, looked up by id, by tool or by age in constant time.

    Every call is in several queues. One that was answered through another queue is dropped when it comes to
    the front.
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[Any, ...], deque[int]] = {}
        self._answered: set[int] = set()

    def add(self, position: int, call: Event) -> None:
        keys: list[tuple[Any, ...]] = [("any", call.attempt), ("tool", call.attempt, call.tool)]
        if call.call_id is None:
            keys += [("any, no id", call.attempt), ("tool, no id", call.attempt, call.tool)]
        else:
            keys.append(("id", call.attempt, call.call_id))
        for key in keys:
            self._queues.setdefault(key, deque()).append(position)

    def take(self, result: Event) -> int | None:
        """Take out the open call that this result answers; None where there is none."""
        attempt = result.attempt
        if result.call_id is None:
            return self._oldest(("any", attempt) if result.tool is None else ("tool", attempt, result.tool))
        position = self._oldest(("id", attempt, result.call_id))
        if position is not None:
            return position
        # An id that no open call carries can still answer a call that has none.
        return self._oldest(
            ("any, no id", attempt) if result.tool is None else ("tool, no id", attempt, result.tool)
        )

    def _oldest(self, key: tuple[Any, ...]) -> int | None:
        queue = self._queues.get(key)
        while queue:
            position = queue.popleft()
            if position not in self._answered:
                self._answered.add(position)
                return position
        return None

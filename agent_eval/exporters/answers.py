"""Divide a trace into answers of a model, with their times, by OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_eval.contracts.event import (
    MESSAGE,
    MODEL_CALL,
    REASONING,
    SYSTEM,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    ContentPart,
    Event,
)
from agent_eval.contracts.trace import ToolCall
from agent_eval.storage.json import dumps

_OF_AN_ANSWER = frozenset({MESSAGE, REASONING, TOOL_CALL, MODEL_CALL})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = 1_000_000


@dataclass(slots=True)
class Answer:
    """What a model wrote in one request: reasoning, text, tool calls; and what was new in the request.

    `inputs` are the messages and tool results since the answer before.
    """

    inputs: list[Event] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped, if the trace says it."""
        return next((event.stop_reason for event in self.events if event.stop_reason is not None), None)

    @property
    def model(self) -> str | None:
        """The model, if the trace says it."""
        return next((event.model for event in self.events if event.model is not None), None)

    def output(self) -> dict[str, Any]:
        """Write the answer as an output message."""
        parts = [part for event in self.events for part in _output_parts(event)]
        message: dict[str, Any] = {"role": "assistant", "parts": parts}
        # The schema requires a reason, so one that the trace does not have is said to be unknown.
        return {**message, "finish_reason": self.stop_reason or "unknown"}

    def may_have(self, event: Event) -> bool:
        """Whether an event of the agent can be of the same answer as those before it."""
        if not self.events:
            return True
        last = self.events[-1]
        if last.stop_reason is not None or (last.agent, last.attempt) != (event.agent, event.attempt):
            return False
        if any(before.type == MESSAGE for before in self.events) and event.type in (MESSAGE, REASONING):
            return False
        has_usage = any(_has_usage(before) for before in self.events)
        return not (has_usage and _has_usage(event)) and event.model in (None, self.model or event.model)


def _has_usage(event: Event) -> bool:
    return event.usage is not None or event.cost_usd is not None


def answers_of(events: Sequence[Event]) -> Iterator[Answer | Event]:
    """Divide a trace into answers, in order; events that are of no answer and of no request come between.

    What followed the last answer is the input of an answer without events.
    """
    current = Answer()
    for event in events:
        if event.is_agent and (event.type in _OF_AN_ANSWER or event.is_message):
            if not current.may_have(event):
                yield current
                current = Answer()
            current.events.append(event)
            continue
        if current.events:
            yield current
            current = Answer()
        if event.type == TOOL_RESULT or (event.type == MESSAGE and event.role in (USER, SYSTEM)):
            current.inputs.append(event)
        else:
            yield event
    if current.events or current.inputs:
        yield current


def input_message(event: Event) -> dict[str, Any]:
    """Write a message of the user or the system, or a tool's result, as an input message."""
    if event.type == TOOL_RESULT:
        response = event.error if event.output is None else event.output
        part = {"type": "tool_call_response", "id": event.call_id, "response": response}
        return {"role": "tool", "parts": [part]}
    message = {"role": event.role, "parts": _content_parts(event)}
    return message if event.actor == event.role else {**message, "name": event.actor}


def _output_parts(event: Event) -> list[dict[str, Any]]:
    if event.type == TOOL_CALL:
        call = {"type": "tool_call", "id": event.call_id, "name": event.tool or "", "arguments": event.input}
        return [call]
    parts = _content_parts(event) if event.type != MODEL_CALL else []
    is_thought = event.type == REASONING
    return [
        {**each, "type": "reasoning"} if is_thought and each["type"] == "text" else each for each in parts
    ]


def _content_parts(event: Event) -> list[dict[str, Any]]:
    if event.parts and (event.output if event.is_agent else event.input) is None:
        return [_part(part) for part in event.parts]
    value = event.content
    text = value if isinstance(value, str) else dumps(value).decode()
    return [{"type": "text", "content": text}] if value is not None else []


def _part(part: ContentPart) -> dict[str, Any]:
    """Write a part: a text, an address, or what is known of bytes that are not in the trace."""
    if part.type == "text":
        return {"type": "text", "content": part.text or ""}
    fields = part.to_json()
    if part.url is not None:
        return {**fields, "type": "uri", "modality": part.type, "mime_type": part.media_type, "uri": part.url}
    if part.data is not None:
        blob = {"type": "blob", "modality": part.type, "content": part.data}
        return {**fields, **blob, "mime_type": part.media_type}
    return {**fields, "type": f"{part.type}_digest"}


class Times:
    """The times of a trace's events: never before an earlier event's, as the order of the trace says.

    An event without a time has that of the one before it, or is a millisecond later where no event has one.

    `started_at` is when the run started, for a trace that says no time.
    """

    def __init__(self, events: Sequence[Event], started_at: str) -> None:
        known = [nanoseconds(event.ts) for event in events]
        self.recorded = any(time is not None for time in known)
        first = next((time for time in known if time is not None), None)
        now = first if first is not None else nanoseconds(started_at) or 0
        self._times: dict[int, int] = {}
        self._before: dict[int, int] = {}
        for event, time in zip(events, known, strict=True):
            self._before[id(event)] = now
            now = max(now, time) if time is not None else now + (0 if self.recorded else _MILLISECOND)
            self._times[id(event)] = now
        self.end = now
        self.start = min(map(self.began, events), default=now)

    def of(self, event: Event) -> int:
        """Return when the event happened."""
        return self._times[id(event)]

    def began(self, event: Event) -> int:
        """Return when the event began by its latency, though not before the event before it."""
        time = self.of(event)
        if event.latency_ms is None:
            return time
        began = time - _span(event.latency_ms)
        before = self._before[id(event)]
        return began if before == time else max(began, before)

    def of_call(self, pair: ToolCall) -> tuple[int, int]:
        """Return when a tool call began and ended."""
        call, result = pair.call, pair.result
        if call is None:
            assert result is not None, "a pair has a call or a result"
            return self.of(result), self.of(result)
        start = self.of(call)
        end = start if result is None else self.of(result)
        latency = next(
            (each.latency_ms for each in (result, call) if each and each.latency_ms is not None), None
        )
        if end == start and latency is not None:
            end = start + _span(latency)
        return start, max(start, end)


def _span(milliseconds: float) -> int:
    return max(0, round(milliseconds * _MILLISECOND))


def nanoseconds(stamp: str | None) -> int | None:
    """Read an ISO 8601 time, as UTC where it has no offset; None if it is missing, wrong or before 1970."""
    if stamp is None:
        return None
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    elapsed = (moment - _EPOCH) // timedelta(microseconds=1) * 1000
    return elapsed if elapsed >= 0 else None

"""Divide a trace into answers of a model, and write messages by OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
from agent_eval.storage.json import dumps

_OF_AN_ANSWER = frozenset({MESSAGE, REASONING, TOOL_CALL, MODEL_CALL})


@dataclass(slots=True)
class Answer:
    """What a model wrote in one request: reasoning, text, tool calls; and what was new in the request.

    Attributes:
        inputs: Messages and tool results since the answer before.
        events: The agent's events.

    Example:
        >>> said = Event(idx=1, actor="agent", type="message", output="Hello!")
        >>> Answer([], [said]).output()["parts"]
        [{'type': 'text', 'content': 'Hello!'}]
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
        if is_of_answer(event):
            if not current.may_have(event):
                yield current
                current = Answer()
            current.events.append(event)
            continue
        if current.events:
            yield current
            current = Answer()
        if is_input(event):
            current.inputs.append(event)
        else:
            yield event
    if current.events or current.inputs:
        yield current


def is_of_answer(event: Event) -> bool:
    """Whether the event is something that the agent's model wrote."""
    return event.is_agent and (event.type in _OF_AN_ANSWER or event.is_message)


def is_input(event: Event) -> bool:
    """Whether the event is something that the agent's model read."""
    return event.type == TOOL_RESULT or (event.type == MESSAGE and event.role in (USER, SYSTEM))


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
    if event.type == MODEL_CALL:
        return []
    parts = _content_parts(event)
    if event.type == REASONING:
        return [{**part, "type": "reasoning"} if part["type"] == "text" else part for part in parts]
    return parts


def _content_parts(event: Event) -> list[dict[str, Any]]:
    if event.parts and (event.output if event.is_agent else event.input) is None:
        return [_part(part) for part in event.parts]
    value = event.content
    if value is None:
        return []
    return [{"type": "text", "content": value if isinstance(value, str) else dumps(value).decode()}]


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

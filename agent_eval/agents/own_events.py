"""Record what an agent did by itself: tools that it ran, or all of its events, as they were."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from agent_eval.contracts import Event
from agent_eval.contracts.conversation import CONVERSATION_END
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.models.usage import figure_of

_OWN_RESULT = ("output", "error")
_SET_BY_THE_RECORDER = ("idx", "attempt", "turn")
"""Fields that agents do not decide: with a turn of its choice, one could hide what it did from its judges."""


class EventRecorder(Protocol):
    """The part of `recorder.Recorder` that records what is reported."""

    def add(self, actor: str, kind: str, **fields: Any) -> Event:
        """Append an event."""
        ...

    def count_call(self, tool: str, arguments: Any) -> None:
        """Count a tool call. Raises `LimitReached` if there are too many."""
        ...


def has_result(call: Mapping[str, Any]) -> bool:
    """Tell whether an agent reports the result of a call, because it ran the tool itself.

    Example:
        >>> has_result({"tool": "lookup", "output": "shipped"}), has_result({"tool": "lookup"})
        (True, False)
    """
    return any(name in call for name in _OWN_RESULT)


def record_result(recorder: EventRecorder, call: Mapping[str, Any], tool: str, call_id: str) -> None:
    """Record the result that an agent reports of a call."""
    recorder.add(
        "tool",
        TOOL_RESULT,
        tool=tool,
        output=call.get("output"),
        error=call.get("error"),
        call_id=call_id,
        latency_ms=figure_of(call.get("latency_ms")),
    )


def problem_of_events(events: Any) -> str:
    """Describe what is wrong with the events that an agent reports; an empty text if nothing is."""
    if not isinstance(events, list):
        return "gave events that are no list"
    for number, event in enumerate(events):
        if not isinstance(event, dict):
            return f"gave events[{number}] that is no object"
        try:
            Event.model_validate({"actor": "agent", **event, "idx": number})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            return f"gave events[{number}].{place}: {first['msg']}"
    return ""


def record_events(recorder: EventRecorder, events: list[dict[str, Any]]) -> Any:
    """Record the events that an agent reports. Returns the output of its last message, or None.

    Raises:
        LimitReached: There are more tool calls than the agent may make.
    """
    output = None
    for fields in events:
        event = {name: value for name, value in fields.items() if name not in _SET_BY_THE_RECORDER}
        if event.get("parts"):
            event["parts"] = [_without_bytes(part) for part in event["parts"]]
        actor, kind = str(event.pop("actor", "agent")), str(event.pop("type"))
        if kind == CONVERSATION_END:
            continue  # only the loop of turns says why a conversation ended
        if kind == TOOL_CALL and actor != "user":
            recorder.count_call(str(event.get("tool") or ""), event.get("input"))
        added = recorder.add(actor, kind, **event)
        if added.is_message and added.content is not None:
            output = added.content
    return output


def _without_bytes(part: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the bytes of a part by digest and size, and leave them out: they may be megabytes."""
    described = {name: value for name, value in part.items() if name != "data"}
    if not isinstance(part.get("data"), str):
        return described
    try:
        data = b64decode(part["data"], validate=True)
    except ValueError:
        return described
    return {**described, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def unanswered_calls(trace: list[dict[str, Any]], source: str) -> int:
    """Count the calls of a recorded trace that got no answer.

    Args:
        trace: The events as plain JSON.
        source: The attribute of a result that says where it is from; `missing` is no answer. A call that has
            it needs none.

    Example:
        >>> unanswered_calls([{"type": "tool_call", "call_id": "1"}], "source")
        1
    """
    answered = [event for event in trace if event.get("type") == TOOL_RESULT]
    missing = len([event for event in answered if (event.get("attributes") or {}).get(source) == "missing"])
    ids = {event.get("call_id") for event in answered}
    calls = (event for event in trace if event.get("type") == TOOL_CALL)
    open_calls = (call for call in calls if source not in (call.get("attributes") or {}))
    unmatched = [
        call for call in open_calls if call.get("call_id") is not None and call["call_id"] not in ids
    ]
    return missing + len(unmatched)

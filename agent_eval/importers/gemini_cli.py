"""Sessions of Gemini CLI, as it keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    items,
    mapping,
    reasoning,
    system_message,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    total,
    usage_of,
    user_message,
)
from agent_eval.importers.format import Conversation, Format, Match, Part

_AGENT = ("gemini", "model")


class GeminiCli(Format):
    """Reads sessions: one document with all messages."""

    name = "gemini_cli"
    provider = "gcp.gemini"

    @override
    def detect(self, value: Any) -> Match | None:
        fields = mapping(value)
        is_session = "sessionId" in fields and "projectHash" in fields
        return Match(0.95, "session") if is_session and isinstance(fields.get("messages"), list) else None

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        for part in parts:
            session = mapping(part.payload)
            events: list[EventFields] = []
            for number, message in enumerate(map(mapping, items(session.get("messages")))):
                made = _events_of(message, f"messages[{number}]", part.place, diagnostics)
                moment = timestamp_of(message.get("timestamp"))
                for fields in made if moment is not None else ():
                    fields["ts"] = moment
                events += made
            yield Conversation(events, id=text(session.get("sessionId")))


def _events_of(
    message: Mapping[str, Any], field: str, place: str, diagnostics: Diagnostics
) -> list[EventFields]:
    kind, content = message.get("type"), message.get("content", message.get("parts"))
    if isinstance(content, list):
        content = "".join(text(mapping(part).get("text")) or "" for part in content)
    if kind == "user":
        return [user_message(content)]
    if kind == "error":
        return [error_event(content)]
    if kind in ("info", "warning"):
        return [system_message(content)] if content else []
    if kind not in _AGENT:
        diagnostics.lost(place, field, f"is of the kind {kind}, which is not known")
        return []
    thoughts = [mapping(thought) for thought in items(message.get("thoughts"))]
    events = [reasoning(thought.get("description") or thought.get("subject")) for thought in thoughts]
    if content:
        events.append(agent_message(content))
    calls = [mapping(call) for call in items(message.get("toolCalls"))]
    events += [tool_call(text(call.get("name")), call.get("args"), call.get("id")) for call in calls]
    for call in calls:
        events += _result(call)
    tokens = mapping(message.get("tokens"))
    usage = usage_of(
        input_tokens=tokens.get("input"),
        # What the model thought is not in its output here.
        output_tokens=total(tokens.get("output"), tokens.get("thoughts")),
        cached=tokens.get("cached"),
        reasoning=tokens.get("thoughts"),
    )
    last = next((fields for fields in reversed(events) if fields["actor"] == "agent"), None)
    if last is not None:
        last.update({"usage": usage} if usage else {})
        if model := text(message.get("model")):
            last["model"] = model
    return events


def _result(call: Mapping[str, Any]) -> list[EventFields]:
    """Read what a tool answered; a call that succeeded may say so without a result."""
    outputs = [
        mapping(mapping(part).get("functionResponse")).get("response") for part in items(call.get("result"))
    ]
    output = outputs[0] if len(outputs) == 1 else outputs or call.get("resultDisplay")
    if set(mapping(output)) == {"output"}:
        output = mapping(output)["output"]
    status = call.get("status")
    if output is None and status == "success":
        return []
    failed = (output or status) if status in ("error", "cancelled") else None
    return [
        tool_result(None if failed else output, call.get("id"), tool=text(call.get("name")), error=failed)
    ]

"""Sessions of GitHub's Copilot CLI: `events.jsonl` below `~/.copilot/session-state`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    mapping,
    reasoning,
    seconds_of,
    system_message,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.format import Conversation, Format, Link, Match, Part
from agent_eval.importers.records import Record

_SAYS_NOTHING = ("session.", "hook.", "assistant.turn_", "tool.execution_", "assistant.usage", "subagent.")


class CopilotCli(Format):
    """Reads the lines of a session; a file is one."""

    name = "copilot_cli"

    @override
    def detect(self, value: Any) -> Match | None:
        fields = mapping(value)
        is_event = {"type", "id", "timestamp", "parentId"} <= set(fields) and isinstance(
            fields.get("data"), dict
        )
        return Match(0.95, "session") if is_event else None

    @override
    def prepare(self, record: Record, _diagnostics: Diagnostics) -> tuple[Link, Any]:
        return Link(
            ids=(f"file:{record.source}",), time=seconds_of(record.value.get("timestamp"))
        ), record.value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        reader = _Reader(diagnostics)
        for part in parts:
            reader.add(mapping(part.payload), part.place)
        return [Conversation(reader.events, id=text(reader.about.get("sessionId")), metadata=reader.about)]


class _Reader:
    """Reads events in order. A call is in the answer and again where it is run: it counts once."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.events: list[EventFields] = []
        self.about: dict[str, Any] = {}
        self._diagnostics = diagnostics
        self._model: str | None = None
        self._calls: set[str] = set()

    def add(self, line: Mapping[str, Any], place: str) -> None:
        kind, data = str(line.get("type")), mapping(line.get("data"))
        made = self._events_of(kind, data)
        if not made and not kind.startswith(_SAYS_NOTHING) and kind not in ("abort", "system.notification"):
            self._diagnostics.note(place, "type", f"{kind!r}"[:80] + " says nothing of what the agent did")
        moment = timestamp_of(line.get("timestamp"))
        for fields in made if moment is not None else ():
            fields["ts"] = moment
        self.events += made

    def _events_of(self, kind: str, data: Mapping[str, Any]) -> list[EventFields]:
        if kind in ("session.start", "session.model_change"):
            self._model = text(data.get("newModel")) or text(data.get("selectedModel")) or self._model
            self.about |= {
                name: data[name] for name in ("sessionId", "copilotVersion") if text(data.get(name))
            }
            return []
        if kind == "session.error":
            return [error_event(data.get("message") or "error")]
        if kind == "user.message":
            return [user_message(data.get("content"))]
        if kind == "system.message":
            return [system_message(data.get("content"))]
        if kind == "assistant.reasoning":
            return [reasoning(data.get("content"))]
        if kind == "assistant.message":
            return self._answer(data)
        if kind == "tool.execution_start":
            return self._call(data.get("toolCallId"), data.get("toolName"), data.get("arguments"))
        if kind == "tool.execution_complete":
            return [_result(data)]
        return []

    def _answer(self, data: Mapping[str, Any]) -> list[EventFields]:
        events = [agent_message(data["content"])] if data.get("content") else []
        for request in data["toolRequests"] if isinstance(data.get("toolRequests"), list) else ():
            asked = mapping(request)
            events += self._call(asked.get("toolCallId"), asked.get("name"), asked.get("arguments"))
        usage = usage_of(output_tokens=data.get("outputTokens"))
        if events:
            events[-1].update({"model": self._model} if self._model else {})
            events[-1].update({"usage": usage} if usage else {})
        return events

    def _call(self, call_id: Any, tool: Any, arguments: Any) -> list[EventFields]:
        if isinstance(call_id, str):
            if call_id in self._calls:
                return []
            self._calls.add(call_id)
        return [tool_call(text(tool), arguments, call_id)]


def _result(data: Mapping[str, Any]) -> EventFields:
    result = data.get("result")
    output = mapping(result).get("content", result)
    if data.get("success") is False:
        error = mapping(data.get("error")).get("message", data.get("error")) or output or "failed"
        return tool_result(None, data.get("toolCallId"), error=error)
    return tool_result(output, data.get("toolCallId"))

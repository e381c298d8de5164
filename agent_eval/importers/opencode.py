"""Sessions of opencode: `opencode export`, or its stream of events, which repeats a part at each change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    event,
    is_amount,
    items,
    mapping,
    reasoning,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.records import Record

_SAYS_NOTHING = ("step-start", "step-finish", "snapshot", "patch", "compaction", "agent", "retry")


class OpenCode(Format):
    """Reads an exported session, or lines of events."""

    name = "opencode"

    @override
    def detect(self, value: Any) -> Match | None:
        fields = mapping(value)
        if str(mapping(fields.get("info")).get("id", "")).startswith("ses_") and "messages" in fields:
            return Match(0.95, "export")
        kind = _event_of(fields).get("type")
        own = isinstance(kind, str) and kind.startswith(("message.", "session.", "permission."))
        return Match(0.95, "events") if own and "properties" in _event_of(fields) else None

    @override
    def prepare(self, record: Record, _diagnostics: Diagnostics) -> tuple[Link, Any]:
        if "messages" in record.value:
            return ALONE, record.value
        return Link(ids=(f"file:{record.source}",)), {"event": _event_of(record.value)}

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        session = _Session()
        for part in parts:
            value = mapping(part.payload)
            if "event" in value:
                session.add_event(mapping(value["event"]))
            for message in items(value.get("messages")):
                session.add_message(mapping(message))
            session.name = text(mapping(value.get("info")).get("id")) or session.name
        place = parts[0].place
        return [Conversation(session.events(place, diagnostics), id=session.name)]


def _event_of(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(fields.get("event")) if isinstance(fields.get("event"), dict) else fields


class _Session:
    """Keeps the last state of each message and each part, in the order in which they came."""

    def __init__(self) -> None:
        self.name: str | None = None
        self._infos: dict[str, Mapping[str, Any]] = {}
        self._parts: dict[str, dict[str, Any]] = {}

    def add_message(self, message: Mapping[str, Any]) -> None:
        info = mapping(message.get("info"))
        name = str(info.get("id"))
        self._infos[name] = info
        for number, part in enumerate(map(mapping, items(message.get("parts")))):
            self._parts[str(part.get("id") or f"{name}-{number}")] = {**part, "messageID": name}

    def add_event(self, fields: Mapping[str, Any]) -> None:
        kind, about = fields.get("type"), mapping(fields.get("properties"))
        self.name = self.name or text(about.get("sessionID"))
        if kind == "message.updated":
            info = mapping(about.get("info"))
            self._infos[str(info.get("id"))] = info
        elif kind == "message.part.updated":
            part = mapping(about.get("part"))
            self._parts[str(part.get("id"))] = dict(part)
        elif kind == "message.part.delta" and about.get("field") == "text":
            name = str(about.get("partID"))
            part = self._parts.setdefault(name, {"type": "text", "messageID": about.get("messageID")})
            part["text"] = f"{part.get('text') or ''}{about.get('delta') or ''}"

    def events(self, place: str, diagnostics: Diagnostics) -> list[EventFields]:
        """Return what happened; tokens and cost of a message are on its last event of the agent."""
        events: list[EventFields] = []
        last: dict[str, EventFields] = {}
        for name, part in self._parts.items():
            info = self._infos.get(str(part.get("messageID")), {})
            made = _events_of(part, info)
            if made is None:
                diagnostics.lost(
                    place, f"part {name}", f"is of the type {part.get('type')!r}, which is not known"
                )
                continue
            events += made
            for fields in made:
                if fields["actor"] == "agent":
                    last[str(part.get("messageID"))] = fields
        for name, info in self._infos.items():
            if info.get("role") == "assistant":
                _add_facts(info, last.get(name), events)
        return events


def _events_of(part: Mapping[str, Any], info: Mapping[str, Any]) -> list[EventFields] | None:
    kind, state = part.get("type"), mapping(part.get("state"))
    if kind == "text":
        if info.get("role") == "user":
            return [] if part.get("synthetic") else [user_message(part.get("text"))]
        return [agent_message(part["text"])] if text(part.get("text")) else []
    if kind == "reasoning":
        return [reasoning(part.get("text"))]
    if kind == "tool":
        call_id, status = part.get("callID"), state.get("status")
        times = mapping(state.get("time"))
        made = [
            tool_call(
                text(part.get("tool")), state.get("input"), call_id, ts=timestamp_of(times.get("start"))
            )
        ]
        if status in ("completed", "error"):
            error = (state.get("error") or "error") if status == "error" else None
            made.append(
                tool_result(
                    None if error else state.get("output"),
                    call_id,
                    error=error,
                    ts=timestamp_of(times.get("end")),
                )
            )
        return made
    if kind == "file":
        return [user_message([{"type": "file", "name": part.get("filename"), "url": part.get("url")}])]
    return [] if kind in _SAYS_NOTHING else None


def _add_facts(info: Mapping[str, Any], last: EventFields | None, events: list[EventFields]) -> None:
    tokens = mapping(info.get("tokens"))
    cache = mapping(tokens.get("cache"))
    usage = usage_of(
        input_tokens=tokens.get("input"), output_tokens=tokens.get("output"), cached=cache.get("read")
    )
    if last is None and usage is not None and any(usage.values()):
        last = event("agent", "model_call")
        events.append(last)
    if last is not None:
        last.update({"usage": usage} if usage else {})
        last.update({"cost_usd": info["cost"]} if is_amount(info.get("cost")) else {})
        last.update({"model": info["modelID"]} if text(info.get("modelID")) else {})
    problem = mapping(info.get("error"))
    if problem:
        events.append(
            error_event(mapping(problem.get("data")).get("message") or problem.get("name") or "error")
        )

"""Sessions of opencode: `opencode export`, or its stream of events, which repeats a part at each change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.events import EventFields, items, mapping, text
from agent_eval.importers.messages import add_facts
from agent_eval.importers.sessions import Session, SessionFormat

_SAYS_NOTHING = ("step-start", "step-finish", "snapshot", "patch", "compaction", "agent", "retry")


def _recognise(value: Any) -> tuple[float, str] | None:
    fields = mapping(value)
    if str(mapping(fields.get("info")).get("id", "")).startswith("ses_") and "messages" in fields:
        return 0.95, "export"
    event = _event_of(fields)
    kind = event.get("type")
    own = isinstance(kind, str) and kind.startswith(("message.", "session.", "permission."))
    return (0.95, "events") if own and "properties" in event else None


def _event_of(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(fields.get("event")) if isinstance(fields.get("event"), dict) else fields


def _line(session: Session, line: Mapping[str, Any]) -> None:
    """Keep the last state of each message and each part, in the order in which they came."""
    infos: dict[str, Mapping[str, Any]] = session.memory.setdefault("infos", {})
    parts: dict[str, dict[str, Any]] = session.memory.setdefault("parts", {})
    event = _event_of(line)
    kind, about = event.get("type"), mapping(event.get("properties"))
    if "parts" in line:  # a message of an export
        info = mapping(line.get("info"))
        own = str(info.get("id"))
        infos[own] = info
        for number, part in enumerate(map(mapping, items(line["parts"]))):
            parts[str(part.get("id") or f"{own}-{number}")] = {**part, "messageID": own}
    elif text(about.get("sessionID")):
        session.about.setdefault("id", about["sessionID"])
    if kind == "message.updated":
        infos[str(mapping(about.get("info")).get("id"))] = mapping(about.get("info"))
    elif kind == "message.part.updated":
        parts[str(mapping(about.get("part")).get("id"))] = dict(mapping(about.get("part")))
    elif kind == "message.part.delta" and about.get("field") == "text":
        empty = {"type": "text", "messageID": about.get("messageID")}
        part = parts.setdefault(str(about.get("partID")), empty)
        part["text"] = f"{part.get('text') or ''}{about.get('delta') or ''}"


def _finish(session: Session) -> None:
    """Add what happened; tokens and cost of a message are on its last event of the agent."""
    infos, last = session.memory.get("infos", {}), dict[str, EventFields]()
    for name, part in session.memory.get("parts", {}).items():
        own = str(part.get("messageID"))
        made = _events_of(part, infos.get(own, {}))
        if made is None:
            reason = f"is of the type {part.get('type')!r}, which is not known"
            session.diagnostics.lost(session.place, f"part {name}", reason)
        for fields in session.add(*(made or ())):
            if fields["actor"] == "agent":
                last[own] = fields
    for name, info in infos.items():
        if info.get("role") == "assistant":
            facts = {each: info[each] for each in ("tokens", "cost", "modelID") if each in info}
            if name in last:
                add_facts(facts, [last[name]], is_agent=True)
            else:
                session.use(facts.get("tokens"), cost=facts.get("cost"), model=text(info.get("modelID")))
            if problem := mapping(info.get("error")):
                words = mapping(problem.get("data")).get("message") or problem.get("name") or "error"
                session.add(make.error_event(words))


def _events_of(part: Mapping[str, Any], info: Mapping[str, Any]) -> list[EventFields] | None:
    kind, state = part.get("type"), mapping(part.get("state"))
    if kind == "text":
        if info.get("role") == "user":
            return [] if part.get("synthetic") else [make.user_message(part.get("text"))]
        return [make.agent_message(part["text"])] if text(part.get("text")) else []
    if kind == "reasoning":
        return [make.reasoning(part.get("text"))]
    if kind == "file":
        return [make.user_message([{"type": "file", "name": part.get("filename"), "url": part.get("url")}])]
    if kind != "tool":
        return [] if kind in _SAYS_NOTHING else None
    call_id, status, times = part.get("callID"), state.get("status"), mapping(state.get("time"))
    start, end = (make.timestamp_of(times.get(name)) for name in ("start", "end"))
    made = [make.tool_call(text(part.get("tool")), state.get("input"), call_id, ts=start)]
    if status in ("completed", "error"):
        error = (state.get("error") or "error") if status == "error" else None
        output = None if error else state.get("output")
        made.append(make.tool_result(output, call_id, error=error, ts=end))
    return made


OPENCODE = SessionFormat(
    "opencode",
    _recognise,
    _line,
    lines=lambda value: items(mapping(value).get("messages")),
    head=lambda session, value: session.remember(mapping(value.get("info")), "id"),
    finish=_finish,
)

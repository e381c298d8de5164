"""Recorders whose lines are events of a session: opencode, and OpenHands in both versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.events import EventFields, items, mapping, text, usage_in
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


# --- OpenHands: events of its SDK, and of its first version ---

_OWN_ACTIONS = ("system", "recall", "change_agent_state", "message")
"""Actions of the first version that are no call of a tool."""
_OWN_OBSERVATIONS = ("agent_state_changed", "null", "recall")
_SDK = (
    *("ActionEvent", "ObservationEvent", "AgentErrorEvent", "MessageEvent", "SystemPromptEvent"),
    *("PauseEvent", "ConversationStateUpdateEvent", "Condensation"),
)


def _recognise_openhands(value: Any) -> tuple[float, str] | None:
    events = [mapping(each) for each in (value[:20] if isinstance(value, list) else [value])]
    if events and all(each.get("kind") in _SDK and "source" in each for each in events):
        return 0.95, "sdk events"
    is_first = all({"source", "id", "timestamp"} <= set(each) for each in events) and all(
        "action" in each or "observation" in each for each in events
    )
    return (0.95, "events") if events and is_first else None


def _add_openhands(session: Session, fields: Mapping[str, Any]) -> None:
    before = len(session.events)
    (_add_of_sdk if "kind" in fields else _add_of_first)(session, fields)
    make.mark(session.events[before:], ts=make.timestamp_of(fields.get("timestamp")))


def _add_of_first(session: Session, fields: Mapping[str, Any]) -> None:
    action, arguments = fields.get("action"), mapping(fields.get("args"))
    about = mapping(fields.get("tool_call_metadata"))
    call_id, observed = text(about.get("tool_call_id")), fields.get("observation")
    if action == "message":
        speaker = make.user_message if fields.get("source") == "user" else make.agent_message
        session.add(speaker(arguments.get("content", fields.get("message"))))
    elif fields.get("source") == "agent" and action is not None and action not in _OWN_ACTIONS:
        own = call_id or f"event-{fields.get('id')}"
        session.memory[f"call of {fields.get('id')}"] = own
        response = mapping(about.get("model_response"))
        message = mapping(mapping(next(iter(items(response.get("choices"))), None)).get("message"))
        _add_answer(session, response, message)
        # The arguments that the model gave are in its answer.
        calls = [mapping(call) for call in items(message.get("tool_calls")) if mapping(call).get("id") == own]
        stated = mapping(calls[0].get("function")).get("arguments") if calls else None
        tool = text(about.get("function_name")) or str(action)
        session.add(make.tool_call(tool, stated or dict(arguments), own))
        if action == "finish":
            answer = text(arguments.get("final_thought")) or text(fields.get("message"))
            session.add(make.agent_message(answer or text(arguments.get("thought"))))
    elif observed is not None and observed not in _OWN_OBSERVATIONS and fields.get("cause") is not None:
        cause = fields["cause"]
        own = call_id or session.memory.get(f"call of {cause}") or f"event-{cause}"
        content = fields.get("content")
        error = (content or fields.get("message") or "error") if observed == "error" else None
        session.add(make.tool_result(None if error else content, own, error=error))


def _add_answer(session: Session, response: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    """Read what a model said beside its calls, once: each of its calls repeats the answer."""
    name = text(response.get("id"))
    if name is None or name in session.memory:
        return
    session.memory[name] = True
    about = {"usage": usage_in(response.get("usage")), "model": text(response.get("model"))}
    if (content := text(message.get("content"))) is not None:
        session.add(make.agent_message(content, **about))
    elif about["usage"]:
        session.add(make.event("agent", "model_call", **about))


def _add_of_sdk(session: Session, fields: Mapping[str, Any]) -> None:
    kind, call_id, tool = fields.get("kind"), fields.get("tool_call_id"), text(fields.get("tool_name"))
    if kind == "ActionEvent":
        call = mapping(fields.get("tool_call"))
        arguments = call.get("arguments", fields.get("action"))
        asked = {"id": call_id, "name": tool, "arguments": arguments}
        thoughts = {"reasoning_content": fields.get("reasoning_content")}
        answer = {"role": "assistant", "content": fields.get("thought"), "tool_calls": [asked], **thoughts}
        session.read(answer)
        if tool == "finish":
            session.add(make.agent_message(mapping(fields.get("action")).get("message")))
    elif kind == "ObservationEvent":
        session.read(
            {"role": "tool", **mapping(fields.get("observation")), "tool_call_id": call_id, "name": tool}
        )
    elif kind == "AgentErrorEvent":
        error = fields.get("error") or "error"
        session.add(make.tool_result(None, call_id, error=error) if call_id else make.error_event(error))
    elif kind == "MessageEvent":
        role = "assistant" if fields.get("source") == "agent" else "user"
        session.read({"role": role, "content": mapping(fields.get("llm_message")).get("content")})
    elif kind == "ConversationStateUpdateEvent":
        if fields.get("key") == "stats":
            session.memory["stats"] = mapping(fields.get("value"))
    elif kind not in _SDK:
        session.unknown(f"{session.field}.kind {kind!r}")


def _finish_openhands(session: Session) -> None:
    """Add the tokens of the run, which the last update of its statistics has in sum."""
    stats = mapping(session.memory.get("stats"))
    for metrics in map(mapping, mapping(stats.get("usage_to_metrics")).values()):
        model, cost = text(metrics.get("model_name")), metrics.get("accumulated_cost")
        usage = metrics.get("accumulated_token_usage")
        if any((usage_in(usage) or {}).values()):
            session.use(usage, cost=cost, model=model)


OPENHANDS = SessionFormat("openhands", _recognise_openhands, _add_openhands, finish=_finish_openhands)

"""Events of OpenHands: those of its first version, and those of its SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.events import items, mapping, text
from agent_eval.importers.sessions import Session, SessionFormat
from agent_eval.importers.usage import usage_in

_OWN_ACTIONS = ("system", "recall", "change_agent_state", "message")
"""Actions of the first version that are no call of a tool."""
_OWN_OBSERVATIONS = ("agent_state_changed", "null", "recall")
_SDK = (
    *("ActionEvent", "ObservationEvent", "AgentErrorEvent", "MessageEvent", "SystemPromptEvent"),
    *("PauseEvent", "ConversationStateUpdateEvent", "Condensation"),
)


def _recognise(value: Any) -> tuple[float, str] | None:
    events = [mapping(each) for each in (value[:20] if isinstance(value, list) else [value])]
    if events and all(each.get("kind") in _SDK and "source" in each for each in events):
        return 0.95, "sdk events"
    is_first = all({"source", "id", "timestamp"} <= set(each) for each in events) and all(
        "action" in each or "observation" in each for each in events
    )
    return (0.95, "events") if events and is_first else None


def _line(session: Session, fields: Mapping[str, Any]) -> None:
    before = len(session.events)
    if "kind" in fields:
        _add_of_sdk(session, fields)
    else:
        _add_of_first(session, fields)
    if (moment := make.timestamp_of(fields.get("timestamp"))) is not None:
        for made in session.events[before:]:
            made["ts"] = moment


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


def _finish(session: Session) -> None:
    """Add the tokens of the run, which the last update of its statistics has in sum."""
    stats = mapping(session.memory.get("stats"))
    for metrics in map(mapping, mapping(stats.get("usage_to_metrics")).values()):
        model, cost = text(metrics.get("model_name")), metrics.get("accumulated_cost")
        usage = metrics.get("accumulated_token_usage")
        if any((usage_in(usage) or {}).values()):
            session.use(usage, cost=cost, model=model)


OPENHANDS = SessionFormat("openhands", _recognise, _line, finish=_finish)

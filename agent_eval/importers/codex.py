"""Sessions of Codex: rollout files, and the events that `codex exec --json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.events import EventFields, items, mapping, text, usage_in
from agent_eval.importers.sessions import Session, SessionFormat

_ROLLOUT = frozenset(
    {"session_meta", "turn_context", "response_item", "event_msg", "compacted", "ghost_snapshot"}
)
_EXEC = frozenset({"thread.started", "turn.started", "turn.completed", "turn.failed", "error"})
_INJECTED = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions")
"""How messages begin that the program puts into the user's place."""
_TOOLS = {
    "command_execution": ("command",),
    "mcp_tool_call": ("arguments",),
    "file_change": ("changes",),
    "web_search": ("query", "action"),
    "collab_tool_call": ("prompt", "receiver_thread_ids"),
}
"""Kinds of items of `exec` that are tool calls, with the fields that are their arguments."""


def _recognise(value: Any) -> tuple[float, str] | None:
    if not isinstance(value, dict):
        return None
    if value.get("type") in _ROLLOUT and isinstance(value.get("payload"), dict):
        return 0.95, "rollout"
    events = value.get("events")
    is_document = isinstance(events, list) and bool(events) and all(map(_is_exec, events[:20]))
    return (0.9, "exec") if is_document or _is_exec(value) else None


def _is_exec(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    kind = value["type"]
    if kind == "error":
        return set(value) == {"type", "message"}
    return kind in _EXEC or (kind.startswith("item.") and isinstance(value.get("item"), dict))


def _line(session: Session, line: Mapping[str, Any]) -> None:
    kind, payload = str(line.get("type")), mapping(line.get("payload"))
    ts = make.timestamp_of(line.get("timestamp"))
    if kind == "session_meta":
        session.remember(payload, "id", "cwd", "originator", "cli_version")
    elif kind == "turn_context":
        session.memory["model"] = text(payload.get("model")) or session.memory.get("model")
    elif kind == "response_item":
        session.memory["has_items"] = True
        _add_item(session, payload, ts)
    elif kind == "event_msg":
        _add_notice(session, payload, ts)
    elif kind == "compacted":
        session.add(make.event("agent", "state", output=payload.get("message"), ts=ts))
    elif kind == "thread.started":
        session.about |= {"id": line["thread_id"]} if text(line.get("thread_id")) else {}
    elif kind == "turn.completed":
        _add_usage(session, line.get("usage"))
    elif kind in ("turn.failed", "error"):
        session.add(make.error_event(line.get("error") or line.get("message") or "failed"))
    elif kind.startswith("item."):
        _add_exec_item(session, mapping(line.get("item")), is_done=kind == "item.completed")
    elif kind not in _ROLLOUT and kind != "turn.started":
        session.unknown(f"type {kind!r}")


def _add_item(session: Session, item: Mapping[str, Any], ts: str | None) -> None:
    kind = item.get("type")
    if kind in ("function_call_output", "custom_tool_call_output"):
        session.add(_output(item, ts))
        return
    if kind == "mcp_tool_call":
        server = text(item.get("namespace"))
        ran_on = server and f"mcp:{server.removeprefix('mcp__')}"
        call_id, arguments = item.get("call_id"), item.get("arguments")
        made = session.add(make.tool_call(text(item.get("name")), arguments, call_id, ran_on=ran_on))
    elif kind == "ghost_snapshot":
        return
    else:
        made = session.read(item)
    for fields in made:
        if fields["actor"] == "user" and str(fields.get("input", "")).startswith(_INJECTED):
            fields.update(actor="system", output=fields.pop("input"))
        if fields["actor"] == "agent" and fields["type"] != "reasoning" and session.memory.get("model"):
            fields["model"] = session.memory["model"]
        if ts is not None:
            fields["ts"] = ts


def _output(item: Mapping[str, Any], ts: str | None) -> EventFields:
    """Read the result of a call. Results of the shell are JSON text with output and exit code."""
    output = item.get("output")
    is_json = isinstance(output, str) and output[:1] == "{"
    value = mapping(make.arguments_of(output)[0] if is_json else output)
    code = mapping(value.get("metadata")).get("exit_code")
    error: Any = {"exit_code": code} if isinstance(code, int) and code != 0 else None
    if value.get("success") is False:
        error = error or value.get("content") or "failed"
    if "output" in value and code is not None:
        output = value["output"]
    elif isinstance(output, dict):
        output = value.get("content", value)
    return make.tool_result(output, item.get("call_id"), error=error, ts=ts)


def _add_notice(session: Session, payload: Mapping[str, Any], ts: str | None) -> None:
    """Read an event for the display: it repeats items, but for tokens and errors."""
    kind = payload.get("type")
    if kind == "token_count":
        _add_usage(session, mapping(payload.get("info")).get("last_token_usage"))
    elif kind in ("error", "stream_error", "turn_aborted"):
        session.add(make.error_event(payload.get("message") or payload.get("reason") or kind, ts=ts))
    elif kind in ("user_message", "agent_message") and not session.memory.get("has_items"):
        speaker = make.user_message if kind == "user_message" else make.agent_message
        session.add(speaker(payload.get("message"), ts=ts))
    elif kind == "mcp_tool_call_end":
        # It is the only record of a call of MCP where no item is.
        call_id, invocation = text(payload.get("call_id")), mapping(payload.get("invocation"))
        known = [fields for fields in session.events if call_id and fields.get("call_id") == call_id]
        if not known:
            server = text(invocation.get("server"))
            tool, arguments = text(invocation.get("tool")), invocation.get("arguments")
            ran_on = server and f"mcp:{server}"
            session.add(make.tool_call(tool, arguments, call_id, ts=ts, ran_on=ran_on))
        if not any(fields["type"] == "tool_result" for fields in known):
            result = mapping(payload.get("result"))
            answer = mapping(result.get("Ok"))
            content = answer.get("structuredContent", answer.get("content"))
            error = result.get("Err") or ((content or True) if answer.get("isError") is True else None)
            session.add(make.tool_result(None if error else content, call_id, error=error, ts=ts))


def _add_usage(session: Session, stated: Any) -> None:
    tokens = usage_in(stated)
    if tokens is None:
        return
    last = make.last_of_agent(session.events)
    if last is not None and "usage" not in last:
        last["usage"] = tokens
    elif last is None or last["usage"] != tokens:
        # Otherwise it is a repeated count of the same answer.
        model = session.memory.get("model")
        session.add(make.event("agent", "model_call", usage=tokens, model=model))


def _add_exec_item(session: Session, item: Mapping[str, Any], *, is_done: bool) -> None:
    kind = item.get("type")
    if kind in _TOOLS:
        _add_tool_item(session, item, is_done=is_done)
    elif not is_done:
        return
    elif kind in ("agent_message", "assistant_message"):
        session.add(make.agent_message(item.get("text")))
    elif kind == "reasoning":
        session.add(make.reasoning(item.get("text")))
    elif kind == "todo_list":
        session.add(make.event("agent", "state", output=item.get("items")))
    elif kind == "error":
        session.add(make.error_event(item.get("message") or "failed"))
    else:
        session.unknown(f"item of type {kind!r}")


def _add_tool_item(session: Session, item: Mapping[str, Any], *, is_done: bool) -> None:
    identifier, kind, server = text(item.get("id")), item["type"], text(item.get("server"))
    arguments = {name: item[name] for name in _TOOLS[kind] if name in item}
    tool, ran_on = text(item.get("tool")) or kind, f"mcp:{server}" if server else None
    made = make.tool_call(tool, item.get("arguments", arguments), identifier, ran_on=ran_on)
    waiting: dict[str | None, EventFields] = session.memory.setdefault("waiting", {})
    if (known := waiting.get(identifier)) is not None:  # later events of an item add to it
        known.clear()
        known.update(made)
    else:
        session.add(made)
        waiting[identifier] = made
    if not is_done:
        return
    waiting.pop(identifier, None)
    output = item.get("aggregated_output", item.get("result"))
    error, code, status = item.get("error"), item.get("exit_code"), item.get("status")
    if error is None and isinstance(code, int) and code != 0:
        error = {"exit_code": code}
    if error is None and status in ("failed", "declined"):
        error = status
    if output is None and error is None:
        output = status
    session.add(make.tool_result(output, identifier, tool=tool, error=error))


CODEX = SessionFormat(
    "codex", _recognise, _line, lines=lambda value: items(mapping(value).get("events")), provider="openai"
)
"""Only the first line names the session: a session is a file, or a document with all events."""

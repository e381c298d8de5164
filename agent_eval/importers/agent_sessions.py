"""Sessions of coding agents whose lines are messages and tool uses, each under its own names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.events import EventFields, items, mapping, text, total, usage_in
from agent_eval.importers.sessions import Session, SessionFormat

# --- GitHub's Copilot CLI: `events.jsonl` below `~/.copilot/session-state` ---

_COPILOT_SILENT = ("session.", "hook.", "assistant.turn_", "tool.execution_", "assistant.usage", "subagent.")


def _is_copilot(value: Any) -> tuple[float, str] | None:
    fields = mapping(value)
    is_event = {"type", "id", "timestamp", "parentId"} <= set(fields) and isinstance(fields.get("data"), dict)
    return (0.95, "session") if is_event else None


def _copilot(session: Session, line: Mapping[str, Any]) -> None:
    kind, data = str(line.get("type")), mapping(line.get("data"))
    ts = line.get("timestamp")
    if kind in ("session.start", "session.model_change"):
        model = text(data.get("newModel")) or text(data.get("selectedModel"))
        session.memory["model"] = model or session.memory.get("model")
        session.remember(data, "sessionId", "copilotVersion")
        session.about |= {"id": data["sessionId"]} if text(data.get("sessionId")) else {}
    elif kind == "session.error":
        session.add(make.error_event(data.get("message") or "error"), ts=ts)
    elif kind in ("user.message", "system.message"):
        session.read({"role": kind.partition(".")[0], "content": data.get("content"), "timestamp": ts})
    elif kind == "assistant.reasoning":
        session.add(make.reasoning(data.get("content")), ts=ts)
    elif kind == "assistant.message":
        usage = {"output_tokens": data.get("outputTokens")}
        answer = {"role": "assistant", "timestamp": ts, "model": session.memory.get("model"), "usage": usage}
        answer |= {name: data[name] for name in ("content", "toolRequests") if data.get(name)}
        if len(answer) > 4:
            session.read(answer, once=True)
    elif kind == "tool.execution_start":
        session.read({"role": "assistant", "tool_calls": [data], "timestamp": ts}, once=True)
    elif kind == "tool.execution_complete":
        result, failed = data.get("result"), data.get("success") is False
        output = mapping(result).get("content", result)
        error = mapping(data.get("error")).get("message", data.get("error")) if failed else None
        made = {"role": "tool", "tool_call_id": data.get("toolCallId"), "timestamp": ts, "content": output}
        if failed:
            made |= {"content": None, "error": error or output or "failed"}
        session.read(made)
    elif not kind.startswith(_COPILOT_SILENT) and kind not in ("abort", "system.notification"):
        reason = f"{kind!r}"[:80] + " says nothing of what the agent did"
        session.diagnostics.note(session.place, "type", reason)


# --- Gemini CLI: documents, and lines of them; what `--output-format stream-json` prints ---

_GEMINI_LINES = ("user", "gemini", "model", "info", "warning", "error")
_GEMINI_STREAM = ("init", "message", "tool_use", "tool_result", "result", "error")


def _is_gemini(value: Any) -> tuple[float, str] | None:
    fields = mapping(value)
    if "sessionId" in fields and "projectHash" in fields:
        return 0.95, "session"
    kind = fields.get("type")
    if set(fields) == {"$set"} or (kind in _GEMINI_LINES and {"id", "timestamp"} <= set(fields)):
        return (0.8, "session") if "message" not in fields and "data" not in fields else None
    is_stream = kind in _GEMINI_STREAM and "timestamp" in fields and "message" not in fields
    own = {"tool_id", "stats", "severity"} & set(fields) or (kind == "message" and "content" in fields)
    return (0.85, "stream-json") if is_stream and (own or {"session_id", "model"} <= set(fields)) else None


def _gemini(session: Session, message: Mapping[str, Any]) -> None:
    kind, ts = message.get("type"), message.get("timestamp")
    content = message.get("content", message.get("parts"))
    if isinstance(content, list):
        content = "".join(text(mapping(part).get("text")) or "" for part in content)
    own = text(message.get("sessionId")) or text(message.get("session_id"))
    session.about |= {"id": own} if own else {}
    if kind in ("gemini", "model"):
        _gemini_answer(session, message, content)
    elif kind in ("info", "warning", "user"):
        role = "user" if kind == "user" else "system"
        if content or role == "user":
            session.read({"role": role, "content": content, "timestamp": ts})
    elif kind == "error":
        session.add(make.error_event(content or message.get("message")), ts=ts)
    elif kind in _GEMINI_STREAM:
        _gemini_event(session, message)
    elif "$set" not in message and "projectHash" not in message:
        session.diagnostics.lost(session.place, session.field, f"is of the kind {kind}, which is not known")


def _gemini_event(session: Session, event: Mapping[str, Any]) -> None:
    """Read what is printed while the agent works: an answer comes in pieces."""
    kind, ts, content = event.get("type"), event.get("timestamp"), event.get("content")
    last = session.events[-1] if session.events else {}
    goes_on = last.get("actor") == "agent" and last.get("type") == "message"
    if kind == "message" and event.get("delta") and event.get("role") != "user" and goes_on:
        last["output"] = f"{last.get('output', '')}{content}"
    elif kind == "message":
        session.read({"role": event.get("role"), "content": content, "timestamp": ts})
    elif kind == "tool_use":
        call = {"id": event.get("tool_id"), "name": event.get("tool_name"), "args": event.get("parameters")}
        session.read({"role": "assistant", "tool_calls": [call], "timestamp": ts})
    elif kind == "tool_result":
        answered = {name: event[name] for name in ("output", "error", "status") if name in event}
        session.read({"role": "tool", "tool_call_id": event.get("tool_id"), "timestamp": ts, **answered})
    elif kind == "result":
        session.use(mapping(event.get("stats")))


def _gemini_answer(session: Session, message: Mapping[str, Any], content: Any) -> None:
    calls = [mapping(call) for call in items(message.get("toolCalls"))]
    asked = [{name: call.get(name) for name in ("id", "name", "args")} for call in calls]
    names = ("thoughts", "tokens", "model", "timestamp")
    answer = {"role": "assistant", "content": content, "tool_calls": asked}
    session.read({**answer, **{name: message[name] for name in names if name in message}})
    for call in calls:
        parts = [mapping(mapping(part).get("functionResponse")) for part in items(call.get("result"))]
        outputs = [part.get("response") for part in parts]
        output = outputs[0] if len(outputs) == 1 else outputs or call.get("resultDisplay")
        output = mapping(output)["output"] if set(mapping(output)) == {"output"} else output
        if output is None and call.get("status") == "success":
            continue  # a call that succeeded may say so without a result
        failed = (output or call["status"]) if call.get("status") in ("error", "cancelled") else None
        tool = text(call.get("name"))
        made = make.tool_result(None if failed else output, call.get("id"), tool=tool, error=failed)
        session.add(made, ts=message.get("timestamp"))


# --- Cursor: transcripts whose calls have no ids ---


def _is_cursor(value: Any) -> tuple[float, str] | None:
    fields = mapping(value)
    content = mapping(fields.get("message")).get("content")
    is_line = fields.get("role") in ("user", "assistant") and isinstance(content, list | str)
    return (0.9, "transcript") if is_line and "type" not in fields else None


def _cursor(session: Session, line: Mapping[str, Any]) -> None:
    message = {**mapping(line.get("message")), "role": line.get("role")}
    session.read({**message, **{name: line[name] for name in ("model", "timestamp") if name in line}})


# --- Factory's Droid: what `--output-format stream-json` prints ---


def _is_droid(value: Any) -> tuple[float, str] | None:
    fields = mapping(value)
    kind = fields.get("type")
    if not {"session_id", "timestamp"} <= set(fields):
        return None
    if kind in ("tool_call", "tool_result") and "toolCallId" in fields:
        return 0.95, "stream-json"
    is_text = kind == "message" and "text" in fields and "role" in fields
    is_own = is_text or (kind == "completion" and "finalText" in fields)
    is_first = kind == "system" and {"cwd", "id"} <= set(fields)
    return (0.95, "stream-json") if is_own or is_first else None


def _droid(session: Session, line: Mapping[str, Any]) -> None:
    kind, ts = line.get("type"), line.get("timestamp")
    session.about |= {"id": line["session_id"]} if text(line.get("session_id")) else {}
    if kind == "message":
        session.read({"role": line.get("role"), "content": line.get("text"), "timestamp": ts})
    elif kind == "tool_call":
        session.read({"role": "assistant", "tool_calls": [line], "timestamp": ts})
    elif kind == "tool_result":
        answered = {"output": line.get("value"), "isError": line.get("isError")}
        call_id = line.get("toolCallId")
        session.read({"role": "tool", "tool_call_id": call_id, "timestamp": ts, **answered})
    elif kind == "completion":
        spoken = [fields.get("output") for fields in session.events]
        if text(line.get("finalText")) and line["finalText"] not in spoken[-1:]:
            session.read({"role": "assistant", "content": line["finalText"], "timestamp": ts})
    elif kind == "system":
        session.remember(line, "model", "cwd")
    else:
        session.unknown(f"type {kind!r}")


# --- Kimi CLI: the wire protocol ---

_KIMI_LINES = ("turn.prompt", "context.append_message", "context.append_loop_event")
_KIMI_SILENT = (
    *("metadata", "config.update", "tools.", "usage.", "turn.", "context.", "step.", "permission", "goal"),
    *("cron", "plan", "mcp", "llm", "swarm", "subagent", "skill", "background", "approval"),
    "full_compaction",
)


def _is_kimi(value: Any) -> tuple[float, str] | None:
    fields = mapping(value)
    kind = str(fields.get("type"))
    is_own = kind in _KIMI_LINES or (kind == "metadata" and "protocol_version" in fields)
    if is_own or (kind.startswith(_KIMI_SILENT) and "time" in fields):
        return 0.9, "wire"
    return None


def _kimi(session: Session, line: Mapping[str, Any]) -> None:
    kind, ts, happened = str(line.get("type")), line.get("time"), mapping(line.get("event"))
    if kind == "turn.prompt":
        session.read({"role": "user", "content": line.get("input"), "timestamp": ts})
    elif kind == "context.append_loop_event":
        what, part = happened.get("type"), mapping(happened.get("part"))
        own = ".".join(str(happened.get(name)) for name in ("turnId", "step", "toolCallId"))
        if what == "tool.call":
            # Calls are numbered anew in each answer.
            session.memory[str(happened.get("toolCallId"))] = own
            call = {"id": own, "name": happened.get("name"), "arguments": happened.get("args")}
            session.read({"role": "assistant", "tool_calls": [call], "timestamp": ts})
        elif what == "tool.result":
            own = session.memory.get(str(happened.get("toolCallId")), own)
            result = mapping(happened.get("result"))
            session.read({**result, "role": "tool", "tool_call_id": own, "timestamp": ts})
        elif what == "content.part":
            session.read({"role": "assistant", "content": [part], "timestamp": ts})
        elif what == "step.end" and (last := make.last_of_agent(session.events)) is not None:
            usage = mapping(happened.get("usage"))
            cached, written = usage.get("inputCacheRead"), usage.get("inputCacheCreation")
            asked = total(usage.get("inputOther"), cached, written)
            tokens = {"input_tokens": asked, "output_tokens": usage.get("output")}
            known = usage_in(tokens | {"cached_tokens": cached, "cache_write_tokens": written})
            last |= {"usage": known} if known and "usage" not in last else {}
    elif not kind.startswith(_KIMI_SILENT):
        session.unknown(f"type {kind!r}")


# --- pi: sessions below `~/.pi/agent/sessions` ---


def _is_pi(value: Any) -> tuple[float, str] | None:
    fields = mapping(value)
    kind = fields.get("type")
    is_head = kind == "session" and {"version", "id", "cwd"} <= set(fields)
    is_line = {"id", "parentId", "timestamp"} <= set(fields) and (
        (kind == "message" and isinstance(fields.get("message"), dict))
        or kind
        in ("model_change", "thinking_level_change", "compaction", "custom", "label", "branch_summary")
    )
    return (0.93, "session") if is_head or is_line else None


def _pi(session: Session, line: Mapping[str, Any]) -> None:
    if line.get("type") == "session":
        session.remember(line, "id", "cwd")
    if line.get("type") != "message":
        return
    message = mapping(line.get("message"))
    usage = mapping(message.get("usage"))
    cached, written = usage.get("cacheRead"), usage.get("cacheWrite")  # which are not in its input
    tokens = {
        "input_tokens": total(usage.get("input"), cached, written),
        "output_tokens": usage.get("output"),
    }
    tokens |= {"cached_tokens": cached, "cache_write_tokens": written}
    about = {"usage": tokens, "cost_usd": mapping(usage.get("cost")).get("total")}
    session.read({**message, "timestamp": line.get("timestamp"), **(about if usage else {})})


# --- Claude's managed agents: calls of the client, and the events of a session ---


def _is_managed(value: Any) -> tuple[float, str] | None:
    is_pair = isinstance(value, list) and len(value) == 2 and isinstance(value[1], dict | list)
    return (0.95, "events") if is_pair and str(value[0]).startswith("client.beta.sessions") else None


def _managed(session: Session, line: Mapping[str, Any]) -> None:
    kind, ts = str(line.get("type")), line.get("processed_at") or line.get("created_at")
    if line.get("call") == "client.beta.sessions.create":
        session.remember(line, "id")
    if line.get("call") != "client.beta.sessions.events.stream":
        return
    if kind in ("user.message", "agent.message"):
        role = kind.partition(".")[0]
        session.read({"role": role, "content": line.get("content"), "timestamp": ts})
    elif kind == "agent.thinking":
        session.add(make.reasoning(None), ts=ts)
    elif kind in ("agent.custom_tool_use", "agent.tool_use", "agent.mcp_tool_use"):
        session.read({"role": "assistant", "tool_calls": [line], "timestamp": ts})
    elif kind.endswith("tool_result"):
        session.read({**line, "role": "tool", "timestamp": ts})
    elif kind == "span.model_request_end":
        session.use(mapping(line.get("model_usage")))
    elif kind == "session.error":
        session.add(make.error_event(line.get("error") or "error"), ts=ts)


# --- Codex: rollout files, whose first line names the session, and what `codex exec --json` prints ---

_CODEX_ROLLOUT = frozenset(
    {"session_meta", "turn_context", "response_item", "event_msg", "compacted", "ghost_snapshot"}
)
_CODEX_EXEC = frozenset({"thread.started", "turn.started", "turn.completed", "turn.failed", "error"})
_CODEX_INJECTED = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions")
"""How messages begin that the program puts into the user's place."""
_CODEX_TOOLS = {
    "command_execution": ("command",),
    "mcp_tool_call": ("arguments",),
    "file_change": ("changes",),
    "web_search": ("query", "action"),
    "collab_tool_call": ("prompt", "receiver_thread_ids"),
}
"""Kinds of items of `exec` that are tool calls, with the fields that are their arguments."""


def _is_codex(value: Any) -> tuple[float, str] | None:
    if not isinstance(value, dict):
        return None
    if value.get("type") in _CODEX_ROLLOUT and isinstance(value.get("payload"), dict):
        return 0.95, "rollout"
    events = value.get("events")
    is_document = isinstance(events, list) and bool(events) and all(map(_is_codex_exec, events[:20]))
    return (0.9, "exec") if is_document or _is_codex_exec(value) else None


def _is_codex_exec(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    kind = value["type"]
    if kind == "error":
        return set(value) == {"type", "message"}
    return kind in _CODEX_EXEC or (kind.startswith("item.") and isinstance(value.get("item"), dict))


def _codex(session: Session, line: Mapping[str, Any]) -> None:
    kind, payload = str(line.get("type")), mapping(line.get("payload"))
    ts = make.timestamp_of(line.get("timestamp"))
    if kind == "session_meta":
        session.remember(payload, "id", "cwd", "originator", "cli_version")
    elif kind == "turn_context":
        session.memory["model"] = text(payload.get("model")) or session.memory.get("model")
    elif kind == "response_item":
        session.memory["has_items"] = True
        _codex_item(session, payload, ts)
    elif kind == "event_msg":
        _codex_notice(session, payload, ts)
    elif kind == "compacted":
        session.add(make.event("agent", "state", output=payload.get("message"), ts=ts))
    elif kind == "thread.started":
        session.about |= {"id": line["thread_id"]} if text(line.get("thread_id")) else {}
    elif kind == "turn.completed":
        _codex_usage(session, line.get("usage"))
    elif kind in ("turn.failed", "error"):
        session.add(make.error_event(line.get("error") or line.get("message") or "failed"))
    elif kind.startswith("item."):
        _codex_exec_item(session, mapping(line.get("item")), is_done=kind == "item.completed")
    elif kind not in _CODEX_ROLLOUT and kind != "turn.started":
        session.unknown(f"type {kind!r}")


def _codex_item(session: Session, item: Mapping[str, Any], ts: str | None) -> None:
    kind = item.get("type")
    if kind in ("function_call_output", "custom_tool_call_output"):
        session.add(_codex_output(item, ts))
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
        if fields["actor"] == "user" and str(fields.get("input", "")).startswith(_CODEX_INJECTED):
            fields.update(actor="system", output=fields.pop("input"))
        if fields["actor"] == "agent" and fields["type"] != "reasoning" and session.memory.get("model"):
            fields["model"] = session.memory["model"]
        if ts is not None:
            fields["ts"] = ts


def _codex_output(item: Mapping[str, Any], ts: str | None) -> EventFields:
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


def _codex_notice(session: Session, payload: Mapping[str, Any], ts: str | None) -> None:
    """Read an event for the display: it repeats items, but for tokens and errors."""
    kind = payload.get("type")
    if kind == "token_count":
        _codex_usage(session, mapping(payload.get("info")).get("last_token_usage"))
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


def _codex_usage(session: Session, stated: Any) -> None:
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


def _codex_exec_item(session: Session, item: Mapping[str, Any], *, is_done: bool) -> None:
    kind = item.get("type")
    if kind in _CODEX_TOOLS:
        _codex_tool_item(session, item, is_done=is_done)
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


def _codex_tool_item(session: Session, item: Mapping[str, Any], *, is_done: bool) -> None:
    identifier, kind, server = text(item.get("id")), item["type"], text(item.get("server"))
    arguments = {name: item[name] for name in _CODEX_TOOLS[kind] if name in item}
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


COPILOT_CLI = SessionFormat("copilot_cli", _is_copilot, _copilot)
GEMINI_CLI = SessionFormat(
    "gemini_cli",
    _is_gemini,
    _gemini,
    lines=lambda value: items(mapping(value).get("messages")) if "projectHash" in mapping(value) else None,
    head=lambda session, value: session.remember({"id": value.get("sessionId")}, "id"),
    provider="gcp.gemini",
)
CURSOR = SessionFormat("cursor", _is_cursor, _cursor)
DROID = SessionFormat("droid", _is_droid, _droid, session=("session_id",))
KIMI_CLI = SessionFormat("kimi_cli", _is_kimi, _kimi)
PI = SessionFormat("pi", _is_pi, _pi)
MANAGED_AGENTS = SessionFormat(
    "managed_agents",
    _is_managed,
    _managed,
    lines=lambda value: [{"call": value[0], **mapping(value[1])}] if isinstance(value, list) else None,
    provider="anthropic",
)
CODEX = SessionFormat(
    "codex", _is_codex, _codex, lines=lambda value: items(mapping(value).get("events")), provider="openai"
)

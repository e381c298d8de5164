"""Sessions of Codex: rollout files, and the events that `codex exec --json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    arguments_of,
    error_event,
    event,
    items,
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

_ROLLOUT = frozenset(
    {"session_meta", "turn_context", "response_item", "event_msg", "compacted", "ghost_snapshot"}
)
_EXEC = frozenset({"thread.started", "turn.started", "turn.completed", "turn.failed", "error"})
_INJECTED = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions")
"""How messages begin that the program puts into the user's place."""


class Codex(Format):
    """Reads sessions of Codex, a record a line, or a document with all events under `events`."""

    name = "codex"
    provider = "openai"

    @override
    def detect(self, value: Any) -> Match | None:
        if not isinstance(value, dict):
            return None
        kind = value.get("type")
        if kind in _ROLLOUT and isinstance(value.get("payload"), dict):
            return Match(0.95, "rollout")
        if _is_exec(value):
            return Match(0.9, "exec")
        events = value.get("events")
        if isinstance(events, list) and events and all(map(_is_exec, events[:20])):
            return Match(0.9, "exec")
        return None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        # Only the first line names the session: a session is a file.
        ids = (f"file:{record.source}",) if "events" not in record.value else ()
        return Link(ids=ids, time=seconds_of(record.value.get("timestamp"))), record.value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        reader = _SessionReader(diagnostics)
        for part in parts:
            value = mapping(part.payload)
            for line in items(value.get("events")) if "events" in value else [value]:
                reader.add(mapping(line), part.place)
        return [reader.conversation()]


def _is_exec(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return False
    kind = value["type"]
    if kind == "error":
        return set(value) == {"type", "message"}
    return kind in _EXEC or (kind.startswith("item.") and isinstance(value.get("item"), dict))


class _SessionReader:
    """Reads lines in order."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._events: list[EventFields] = []
        self._diagnostics = diagnostics
        self._about: dict[str, Any] = {}
        self._model: str | None = None
        self._calls: dict[str, int] = {}
        """Where in the events the call of an item is, which later events of the item add to."""
        self._has_items = False

    def conversation(self) -> Conversation:
        return Conversation(self._events, id=self._about.get("id"), metadata=self._about)

    def add(self, line: Any, place: str) -> None:
        kind, payload = str(line.get("type")), mapping(line.get("payload"))
        ts = timestamp_of(line.get("timestamp"))
        if kind == "session_meta":
            names = ("id", "cwd", "originator", "cli_version")
            self._about |= {name: payload[name] for name in names if text(payload.get(name))}
        elif kind == "turn_context":
            self._model = text(payload.get("model")) or self._model
        elif kind == "response_item":
            self._has_items = True
            self._add_item(payload, ts, place)
        elif kind == "event_msg":
            self._add_notice(payload, ts)
        elif kind == "compacted":
            self._events.append(event("agent", "state", output=payload.get("message"), ts=ts))
        elif kind not in _ROLLOUT:
            self._add_exec(kind, line, place)

    def _add_item(self, item: Any, ts: str | None, place: str) -> None:
        kind = item.get("type")
        if kind == "message":
            self._add_message(item, ts, place)
        elif kind == "reasoning":
            texts = [
                mapping(part).get("text") for part in items(item.get("summary")) + items(item.get("content"))
            ]
            self._events.append(reasoning("\n".join(map(str, filter(None, texts))), ts=ts))
        elif kind in ("function_call", "custom_tool_call", "mcp_tool_call"):
            arguments = item.get("input") if kind == "custom_tool_call" else item.get("arguments")
            server = text(item.get("namespace")) if kind == "mcp_tool_call" else None
            made = tool_call(
                *(text(item.get("name")), arguments, item.get("call_id")),
                ts=ts,
                model=self._model,
                ran_on=server and f"mcp:{server.removeprefix('mcp__')}",
            )
            if kind == "custom_tool_call":
                made.pop("attributes", None)  # its input is text, and never JSON
                made["input"] = item.get("input")
            self._events.append(made)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._events.append(_output(item, ts))
        elif kind == "local_shell_call":
            call_id = item.get("call_id") or item.get("id")
            self._events.append(tool_call("local_shell", item.get("action"), call_id, ts=ts))
        elif kind == "web_search_call":
            made = tool_call("web_search", item.get("action"), item.get("id"), ts=ts, ran_on="server")
            self._events.append(made)
        elif kind != "ghost_snapshot":
            self._diagnostics.unknown(place, f"payload of type {kind!r}"[:200])

    def _add_message(self, item: Any, ts: str | None, place: str) -> None:
        role, content = item.get("role"), item.get("content")
        if role == "assistant":
            self._events.append(agent_message(content, ts=ts, model=self._model))
        elif role in ("system", "developer"):
            self._events.append(system_message(content, ts=ts))
        elif role == "user":
            made = user_message(content, ts=ts)
            if str(made.get("input", "")).startswith(_INJECTED):
                made = system_message(content, ts=ts)
            self._events.append(made)
        else:
            self._diagnostics.lost(place, "payload.role", f"is {role!r}, which is none of this format")

    def _add_notice(self, payload: Any, ts: str | None) -> None:
        """Read an event for the display: it repeats items, but for tokens and errors."""
        kind = payload.get("type")
        if kind == "token_count":
            self._add_usage(mapping(mapping(payload.get("info")).get("last_token_usage")))
        elif kind in ("error", "stream_error", "turn_aborted"):
            self._events.append(error_event(payload.get("message") or payload.get("reason") or kind, ts=ts))
        elif kind in ("user_message", "agent_message") and not self._has_items:
            make = user_message if kind == "user_message" else agent_message
            self._events.append(make(payload.get("message"), ts=ts))
        elif kind == "mcp_tool_call_end":
            self._add_mcp(payload, ts)

    def _add_mcp(self, payload: Any, ts: str | None) -> None:
        """Read the end of an MCP call, which is the only record of it where no item is."""
        call_id, invocation = text(payload.get("call_id")), mapping(payload.get("invocation"))
        known = [fields for fields in self._events if call_id and fields.get("call_id") == call_id]
        if not known:
            tool, server = text(invocation.get("tool")), text(invocation.get("server"))
            ran_on = server and f"mcp:{server}"
            self._events.append(tool_call(tool, invocation.get("arguments"), call_id, ts=ts, ran_on=ran_on))
        if not any(fields["type"] == "tool_result" for fields in known):
            result = mapping(payload.get("result"))
            answer = mapping(result.get("Ok"))
            content = answer.get("structuredContent", answer.get("content"))
            error = result.get("Err") or ((content or True) if answer.get("isError") is True else None)
            self._events.append(tool_result(None if error else content, call_id, error=error, ts=ts))

    def _add_usage(self, usage: Any) -> None:
        tokens = usage_of(
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            cached=usage.get("cached_input_tokens"),
            reasoning=usage.get("reasoning_output_tokens"),
        )
        if tokens is None:
            return
        last = next((fields for fields in reversed(self._events) if fields["actor"] == "agent"), None)
        if last is None or "usage" in last:
            # A repeated count of the same answer, unless the tokens differ.
            if last is None or last["usage"] != tokens:
                self._events.append(event("agent", "model_call", usage=tokens, model=self._model))
            return
        last["usage"] = tokens

    def _add_exec(self, kind: str, line: Any, place: str) -> None:
        if kind == "thread.started":
            self._about |= {"id": line["thread_id"]} if text(line.get("thread_id")) else {}
        elif kind == "turn.completed":
            self._add_usage(mapping(line.get("usage")))
        elif kind == "turn.failed":
            self._events.append(error_event(line.get("error") or "failed"))
        elif kind == "error":
            self._events.append(error_event(line.get("message") or "failed"))
        elif kind.startswith("item."):
            self._add_exec_item(mapping(line.get("item")), kind.removeprefix("item."), place)
        elif kind != "turn.started":
            self._diagnostics.unknown(place, f"type {kind!r}"[:200])

    def _add_exec_item(self, item: Any, phase: str, place: str) -> None:
        kind, is_done = item.get("type"), phase == "completed"
        if kind in _TOOLS:
            self._add_tool_item(item, is_done)
        elif not is_done:
            return
        elif kind in ("agent_message", "assistant_message"):
            self._events.append(agent_message(item.get("text")))
        elif kind == "reasoning":
            self._events.append(reasoning(item.get("text")))
        elif kind == "todo_list":
            self._events.append(event("agent", "state", output=item.get("items")))
        elif kind == "error":
            self._events.append(error_event(item.get("message") or "failed"))
        else:
            self._diagnostics.unknown(place, f"item of type {kind!r}"[:200])

    def _add_tool_item(self, item: Any, is_done: bool) -> None:
        identifier, kind = text(item.get("id")), item["type"]
        server = text(item.get("server"))
        arguments = {name: item[name] for name in _TOOLS[kind] if name in item}
        tool = text(item.get("tool")) or kind
        ran_on = f"mcp:{server}" if server else None
        made = tool_call(tool, item.get("arguments", arguments), identifier, ran_on=ran_on)
        known = self._calls.get(identifier or "")
        if known is None:
            self._events.append(made)
            if identifier is not None:
                self._calls[identifier] = len(self._events) - 1
        else:
            self._events[known] = made
        if is_done:
            self._events.append(_tool_item_result(item, tool, identifier))
            self._calls.pop(identifier or "", None)


_TOOLS = {
    "command_execution": ("command",),
    "mcp_tool_call": ("arguments",),
    "file_change": ("changes",),
    "web_search": ("query", "action"),
    "collab_tool_call": ("prompt", "receiver_thread_ids"),
}
"""Kinds of items that are tool calls, with the fields that are their arguments."""


def _tool_item_result(item: Any, tool: str, call_id: str | None) -> EventFields:
    output = item.get("aggregated_output", item.get("result"))
    error, code = item.get("error"), item.get("exit_code")
    if error is None and isinstance(code, int) and code != 0:
        error = {"exit_code": code}
    if error is None and item.get("status") in ("failed", "declined"):
        error = item["status"]
    if output is None and error is None:
        output = item.get("status")
    return tool_result(output, call_id, tool=tool, error=error)


def _output(item: Any, ts: str | None) -> EventFields:
    """Read the result of a call. Results of the shell are JSON text with output and exit code."""
    output, call_id = item.get("output"), item.get("call_id")
    value, _ = arguments_of(output) if isinstance(output, str) and output[:1] == "{" else (output, False)
    code = mapping(mapping(value).get("metadata")).get("exit_code")
    error: Any = {"exit_code": code} if isinstance(code, int) and code != 0 else None
    if mapping(value).get("success") is False:
        error = error or mapping(value).get("content") or "failed"
    if "output" in mapping(value) and code is not None:
        output = value["output"]
    elif isinstance(value, dict) and isinstance(output, dict):
        output = value.get("content", value)
    return tool_result(output, call_id, error=error, ts=ts)

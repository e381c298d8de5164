"""Sessions of Claude Code: the JSON Lines below `~/.claude/projects`, and what `--output-format` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.content import content_of
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
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
    total,
    usage_of,
    user_message,
)
from agent_eval.importers.format import Conversation, Format, Link, Match, Part
from agent_eval.importers.records import Record

_SPOKEN = frozenset({"user", "assistant"})
_OF_THE_PROGRAM = frozenset(
    {"queue-operation", "file-history-snapshot", "progress", "last-prompt", "stream_event", "custom-title"}
    | {"agent-name", "permission-mode", "attachment", "rate_limit_event", "worktree-state", "ai-title"}
)
"""Lines about the program itself, in which neither user nor agent says something."""

_SYNTHETIC = "<synthetic>"
"""Model of messages that the program wrote in the place of an answer."""


class ClaudeCode(Format):
    """Reads sessions of Claude Code, a record a line, or a document with all lines under `messages`."""

    name = "claude_code"
    provider = "anthropic"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, dict) and isinstance(value.get("messages"), list):
            lines = value["messages"]
            return Match(0.9, "messages") if lines and all(map(_is_line, lines[:20])) else None
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            return None
        session = "sessionId" in value or "session_id" in value
        if _is_line(value):
            return Match(0.95 if session else 0.8, "session")
        if value["type"] == "summary" and "leafUuid" in value:
            return Match(0.95, "session")
        if value["type"] in _OF_THE_PROGRAM or value["type"] in ("system", "result"):
            return Match(0.9, "session") if session or "messageId" in value else None
        return Match(0.8, "session") if "sessionId" in value and "uuid" in value else None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        value = record.value
        if "messages" in value and "type" not in value:
            return Link(), value
        session = text(value.get("sessionId")) or text(value.get("session_id"))
        # A file may hold several sessions, and the sub-agents of a session have files of their own.
        by_file = (f"file:{record.source}",) if record.is_line else ()
        ids = by_file if session is None else (f"session:{session}",)
        return Link(ids=ids, time=seconds_of(value.get("timestamp"))), value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        reader = _SessionReader(diagnostics)
        for part in parts:
            value = mapping(part.payload)
            lines = value["messages"] if "type" not in value else [value]
            for number, line in enumerate(items(lines)):
                place = part.place if "type" in value else f"{part.place}#messages[{number}]"
                reader.add(mapping(line), place)
        if not reader.is_spoken and parts:
            diagnostics.note(parts[0].place, "", "has no message of the user or the agent; it makes no case")
        return [reader.conversation()] if reader.is_spoken else []


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("type") not in _SPOKEN:
        return False
    message = value.get("message")
    return isinstance(message, dict) and message.get("role") == value["type"]


class _SessionReader:
    """Reads lines in order. A message of the model is divided over lines, one a content block."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._events: list[EventFields] = []
        self._diagnostics = diagnostics
        self._last_of: dict[str, EventFields] = {}
        """The last event of a message of the model, by its id: that one has the usage."""
        self._seen: set[str] = set()
        self._about: dict[str, Any] = {}
        self.is_spoken = False

    def conversation(self) -> Conversation:
        session = self._about.get("session_id")
        return Conversation(self._events, id=session, metadata=self._about)

    def add(self, line: Any, place: str) -> None:
        self.is_spoken = self.is_spoken or line.get("type") in ("user", "assistant", "result")
        identifier = text(line.get("uuid"))
        if identifier is not None:
            if identifier in self._seen:
                self._diagnostics.note(place, "uuid", "repeats a line that is there already; left out")
                return
            self._seen.add(identifier)
        self._remember(line)
        kind = line.get("type")
        common = self._common(line)
        if kind == "assistant":
            self._add_answer(line, common, place)
        elif kind == "user":
            self._add_user(line, common)
        elif kind == "summary":
            self._events.append(event("agent", "state", output=line.get("summary")))
        elif kind == "system":
            self._add_system(line, common)
        elif kind == "result":
            self._add_result(line)
        elif kind not in _OF_THE_PROGRAM:
            self._diagnostics.unknown(place, f"type {kind!r}"[:200])

    def _remember(self, line: Any) -> None:
        names = {"session_id": ("sessionId", "session_id"), "version": ("version",), "branch": ("gitBranch",)}
        for name, keys in names.items():
            value = next((line[key] for key in keys if text(line.get(key))), None)
            if value is not None:
                self._about.setdefault(name, value)

    def _common(self, line: Any) -> EventFields:
        fields: EventFields = {"ts": timestamp_of(line.get("timestamp"))}
        if line.get("isSidechain") or line.get("parent_tool_use_id"):
            fields["agent_name"] = text(line.get("agentId")) or "subagent"
        return fields

    def _add_answer(self, line: Any, common: EventFields, place: str) -> None:
        message = mapping(line.get("message"))
        if message.get("model") == _SYNTHETIC or line.get("isApiErrorMessage"):
            spoken = content_of(message.get("content")).value
            self._events.append(error_event(spoken or "an answer of the API failed", **common))
            return
        made = self._blocks(message.get("content"), common, place)
        self._events += made
        identifier = text(message.get("id"))
        last = made[-1] if made else self._last_of.get(identifier or "")
        if last is None:
            last = agent_message(None, **common)
            self._events.append(last)
        before = self._last_of.get(identifier) if identifier is not None else None
        # Each line repeats the usage so far: it counts once, as the last line has it.
        usage = _usage(message.get("usage")) or (before or {}).get("usage")
        if before is not None:
            before.pop("usage", None)
        for name, value in (
            ("usage", usage),
            ("model", text(message.get("model"))),
            ("stop_reason", text(message.get("stop_reason"))),
            ("cost_usd", line.get("costUSD")),
        ):
            if value is not None:
                last[name] = value
        if identifier is not None:
            last.setdefault("attributes", {})["gen_ai.response.id"] = identifier
            self._last_of[identifier] = last

    def _blocks(self, content: Any, common: EventFields, place: str) -> list[EventFields]:
        if not isinstance(content, list):
            return [agent_message(content, **common)] if content not in (None, "") else []
        return [made for block in content if (made := self._block(mapping(block), common, place)) is not None]

    def _block(self, block: Any, common: EventFields, place: str) -> EventFields | None:
        kind = block.get("type")
        if kind in ("thinking", "redacted_thinking"):
            return reasoning(block.get("thinking"), **common)
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            ran_on = "server" if kind == "server_tool_use" else None
            name, call_id = text(block.get("name")), block.get("id")
            return tool_call(name, block.get("input"), call_id, ran_on=ran_on, **common)
        if isinstance(kind, str) and kind.endswith("tool_result"):
            return _result(block, common)
        read = content_of([block])
        if read.value is None and read.parts is None:
            return None
        if isinstance(read.value, list):
            self._diagnostics.changed(place, f"content of type {kind!r}", "is kept as it is")
        return agent_message([block], **common)

    def _add_user(self, line: Any, common: EventFields) -> None:
        content = mapping(line.get("message")).get("content")
        blocks = items(content) if isinstance(content, list) else [{"type": "text", "text": content}]
        spoken = [block for block in blocks if mapping(block).get("type") != "tool_result"]
        for block in blocks:
            if mapping(block).get("type") == "tool_result":
                self._events.append(_result(mapping(block), common))
        if not spoken or (read := content_of(spoken)) == (None, None):
            return
        # What hooks and the program put into the user's place, and what an agent asks of a sub-agent.
        if line.get("isMeta") or "agent_name" in common or line.get("isCompactSummary"):
            self._events.append(event("system", "message", output=read.value, parts=read.parts, **common))
        else:
            self._events.append(user_message(spoken, **common))

    def _add_system(self, line: Any, common: EventFields) -> None:
        if text(line.get("model")):
            self._about.setdefault("model", line["model"])
        content = text(line.get("content"))
        if content is None:
            return
        is_error = line.get("level") == "error" or line.get("subtype") == "api_error"
        made = error_event(content, **common) if is_error else system_message(content, **common)
        self._events.append(made)

    def _add_result(self, line: Any) -> None:
        """Read the last line that the program prints: it repeats the answer, and has what the run cost."""
        if line.get("is_error"):
            self._events.append(error_event(line.get("result") or line.get("subtype") or "failed"))
        else:
            spoken = [fields["output"] for fields in self._events if _is_said(fields)]
            if text(line.get("result")) and line["result"] not in spoken[-1:]:
                self._events.append(agent_message(line["result"]))
        cost = line.get("total_cost_usd")
        if isinstance(cost, int | float) and not any("cost_usd" in fields for fields in self._events):
            self._events.append(event("agent", "model_call", cost_usd=cost))


def _is_said(fields: EventFields) -> bool:
    return fields["type"] == "message" and fields["actor"] == "agent" and "output" in fields


def _result(block: Any, common: EventFields) -> EventFields:
    content, call_id = block.get("content"), block.get("tool_use_id")
    inner = mapping(content)
    is_error = block.get("is_error") is True or str(inner.get("type", "")).endswith("_error")
    if not is_error:
        return tool_result(content, call_id, **common)
    read = content_of(content)
    return tool_result(None, call_id, error=read.value or read.parts or "failed", **common)


def _usage(usage: Any) -> dict[str, Any] | None:
    """Read tokens: the input that this provider states leaves out what comes from the cache or goes to it."""
    usage = mapping(usage)
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    return usage_of(
        input_tokens=total(usage.get("input_tokens"), read, written),
        output_tokens=usage.get("output_tokens"),
        cached=read,
        cache_write=written,
    )

"""Content blocks of Anthropic's messages; frameworks and recorders hold such blocks as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers.content import part_of
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    event,
    items,
    mapping,
    reasoning,
    system_message,
    text,
    text_or_none,
    tool_call,
    tool_result,
    user_message,
)

_ROLES = ("user", "assistant")
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_OWN_BLOCKS = _CALLS | {"tool_result", "thinking", "redacted_thinking", "mcp_tool_result"}


def is_anthropic_messages(value: Any) -> bool:
    """Whether this is a list of messages with at least one block that only Anthropic has."""
    if not isinstance(value, list) or not value:
        return False
    first = value[:50]
    if not all(
        isinstance(message, dict) and message.get("role") in ("user", "assistant") for message in first
    ):
        return False
    blocks = [block for message in first for block in items(message.get("content"))]
    return any(_is_own(mapping(block).get("type")) for block in blocks)


def _is_own(kind: Any) -> bool:
    return isinstance(kind, str) and (kind in _OWN_BLOCKS or kind.endswith("_tool_result"))


def history_message(message: Any, place: str, field: str, diagnostics: Diagnostics) -> Message:
    """Read a message of a request.

    It is `{"role", "content"}`; the content is a text or a list of blocks.
    `place` is the record, and `field` where in it the message is, for diagnostics.
    """
    message = mapping(message)
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        diagnostics.lost(place, field, f"has the role {role!r}, which is none of this format")
        return message_of([])
    if not isinstance(content, list):
        if role == "assistant":
            return message_of([agent_message(content)] if content not in (None, "") else [])
        return message_of([user_message(content) if role == "user" else system_message(content)])
    events: list[EventFields] = []
    for number, block in enumerate(content):
        events += block_events(block, role, place, f"{field}.content[{number}]", diagnostics)
    return message_of(_joined(events))


def block_events(
    block: Any, role: str, place: str, field: str, diagnostics: Diagnostics
) -> list[EventFields]:
    """Read one block of a message of `role` (`user`, `assistant`, `system`) as its events."""
    if isinstance(block, str):
        block = {"type": "text", "text": block}
    fields = mapping(block)
    kind = text(fields.get("type")) or ""
    if kind in _CALLS:
        return [_call(fields, kind)]
    if kind == "tool_result" or kind.endswith("_tool_result"):
        return [_result(fields, kind)]
    if kind == "thinking":
        return [reasoning(fields.get("thinking"))]
    if kind == "redacted_thinking":
        return [reasoning(None)]
    if kind == "compaction":
        return [event("agent", "state", output=fields.get("content"))]
    if part_of(fields) is None:
        diagnostics.lost(place, field, f"is of the type {kind!r}, which this format does not define")
        return []
    return _spoken([fields], role)


def _spoken(blocks: list[Any], role: str) -> list[EventFields]:
    if role == "user":
        return [user_message(blocks)]
    if role == "system":
        return [system_message(blocks)]
    notes = [note for block in blocks for note in items(mapping(block).get("citations"))]
    message = agent_message(blocks, attributes={"anthropic.citations": notes} if notes else None)
    return [message] if "output" in message or "parts" in message else []


def _joined(events: list[EventFields]) -> list[EventFields]:
    """Join texts of one message that follow each other: a user's message is one, however it is divided."""
    joined: list[EventFields] = []
    for fields in events:
        previous = joined[-1] if joined else {}
        if fields["type"] == "message" and fields["actor"] == "user" and previous.get("actor") == "user":
            joined[-1] = user_message([*_parts(previous), *_parts(fields)])
        else:
            joined.append(fields)
    return joined


def _parts(fields: EventFields) -> list[Any]:
    return fields["parts"] if "parts" in fields else [{"type": "text", "text": fields.get("input", "")}]


def _call(block: Mapping[str, Any], kind: str) -> EventFields:
    place = {"server_tool_use": "server", "mcp_tool_use": f"mcp:{block.get('server_name') or ''}"}.get(kind)
    ran_on = None if place is None else place.removesuffix(":")
    return tool_call(text(block.get("name")), block.get("input"), block.get("id"), ran_on=ran_on)


def _result(block: Mapping[str, Any], kind: str) -> EventFields:
    content, error = block.get("content"), None
    if block.get("is_error") is True:
        error = content if content not in (None, "", []) else True
    elif str(mapping(content).get("type", "")).endswith("_error"):
        error = mapping(content).get("error_code") or content
    ran_on = None if kind in ("tool_result", "mcp_tool_result") else "server"
    if kind == "tool_result":
        return tool_result(content, block.get("tool_use_id"), error=error)
    call_id = text_or_none(block.get("tool_use_id"))
    if kind == "mcp_tool_result":
        return tool_result(content, call_id, error=error)
    return tool_result(content, call_id, error=error, ran_on=ran_on)

"""Rows of Azure AI's evaluation SDK: `query` and `response`, as texts or as converted messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    items,
    mapping,
    seconds_of,
    system_message,
    text,
    text_or_none,
    timestamp_of,
    tool_call,
    tool_result,
    user_message,
)
from agent_eval.importers.facts import conversation_of as conversation_id_of
from agent_eval.importers.facts import tool_name
from agent_eval.importers.format import Conversation, Match

_COLUMNS = {
    "query": ("query", "question", "user_query", "prompt"),
    "response": ("response", "answer", "output"),
    "ground_truth": ("ground_truth", "expected_output", "expected", "reference"),
    "tool_definitions": ("tool_definitions",),
    "tool_calls": ("tool_calls",),
    "conversation": ("conversation",),
}
"""Columns by what they mean: the SDK's own name first, then names that its column mappings usually map."""

_PREFIXES = ("", "inputs.", "outputs.", "line.", "data.", "item.", "sample.")
_FULL_NAMES = {
    meaning: tuple(f"{prefix}{column}" for column in columns for prefix in _PREFIXES)
    for meaning, columns in _COLUMNS.items()
}
_READ = frozenset(name for names in _FULL_NAMES.values() for name in names)


def match_of(row: Mapping[str, Any]) -> Match | None:
    """Recognise a row by its columns."""
    query, response = _column(row, "query"), _column(row, "response")
    if is_messages(response) or is_messages(query):
        return Match(0.95, "evaluation row")
    if isinstance(mapping(_column(row, "conversation")).get("messages"), list):
        return Match(0.85, "evaluation row")
    if isinstance(query, str) and isinstance(response, str | list):
        return Match(0.8 if "query" in row and "response" in row else 0.7, "evaluation row")
    return None


def is_messages(value: Any) -> bool:
    """Whether this is a list of messages as the SDK converts them."""
    if not isinstance(value, list) or not value:
        return False
    messages = [mapping(message) for message in value[:50]]
    if not all("role" in message for message in messages):
        return False
    stamped = any("createdAt" in message or "run_id" in message for message in messages)
    blocks = [mapping(block) for message in messages for block in items(message.get("content"))]
    return stamped or any(block.get("type") in ("tool_call", "tool_result") for block in blocks)


def _column(row: Mapping[str, Any], name: str) -> Any:
    if _READ.isdisjoint(row):
        return None
    return next((row[full] for full in _FULL_NAMES[name] if row.get(full) is not None), None)


def conversation_of(row: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
    """Read a row: `query` holds the earlier turns, `response` what the agent did then."""
    conversation = mapping(_column(row, "conversation"))
    events: list[EventFields] = []
    for name, value in (("conversation", conversation.get("messages")), ("query", _column(row, "query"))):
        events += _side(value, name, place, diagnostics)
    response = _column(row, "response")
    events += _side(response, "response", place, diagnostics)
    if not isinstance(response, list):
        events = _with_calls(events, _column(row, "tool_calls"))
    expected = _column(row, "ground_truth")
    made = Conversation(_timed(events), expected_output=expected, metadata=_others(row), records=[place])
    made.id = conversation_id_of(row)
    made.aliases = tuple(filter(None, (text_or_none(row.get("id")), _run_id(response))))
    if response is None and not conversation:
        # A dataset asks, and records nothing.
        made.events, made.turns = [], [{"input": _column(row, "query")}]
        diagnostics.note(place, "response", "is missing: run an agent on the case")
    return made


def _run_id(response: Any) -> str | None:
    return next((run for message in items(response) if (run := text(mapping(message).get("run_id")))), None)


def _side(value: Any, name: str, place: str, diagnostics: Diagnostics) -> list[EventFields]:
    if value is None:
        return []
    if not isinstance(value, list):
        return [agent_message(value) if name == "response" else user_message(value)]
    events: list[EventFields] = []
    for number, message in enumerate(map(mapping, value)):
        events += _message(message, place, f"{name}[{number}]", diagnostics)
    return events


def _message(
    message: Mapping[str, Any], place: str, path: str, diagnostics: Diagnostics
) -> list[EventFields]:
    role, content = message.get("role"), message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    events: list[EventFields] = []
    spoken = [block for block in blocks if mapping(block).get("type") not in ("tool_call", "tool_result")]
    if spoken and spoken != [{"type": "text", "text": None}]:
        make = {"user": user_message, "system": system_message, "developer": system_message}
        if role == "tool":
            events.append(tool_result(spoken, message.get("tool_call_id")))
        elif role in (*make, "assistant", "agent"):
            events.append(make.get(str(role), agent_message)(spoken))
        else:
            diagnostics.lost(place, path, f"has the role {role!r}, which is none of this format")
    for block in map(mapping, blocks):
        if block.get("type") == "tool_call":
            events.append(_call(block))
        elif block.get("type") == "tool_result":
            result = block.get("tool_result", block.get("result"))
            call_id = message.get("tool_call_id") or block.get("tool_call_id")
            events.append(tool_result(result, call_id))
    moment = timestamp_of(message.get("createdAt"))
    for fields in events if moment is not None else ():
        fields["ts"] = moment
    return events


def _call(block: Mapping[str, Any]) -> EventFields:
    # Earlier versions of the SDK wrote the call of the API as it is.
    inner = mapping(block.get("tool_call"))
    function = mapping(inner.get("function"))
    name = text(block.get("name")) or text(function.get("name")) or text(inner.get("type"))
    arguments = block.get("arguments", function.get("arguments"))
    return tool_call(name, arguments, block.get("tool_call_id") or inner.get("id"))


def _with_calls(events: list[EventFields], calls: Any) -> list[EventFields]:
    """Put the calls of the column `tool_calls` before the answer, which is a text."""
    calls = calls if isinstance(calls, list) else [calls] if isinstance(calls, dict) else []
    made = [_call(mapping(call)) for call in calls]
    if events and events[-1]["actor"] == "agent":
        return [*events[:-1], *made, events[-1]]
    return events + made


def _timed(events: list[EventFields]) -> list[EventFields]:
    """Order messages by their time if each has one: threads are listed from the newest on."""
    times = [seconds_of(fields.get("ts")) for fields in events]
    if any(moment is None for moment in times):
        return events
    return sorted(events, key=lambda fields: seconds_of(fields.get("ts")) or 0)


def _others(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are neither messages nor expectations: context, scores, names of tools."""
    others = {name: value for name, value in row.items() if name not in _READ and value is not None}
    tools = _column(row, "tool_definitions")
    names = [name for tool in items(tools) if (name := tool_name(tool)) is not None]
    return ({"columns": others} if others else {}) | ({"request": {"tools": names}} if names else {})

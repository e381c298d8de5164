"""Rows of Azure AI's evaluation SDK: `query` and `response`, as texts or as converted messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, text, text_or_none
from agent_eval.importers.facts import conversation_of as conversation_id_of
from agent_eval.importers.facts import tool_name
from agent_eval.importers.format import Conversation, Match
from agent_eval.importers.messages import MessageReader

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
    if not all("role" in message and "parts" not in message for message in messages):
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
    reader = MessageReader(place, diagnostics)
    conversation, response = mapping(_column(row, "conversation")), _column(row, "response")
    sides = (("conversation", conversation.get("messages")), ("query", _column(row, "query")))
    events: list[EventFields] = []
    for name, value in (*sides, ("response", response)):
        if isinstance(value, list):
            events += [fields for message in reader.messages(value, name) for fields in message.events]
        elif value is not None:
            events.append(make.agent_message(value) if name == "response" else make.user_message(value))
    calls = _column(row, "tool_calls")
    if calls is not None and not isinstance(response, list):
        # The calls of a column of their own come before the answer, which is a text.
        made = reader.blocks(calls if isinstance(calls, list) else [calls], "agent", "tool_calls")
        answer = [events.pop()] if events and events[-1]["actor"] == "agent" else []
        events += made + answer
    result = Conversation(_timed(events), metadata=_others(row), records=[place])
    result.expected_output = _column(row, "ground_truth")
    result.id = conversation_id_of(row)
    run = next((run for each in items(response) if (run := text(mapping(each).get("run_id")))), None)
    result.aliases = tuple(filter(None, (text_or_none(row.get("id")), run)))
    if response is None and not conversation:
        # A dataset asks, and records nothing.
        result.events, result.turns = [], [{"input": _column(row, "query")}]
        diagnostics.note(place, "response", "is missing: run an agent on the case")
    return result


def _timed(events: list[EventFields]) -> list[EventFields]:
    """Order messages by their time if each has one: threads are listed from the newest on."""
    times = [make.seconds_of(fields.get("ts")) for fields in events]
    if any(moment is None for moment in times):
        return events
    return sorted(events, key=lambda fields: make.seconds_of(fields.get("ts")) or 0)


def _others(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are neither messages nor expectations: context, scores, names of tools."""
    others = {name: value for name, value in row.items() if name not in _READ and value is not None}
    tools = _column(row, "tool_definitions")
    names = [name for tool in items(tools) if (name := tool_name(tool)) is not None]
    return ({"columns": others} if others else {}) | ({"request": {"tools": names}} if names else {})

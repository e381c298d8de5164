"""Exports of Azure AI Foundry: evaluation rows, threads with runs and run steps, evaluation datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, seconds_of, text, text_or_none
from agent_eval.importers.exchange import conversation_of, tool_name
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.foundry_threads import OBJECTS, thread_of
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.records import Record


class Foundry(Format):
    """Reads what Azure AI Foundry exports, and what its evaluation SDK converts threads to.

    Its newer agents answer by the Responses API, which the format `openai` reads.
    """

    name = "foundry"
    provider = "azure.ai.inference"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            return Match(0.9, "converted messages") if _is_messages(value) else None
        if not isinstance(value, dict):
            return None
        if value.get("object") in OBJECTS or _is_bundle(value):
            return Match(0.95, "thread")
        if _is_dataset(value):
            return Match(0.9, "dataset")
        if _is_results(value):
            return Match(0.9, "evaluation results")
        return _match_of_row(value)

    @override
    def prepare(self, record: Record, _diagnostics: Diagnostics) -> tuple[Link, Any]:
        value = record.value
        if not isinstance(value, dict) or value.get("object") not in OBJECTS:
            return ALONE, value
        thread = value.get("thread_id") if value["object"] != "thread" else value.get("id")
        if text(thread) is None:
            return ALONE, value
        return Link(ids=(f"thread:{thread}",), time=seconds_of(value.get("created_at"))), value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        first = parts[0].payload
        if isinstance(first, dict) and first.get("object") in OBJECTS:
            stored = [(part.payload, part.place) for part in parts]
            return [thread_of(stored, diagnostics)]
        return [made for part in parts for made in _read_alone(part.payload, part.place, diagnostics)]


def _read_alone(value: Any, place: str, diagnostics: Diagnostics) -> list[Conversation]:
    if isinstance(value, list):
        return [_of_row({"response": value}, place, diagnostics)]
    if _is_bundle(value):
        return [thread_of([(item, place) for item in _bundled(value)], diagnostics)]
    if _is_dataset(value):
        return [
            _of_row(mapping(row), f"{place}.data[{number}]", diagnostics)
            for number, row in enumerate(value["data"])
        ]
    if _is_results(value):
        return [
            _of_row(mapping(row), f"{place}.rows[{number}]", diagnostics)
            for number, row in enumerate(value["rows"])
        ]
    return [_of_row(value, place, diagnostics)]


def _is_bundle(value: Mapping[str, Any]) -> bool:
    """Whether this holds the objects of one thread together."""
    lists = [_listed(value[name]) for name in _BUNDLED if name in value]
    return any(mapping(item).get("object") in OBJECTS for stated in lists for item in stated[:1])


_BUNDLED = ("messages", "runs", "run_steps", "steps")


def _bundled(value: Mapping[str, Any]) -> list[Any]:
    thread = value.get("thread")
    bundled = [thread] if isinstance(thread, dict) else []
    return bundled + [item for name in _BUNDLED for item in _listed(value.get(name))]


def _listed(value: Any) -> list[Any]:
    """Return a list, also from a page of the API."""
    return items(value) or items(mapping(value).get("data"))


def _is_dataset(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("data"), list) and isinstance(value.get("evaluators"), list)


def _is_results(value: Mapping[str, Any]) -> bool:
    """Whether this is what `evaluate` writes: rows with columns `inputs.…` and `outputs.…`."""
    rows = value.get("rows")
    return isinstance(rows, list) and bool(rows) and _match_of_row(mapping(rows[0])) is not None


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


def _match_of_row(row: Mapping[str, Any]) -> Match | None:
    """Recognise a row by its columns."""
    query, response = _column(row, "query"), _column(row, "response")
    if _is_messages(response) or _is_messages(query):
        return Match(0.95, "evaluation row")
    if isinstance(mapping(_column(row, "conversation")).get("messages"), list):
        return Match(0.85, "evaluation row")
    if isinstance(query, str) and isinstance(response, str | list):
        return Match(0.8 if "query" in row and "response" in row else 0.7, "evaluation row")
    return None


def _is_messages(value: Any) -> bool:
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


def _of_row(row: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
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
    result.id = conversation_of(row)
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

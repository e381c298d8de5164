"""Exports of Azure AI Foundry: evaluation rows, threads with runs and run steps, evaluation datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers import foundry_rows
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import items, mapping, seconds_of, text
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.foundry_threads import OBJECTS, thread_of
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
            return Match(0.9, "converted messages") if foundry_rows.is_messages(value) else None
        if not isinstance(value, dict):
            return None
        if value.get("object") in OBJECTS or _is_bundle(value):
            return Match(0.95, "thread")
        if _is_dataset(value):
            return Match(0.9, "dataset")
        if _is_results(value):
            return Match(0.9, "evaluation results")
        return foundry_rows.match_of(value)

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
        return [foundry_rows.conversation_of({"response": value}, place, diagnostics)]
    if _is_bundle(value):
        return [thread_of([(item, place) for item in _bundled(value)], diagnostics)]
    if _is_dataset(value):
        return [
            foundry_rows.conversation_of(mapping(row), f"{place}.data[{number}]", diagnostics)
            for number, row in enumerate(value["data"])
        ]
    if _is_results(value):
        return [
            foundry_rows.conversation_of(mapping(row), f"{place}.rows[{number}]", diagnostics)
            for number, row in enumerate(value["rows"])
        ]
    return [foundry_rows.conversation_of(value, place, diagnostics)]


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
    return isinstance(rows, list) and bool(rows) and foundry_rows.match_of(mapping(rows[0])) is not None

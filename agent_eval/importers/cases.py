"""Make cases of conversations: ids, inputs and turns, events with their numbers and derived span ids."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from agent_eval.errors import InvalidInput
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping
from agent_eval.importers.format import Conversation
from agent_eval.importers.records import RECORD_BYTES
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import dumps, parse

IDS_DERIVED = "agent_eval.ids_derived"
"""Attribute of an event whose trace and span ids are made of its content, because the source has none."""

_OPERATIONS = {
    "tool_call": "execute_tool",
    "tool_result": "execute_tool",
    "message": "chat",
    "reasoning": "chat",
    "model_call": "chat",
    "error": "chat",
    "handoff": "invoke_agent",
}
"""`gen_ai.operation.name` by the type of an event."""

_MOST_RECORDS = 20
"""Places of records that a case lists."""


def make_case(
    conversation: Conversation, source: str, provider: str | None, *, name: Callable[[str], str] = str
) -> dict[str, Any]:
    """Make the case of a conversation, as JSON.

    The conversation's events are changed.

    Args:
        source: Name of the conversation's format.
        provider: `gen_ai.provider.name`, if the format has one.
        name: Returns the id that the case gets for the one that it should have: the source's, or one derived
            from the content.
    """
    whole = [conversation.id, conversation.input, conversation.turns, conversation.events]
    content = hashlib.sha256(dumps(whole))
    records = conversation.records
    about: dict[str, Any] = {"format": source, "records": records[:_MOST_RECORDS]}
    if len(records) > _MOST_RECORDS:
        about["record_count"] = len(records)
    if conversation.trace_id is None:
        about["ids_derived"] = True
    case: dict[str, Any] = {
        "case_id": name(conversation.id or f"{source}-{content.hexdigest()[:12]}"),
        **_asked(conversation),
        "metadata": {"imported": {**about, **conversation.metadata}},
    }
    content.update(case["case_id"].encode("utf-8", "surrogatepass"))
    trace_id = conversation.trace_id or content.hexdigest()[:32]
    if conversation.expected_output is not None:
        case["expected_output"] = conversation.expected_output
    case["trace"] = finished(conversation.events, trace_id, provider, conversation.id)
    if conversation.trials:
        case["trials"] = []
        of_trials = conversation.trial_metadata or [{} for _ in conversation.trials]
        for number, (events, stated) in enumerate(zip(conversation.trials, of_trials, strict=True), start=1):
            own = hashlib.sha256(f"{trace_id}/{number}".encode()).hexdigest()[:32]
            trial = {"trace": finished(events, own, provider, conversation.id)}
            case["trials"].append(trial | ({"metadata": stated} if stated else {}))
    metadata = {**case["metadata"], **conversation.case.get("metadata", {})}
    return {**case, **conversation.case, "metadata": metadata}


class CaseIds:
    """Gives each case an id of its own.

    The second `thread-7` becomes `thread-7-2`.
    """

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}
        """The last number that each id was given, by the id's hash: texts would take more memory."""

    def unique(self, wanted: str) -> str:
        """Return the id that is wanted, with a number if another case has it."""
        case_id = wanted
        number = 1 + self._ids.get(hash(wanted), 0)
        if number > 1:
            while hash(case_id := f"{wanted}-{number}") in self._ids:
                number += 1
            self._ids[hash(case_id)] = 1
        self._ids[hash(wanted)] = number
        return case_id


def _asked(conversation: Conversation) -> dict[str, Any]:
    """Return `input`, and `turns` where the user speaks more than once."""
    if (turns := conversation.turns) is not None:
        first = turns[0].get("input") if turns else None
        asked = {"input": first if conversation.input is None else conversation.input}
        # The only turn of a case is stated where it expects calls; an output needs no turn.
        return asked | ({"turns": turns} if len(turns) > 1 or (turns and set(turns[0]) > {"input"}) else {})
    if conversation.input is not None:
        return {"input": conversation.input}
    inputs: list[Any] = []
    for key, row in groupby(conversation.events, key=lambda fields: (fields["actor"], fields["type"])):
        if key == ("user", "message"):  # messages of the user in a row are one turn
            messages = [fields.get("input", fields.get("parts")) for fields in row]
            if len(messages) > 1 and all(isinstance(message, str) for message in messages):
                messages = ["\n\n".join(map(str, messages))]
            inputs.append(messages[0] if len(messages) == 1 else messages)
    if len(inputs) > 1:
        return {"input": inputs[0], "turns": [{"input": value} for value in inputs]}
    return {"input": inputs[0] if inputs else None}


def finished(
    events: Sequence[EventFields], trace_id: str, provider: str | None, conversation_id: str | None
) -> list[EventFields]:
    """Number the events, and add ids of spans and attributes of OpenTelemetry where the source has none.

    A result gets the tool of the call with its id, and where that ran, if it does not say.
    """
    ids = hashlib.shake_128(trace_id.encode()).hexdigest(8 * len(events) + 8)
    root = ids[:16]
    calls: dict[str, EventFields] = {}
    for idx, fields in enumerate(events):
        call_id = fields.get("call_id")
        call = calls.get(call_id) if fields["type"] == "tool_result" and call_id is not None else None
        if call is not None:
            for name in ("tool", "ran_on"):
                if name in call:
                    fields.setdefault(name, call[name])
        fields["idx"] = idx
        attributes: dict[str, Any] = fields.setdefault("attributes", {})
        if "span_id" not in fields:
            fields["span_id"] = ids[16 * idx + 16 : 16 * idx + 32]
            fields.setdefault("parent_span_id", root)
            attributes[IDS_DERIVED] = True
        fields.setdefault("trace_id", trace_id)
        # The span of a call is the parent of that of its result, where both are derived.
        if call is not None and IDS_DERIVED in attributes:
            fields["parent_span_id"] = call["span_id"]
        elif fields["type"] == "tool_call" and call_id is not None:
            calls[call_id] = fields
        operation = _OPERATIONS.get(fields["type"])
        if operation is not None and fields["actor"] in ("agent", "tool"):
            attributes.setdefault("gen_ai.operation.name", operation)
            if provider is not None:
                attributes.setdefault("gen_ai.provider.name", provider)
        if conversation_id is not None:
            attributes.setdefault("gen_ai.conversation.id", conversation_id)
        for attribute, name in _NAMED:
            if name in fields:
                attributes.setdefault(attribute, fields[name])
    return list(events)


_NAMED = (
    ("gen_ai.tool.name", "tool"),
    ("gen_ai.tool.call.id", "call_id"),
    ("gen_ai.response.model", "model"),
)


_ID_NAMES = ("case_id", "id", "custom_id", "conversation_id", "thread_id", "session_id", "run_id", "trace_id")
_OUTPUT_NAMES = ("expected_output", "expected", "ground_truth", "reference", "answer", "target")
_CASE_FIELDS = frozenset(
    {"policy", "tool_contracts", "regex_patterns", "json_schema", "final_output_tool", "topic"}
)
_ROW_FIELDS = _CASE_FIELDS | {*_OUTPUT_NAMES, "metadata", "labels"}
"""Fields of which an object has one that is a row, and no expected output itself."""


class Expectations:
    """Expected outputs and labels by id, read from JSON or CSV.

    A file is `{"ID": EXPECTED, ...}`, an array of objects with an id, a suite, or a CSV with a header, whose
    columns are separated by commas, semicolons or tabs. Of an object, the fields of a case are taken as they
    are (`policy`, `regex_patterns`, ...), and what is neither becomes a label under `metadata.labels`.
    """

    def __init__(self, path: Path) -> None:
        """Read a file; by its ending, `.csv` or JSON.

        Raises:
            InvalidInput: The file is missing, malformed, or an entry has no id.
            StorageError: The file cannot be read.
        """
        data = read_bytes(path, max_bytes=RECORD_BYTES)
        self._source, self._rows = str(path), dict[str, Mapping[str, Any]]()
        if path.suffix.lower() == ".csv":
            try:
                text = data.decode("utf-8-sig")
                # Spreadsheets of many countries separate columns by semicolons.
                delimiter = max(",;\t", key=text.partition("\n")[0].count)
                table = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
                value: Any = [{name: cell for name, cell in row.items() if name and cell} for row in table]
            except (UnicodeDecodeError, csv.Error) as error:
                raise self._invalid(f"is not CSV in UTF-8: {error}") from error
        else:
            value = parse(data, source=str(path))
            value = value["cases"] if isinstance(mapping(value).get("cases"), list) else value
        if isinstance(value, dict):
            for key, expected in value.items():
                is_row = isinstance(expected, dict) and not _ROW_FIELDS.isdisjoint(expected)
                self._rows[key] = expected if is_row else {"expected_output": expected}
        elif not isinstance(value, list):
            raise self._invalid("is neither an object nor an array")
        for number, row in enumerate(map(mapping, items(value)), start=1):
            own = next((str(row[name]) for name in _ID_NAMES if row.get(name)), None)
            if own is None:
                raise self._invalid(f"entry {number} has none of {', '.join(_ID_NAMES)}")
            if own in self._rows:
                raise self._invalid(f"entry {number} repeats the id {own!r}")
            self._rows[own] = row
        self._unused = set(self._rows)

    def _invalid(self, problem: str) -> InvalidInput:
        remedy = 'Write {"ID": EXPECTED} as JSON, or a CSV with the columns id and expected_output.'
        return InvalidInput(f"{self._source}: {problem}", remedy=remedy, file=self._source)

    def join(self, case: dict[str, Any], ids: Iterable[str]) -> None:
        """Add what is expected to a case, by the first of its ids that the file has."""
        match = next((name for name in (case["case_id"], *ids) if name in self._rows), None)
        if match is None:
            return
        self._unused.discard(match)
        row = self._rows[match]
        labels = {}
        for name, value in row.items():
            if name in _OUTPUT_NAMES:
                case["expected_output"] = value
            elif name in _CASE_FIELDS:
                case[name] = value
            elif name == "labels" and isinstance(value, dict):
                labels.update(value)
            elif name not in _ID_NAMES and name not in ("trace", "input", "metadata"):
                labels[name] = value
        stated = row.get("metadata")
        if isinstance(stated, dict):
            case["metadata"] = {**case["metadata"], **stated}
        if labels:
            case["metadata"] = {**case["metadata"], "labels": labels}

    def report_unused(self, diagnostics: Diagnostics) -> None:
        """Report the ids of the file that no case has."""
        for unused in sorted(self._unused):
            diagnostics.lost(self._source, unused, "is expected, but no imported case has this id")

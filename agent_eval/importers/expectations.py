"""Join expected outputs and labels to imported cases, by id (`--expect`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_eval.errors import InvalidInput
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.records import RECORD_BYTES
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import parse

_ID_NAMES = ("case_id", "id", "custom_id", "conversation_id", "thread_id", "session_id", "run_id", "trace_id")
_OUTPUT_NAMES = ("expected_output", "expected", "ground_truth", "reference", "answer", "target")
_CASE_FIELDS = frozenset(
    {"policy", "tool_contracts", "regex_patterns", "json_schema", "final_output_tool", "topic"}
)


class Expectations:
    """Expected outputs and labels by id, read from JSON or CSV.

    A file is `{"ID": EXPECTED, ...}`, an array of objects with an id, a suite, or a CSV with a header, whose
    columns are separated by commas, semicolons or tabs. Of an object, the fields of a case are taken as they
    are (`policy`, `regex_patterns`, ...), and what is neither becomes a label under `metadata.labels`.
    """

    def __init__(self, rows: Mapping[str, Mapping[str, Any]], source: str = "") -> None:
        self._rows = dict(rows)
        self._source = source
        self._unused = set(self._rows)

    @classmethod
    def read(cls, path: Path) -> Expectations:
        """Read a file; by its ending, `.csv` or JSON.

        Raises:
            InvalidInput: The file is missing, malformed, or an entry has no id.
            StorageError: The file cannot be read.
        """
        data = read_bytes(path, max_bytes=RECORD_BYTES)
        if path.suffix.lower() == ".csv":
            return cls(_by_id(_csv_rows(data, path), path), str(path))
        value = parse(data, source=str(path))
        if isinstance(value, dict) and isinstance(value.get("cases"), list):
            value = value["cases"]
        if isinstance(value, list):
            return cls(_by_id(value, path), str(path))
        if isinstance(value, dict):
            return cls({key: _as_row(expected) for key, expected in value.items()}, str(path))
        raise _invalid(path, "is neither an object nor an array")

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


def _as_row(expected: Any) -> Mapping[str, Any]:
    if isinstance(expected, dict) and not set(expected).isdisjoint(
        (*_OUTPUT_NAMES, *_CASE_FIELDS, "metadata", "labels")
    ):
        return expected
    return {"expected_output": expected}


def _csv_rows(data: bytes, path: Path) -> list[Any]:
    try:
        text = data.decode("utf-8-sig")
        head = text.partition("\n")[0]
        # Spreadsheets of many countries separate columns by semicolons.
        delimiter = max(",;\t", key=head.count)
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
        return [{name: value for name, value in row.items() if name and value != ""} for row in rows]
    except (UnicodeDecodeError, csv.Error) as error:
        raise _invalid(path, f"is not CSV in UTF-8: {error}") from error


def _by_id(rows: list[Any], path: Path) -> dict[str, Mapping[str, Any]]:
    by_id: dict[str, Mapping[str, Any]] = {}
    for number, row in enumerate(rows):
        name = next((name for name in _ID_NAMES if isinstance(row, dict) and row.get(name)), None)
        if name is None:
            raise _invalid(path, f"entry {number + 1} has none of {', '.join(_ID_NAMES)}")
        if str(row[name]) in by_id:
            raise _invalid(path, f"entry {number + 1} repeats the id {str(row[name])!r}")
        by_id[str(row[name])] = row
    return by_id


def _invalid(path: Path, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{path}: {problem}",
        remedy='Write {"ID": EXPECTED} as JSON, or a CSV with the columns id and expected_output.',
        file=str(path),
    )

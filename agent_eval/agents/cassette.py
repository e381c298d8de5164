"""Cassettes: recorded answers of live tools, for playing back.

A cassette is a JSON file with one row for each call, in the order of cases and calls:

    {"kind": "tool_cassette", "schema_version": "1.2.0",
     "calls": [{"case_id": "refund-1", "tool": "lookup", "arguments": {"id": 1}, "response": {"total": 5}}]}

A row has `response` or `error`. A call that a case repeats has a row for each repetition; the last row
answers all further ones. A row without `case_id` answers every case that has no row of its own for the call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal, Protocol

from typing_extensions import override

from agent_eval.agents.base import ToolAnswer, ToolFault, Tools
from agent_eval.agents.tools import call_key, canonical, unchanged
from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.errors import FailureKind, InvalidInput, UsageError
from agent_eval.storage.json import dumps, read_json, within_64_bits

Mode = Literal["record", "replay", "update"]

KIND = "tool_cassette"
_ROW_KEYS = frozenset({"case_id", "tool", "arguments", "response", "error"})
_CALL_WORDS_LIMIT = 300
_COMPARED_CHARACTERS = 2000

Key = tuple[str | None, str, str]
"""A call: case id (None for every case), tool, canonical arguments."""
Row = dict[str, Any]


class LiveTools(Protocol):
    """Tools that are really called, rather than answered from a recording."""

    def call(self, case_id: str, tool: str, arguments: Any) -> ToolAnswer:
        """Call a tool."""
        ...


class Recording:
    """Recorded calls, with the answers to the repetitions of each call in order."""

    def __init__(self) -> None:
        self.by_call: dict[Key, list[Row]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add the calls of one attempt. If later attempts repeat them, the first answers remain."""
        repetitions: Counter[Key] = Counter()
        for row in rows:
            key = _key(row)
            repetitions[key] += 1
            recorded = self.by_call.setdefault(key, [])
            if repetitions[key] > len(recorded):
                recorded.append(row)

    def rows(self) -> list[Row]:
        """Return all rows, the repetitions of a call one after the other."""
        return [row for rows in self.by_call.values() for row in rows]


class Cassette:
    """The recorded answers of a run, shared by all its threads.

    New answers of live tools are recorded only if the caller passes them from `CassetteTools.recorded` to
    `keep`, so a trial that is interrupted records nothing.

    Args:
        mode: `replay` answers from the file only, and fails attempts that make other calls. `record` calls
            live tools. `update` does the same, and keeps rows of the file whose calls did not happen again.
        live: The live tools; not needed for `replay`.
        redacted: Replaces secrets in arguments, as they were replaced when the file was written.
    """

    def __init__(
        self,
        mode: Mode,
        rows: list[Row] | None = None,
        *,
        live: LiveTools | None = None,
        name: str = "cassette",
        redacted: Callable[[Any], Any] = unchanged,
    ) -> None:
        self.mode, self._live, self._name, self._redacted = mode, live, name, redacted
        self._lock = threading.Lock()
        self._rows_of_file: dict[Key, list[Row]] = {}
        self._new_recording = Recording()
        for row in rows or []:
            self._rows_of_file.setdefault(_key(row), []).append(row)

    def attempt(self, case_id: str) -> CassetteTools:
        """Return the tools of one attempt; each call starts with its first answer."""
        return CassetteTools(self, case_id)

    def answer(self, case_id: str, tool: str, arguments: Any, repetition: int) -> ToolAnswer:
        """Answer a call that was made `repetition` times before in the same attempt.

        Raises:
            ToolFault: The call is not recorded, or the live tool cannot be called.
        """
        if self.mode != "replay":
            assert self._live is not None
            return self._live.call(case_id, tool, arguments)
        rows = self._rows_for(case_id, tool, arguments)
        if rows is None:
            arguments = self._redacted(arguments)
            rows = self._rows_for(case_id, tool, arguments)
        if rows is None:
            raise ToolFault(FailureKind.CONTRACT_VIOLATION, self._missing(case_id, tool, arguments))
        row = rows[min(repetition, len(rows) - 1)]
        return ToolAnswer(row.get("response"), row.get("error"), "cassette")

    def _rows_for(self, case_id: str, tool: str, arguments: Any) -> list[Row] | None:
        call = call_key(tool, arguments)
        return self._rows_of_file.get((case_id, *call)) or self._rows_of_file.get((None, *call))

    def keep(self, rows: Iterable[Row]) -> None:
        """Record the answers of live tools in a finished trial. Any thread may call this."""
        with self._lock:
            self._new_recording.add(rows)

    def to_bytes(self) -> bytes:
        """Return the file's content, which does not depend on the order in which threads made the calls."""
        rows = {**(self._rows_of_file if self.mode == "update" else {}), **self._new_recording.by_call}
        ordered = sorted(rows, key=lambda key: (key[0] is None, key[0] or "", key[1], key[2]))
        calls = [row for key in ordered for row in rows[key]]
        return dumps({"kind": KIND, "schema_version": SCHEMA_VERSION, "calls": calls}, indent=True)

    def _missing(self, case_id: str, tool: str, arguments: Any) -> str:
        canonical_arguments = canonical(arguments)
        nearest = self._nearest(case_id, tool, canonical_arguments)
        hint = f"; the nearest recorded call is {_call_words(nearest[1], nearest[2])}" if nearest else ""
        words = _call_words(tool, canonical_arguments)
        return f"called {words}, to which the {self._name} has no answer{hint}"

    def _nearest(self, case_id: str, tool: str, arguments: str) -> Key | None:
        """Return the most similar recorded call, preferring the same tool, then the same case."""
        keys = list(self._rows_of_file)
        for candidates in (
            [key for key in keys if key[1] == tool and key[0] in (case_id, None)],
            [key for key in keys if key[1] == tool],
            [key for key in keys if key[0] in (case_id, None)],
            keys,
        ):
            if candidates:
                return max(
                    candidates, key=lambda key: _similarity(f"{tool} {arguments}", f"{key[1]} {key[2]}")
                )
        return None


class CassetteTools(Tools):
    """The tools of one attempt, answered through a cassette; counts repetitions of calls."""

    def __init__(self, cassette: Cassette, case_id: str) -> None:
        self._cassette, self._case_id = cassette, case_id
        self._repetitions: Counter[tuple[str, str]] = Counter()
        self._rows: list[Row] = []

    @override
    def answer(self, tool: str, arguments: Any) -> ToolAnswer:
        key = call_key(tool, arguments)
        repetition = self._repetitions[key]
        self._repetitions[key] += 1
        answer = self._cassette.answer(self._case_id, tool, arguments, repetition)
        if self._cassette.mode != "replay":
            result = {"response": answer.output} if answer.error is None else {"error": answer.error}
            row = {"case_id": self._case_id, "tool": tool, "arguments": arguments, **result}
            self._rows.append(within_64_bits(row))
        return answer

    @override
    def recorded(self) -> Sequence[Row]:
        return self._rows


def open_cassette(
    path: Path,
    mode: Mode,
    live: LiveTools | None = None,
    *,
    redacted: Callable[[Any], Any] = unchanged,
) -> Cassette:
    """Open the cassette in a file, or a new one that is to be written there.

    Raises:
        UsageError: `replay` without a file, `record` over a file, or no live tools to record from.
        InvalidInput: The file is not a cassette.
    """
    if mode != "replay" and live is None:
        raise UsageError(
            f"there are no live tools to {mode} {path} from",
            remedy="Name a tool server, as module:function or as an address.",
            file=str(path),
        )
    if mode == "record":
        if path.exists():
            raise UsageError(
                f"{path} exists already and would be overwritten",
                remedy="Refresh it with --update, or record to another file.",
                file=str(path),
            )
        return Cassette(mode, live=live, name=f"cassette {path.name}")
    if mode == "update" and not path.exists():
        return Cassette(mode, live=live, name=f"cassette {path.name}")
    rows = read_cassette(read_json(path), path)
    return Cassette(mode, rows, live=live, name=f"cassette {path.name}", redacted=redacted)


def read_cassette(value: Any, path: Path) -> list[Row]:
    """Validate a cassette's JSON and return its rows."""
    calls = value.get("calls") if isinstance(value, Mapping) and value.get("kind") == KIND else None
    if not isinstance(calls, list):
        raise _invalid(path, "kind", f'it is not an object with "kind": "{KIND}" and a list of calls')
    for number, row in enumerate(calls):
        place = f"calls[{number}]"
        if not isinstance(row, dict) or not isinstance(row.get("tool"), str):
            raise _invalid(path, place, f"{place} names no tool")
        if unknown := sorted(set(row) - _ROW_KEYS):
            raise _invalid(path, f"{place}.{unknown[0]}", f"{place} has the unknown field {unknown[0]!r}")
        if not isinstance(row.get("case_id"), str | None):
            raise _invalid(path, f"{place}.case_id", f"the case_id of {place} is not a string")
    return calls


def _key(row: Row) -> Key:
    return row.get("case_id"), *call_key(row["tool"], row.get("arguments"))


def _invalid(path: Path, field: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used as a cassette: {problem}",
        remedy="Record it again with --record.",
        file=str(path),
        field=field,
    )


def _call_words(tool: str, arguments: str) -> str:
    text = f"{tool} with {arguments}"
    return text if len(text) <= _CALL_WORDS_LIMIT else text[: _CALL_WORDS_LIMIT - 1] + "…"


def _similarity(text: str, other: str) -> float:
    compared, compared_to = text[:_COMPARED_CHARACTERS], other[:_COMPARED_CHARACTERS]
    return SequenceMatcher(None, compared, compared_to, autojunk=False).ratio()

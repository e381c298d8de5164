"""A cassette: what live tools answered once, to be played back.

A JSON file, one row a call, in the order of cases and calls:

    {"kind": "tool_cassette", "schema_version": "1.1.0",
     "calls": [{"case_id": "refund-1", "tool": "lookup", "arguments": {"id": 1}, "response": {"total": 5}}]}

A row has `response` or `error`. A call that a case repeats has a row for each time; the last one answers
further repetitions. A row without `case_id` answers every case that has none of its own for that call.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal, Protocol

from agent_eval.agents.base import ToolAnswer, ToolFault
from agent_eval.agents.tools import call_key, canonical
from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.errors import FailureKind, InvalidInput, UsageError
from agent_eval.storage.json import dumps, read_json

Mode = Literal["record", "replay", "update"]

KIND = "tool_cassette"
_ROW_KEYS = frozenset({"case_id", "tool", "arguments", "response", "error"})
_SHOWN = 300
_COMPARED = 2000

Key = tuple[str | None, str, str]
Row = dict[str, Any]


class LiveTools(Protocol):
    """Tools that really do something."""

    def call(self, case_id: str, tool: str, arguments: Any) -> ToolAnswer:
        """Call a tool.

        Raises:
            ToolFault: It cannot be called.
        """
        ...


class Recording:
    """Calls, with the answers to each one's repetitions in order."""

    def __init__(self) -> None:
        self.by_call: dict[Key, list[Row]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add the calls of one attempt. Later attempts make the same calls again; the first answers stay."""
        made: Counter[Key] = Counter()
        for row in rows:
            key = _key(row)
            made[key] += 1
            kept = self.by_call.setdefault(key, [])
            if made[key] > len(kept):
                kept.append(row)

    def rows(self) -> list[Row]:
        """All of it, the repetitions of a call one after the other."""
        return [row for rows in self.by_call.values() for row in rows]


class Cassette:
    """Recorded answers, shared by all threads of a run.

    What live tools answer is the caller's to keep (`CassetteTools.recorded`, `keep`): a trial that does not
    come to its end leaves nothing.

    Args:
        mode: `replay` answers from the file only, and a call that is not in it fails the attempt. `record`
            calls live tools. `update` does the same and keeps those rows of the file whose calls did not
            happen again.
        rows: What the file holds.
        live: The tools to call; not needed for `replay`.
        name: What to call it in messages.
    """

    def __init__(
        self,
        mode: Mode,
        rows: list[Row] | None = None,
        *,
        live: LiveTools | None = None,
        name: str = "cassette",
    ) -> None:
        self.mode, self._live, self._name = mode, live, name
        self._lock = threading.Lock()
        self._recorded: dict[Key, list[Row]] = {}
        self._fresh = Recording()
        for row in rows or []:
            self._recorded.setdefault(_key(row), []).append(row)

    def attempt(self, case_id: str) -> CassetteTools:
        """The tools of one attempt, at the beginning of every sequence."""
        return CassetteTools(self, case_id)

    def answer(self, case_id: str, tool: str, arguments: Any, repetition: int) -> ToolAnswer:
        """The answer to a call that was made `repetition` times before in the same attempt.

        Raises:
            ToolFault: It is not recorded, with the nearest call that is; or the live tool cannot be called.
        """
        if self.mode != "replay":
            assert self._live is not None
            return self._live.call(case_id, tool, arguments)
        call = call_key(tool, arguments)
        rows = self._recorded.get((case_id, *call)) or self._recorded.get((None, *call))
        if rows is None:
            raise ToolFault(FailureKind.CONTRACT_VIOLATION, self._miss(case_id, tool, arguments))
        row = rows[min(repetition, len(rows) - 1)]
        return ToolAnswer(row.get("response"), row.get("error"), "cassette")

    def keep(self, rows: Iterable[Row]) -> None:
        """Keep what live tools answered in a trial that has finished. Any thread may."""
        with self._lock:
            self._fresh.add(rows)

    def to_bytes(self) -> bytes:
        """The file, the same whatever the order in which threads made the calls."""
        rows = {**(self._recorded if self.mode == "update" else {}), **self._fresh.by_call}
        ordered = sorted(rows, key=lambda key: (key[0] is None, key[0] or "", key[1], key[2]))
        calls = [row for key in ordered for row in rows[key]]
        return dumps({"kind": KIND, "schema_version": SCHEMA_VERSION, "calls": calls}, indent=True)

    def _miss(self, case_id: str, tool: str, arguments: Any) -> str:
        wanted = canonical(arguments)
        nearest = self._nearest(case_id, tool, wanted)
        hint = f"; the nearest recorded call is {_shown(nearest[1], nearest[2])}" if nearest else ""
        return f"called {_shown(tool, wanted)}, to which the {self._name} has no answer{hint}"

    def _nearest(self, case_id: str, tool: str, wanted: str) -> Key | None:
        """Of the same tool if there is any, of the same case if there is any, then the most similar."""
        keys = list(self._recorded)
        for closer in (
            [key for key in keys if key[1] == tool and key[0] in (case_id, None)],
            [key for key in keys if key[1] == tool],
            [key for key in keys if key[0] in (case_id, None)],
            keys,
        ):
            if closer:
                return max(closer, key=lambda key: _likeness(f"{tool} {wanted}", f"{key[1]} {key[2]}"))
        return None


class CassetteTools:
    """One attempt's way into a cassette: counts repetitions of calls."""

    def __init__(self, cassette: Cassette, case_id: str) -> None:
        self._cassette, self._case_id = cassette, case_id
        self._made: dict[tuple[str, str], int] = {}
        self._rows: list[Row] = []

    def answer(self, tool: str, arguments: Any) -> ToolAnswer:
        """See `Tools.answer`."""
        key = call_key(tool, arguments)
        repetition = self._made.get(key, 0)
        self._made[key] = repetition + 1
        answer = self._cassette.answer(self._case_id, tool, arguments, repetition)
        if self._cassette.mode != "replay":
            given = {"response": answer.output} if answer.error is None else {"error": answer.error}
            self._rows.append({"case_id": self._case_id, "tool": tool, "arguments": arguments, **given})
        return answer

    def recorded(self) -> Sequence[Row]:
        """See `Tools.recorded`."""
        return self._rows


def open_cassette(path: Path, mode: Mode, live: LiveTools | None = None) -> Cassette:
    """The cassette in a file, or a new one to be written there.

    Raises:
        UsageError: There is nothing to replay, something to record over, or no live tools to record from.
        InvalidInput: The file is no cassette.
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
                f"{path} is there already and would be recorded over",
                remedy="Refresh it with --update, or record to another file.",
                file=str(path),
            )
        return Cassette(mode, live=live, name=f"cassette {path.name}")
    if mode == "update" and not path.exists():
        return Cassette(mode, live=live, name=f"cassette {path.name}")
    return Cassette(mode, read_cassette(read_json(path), path), live=live, name=f"cassette {path.name}")


def read_cassette(value: Any, path: Path) -> list[Row]:
    """The rows of a cassette's JSON.

    Raises:
        InvalidInput: It is none; names file and field.
    """
    calls = value.get("calls") if isinstance(value, Mapping) and value.get("kind") == KIND else None
    if not isinstance(calls, list):
        raise _wrong(path, "kind", f'it is no object with "kind": "{KIND}" and a list of calls')
    for number, row in enumerate(calls):
        place = f"calls[{number}]"
        if not isinstance(row, dict) or not isinstance(row.get("tool"), str):
            raise _wrong(path, place, f"{place} names no tool")
        if unknown := sorted(set(row) - _ROW_KEYS):
            raise _wrong(path, f"{place}.{unknown[0]}", f"{place} has the unknown field {unknown[0]!r}")
        if not isinstance(row.get("case_id"), str | None):
            raise _wrong(path, f"{place}.case_id", f"the case_id of {place} is no string")
    return calls


def _key(row: Row) -> Key:
    return row.get("case_id"), *call_key(row["tool"], row.get("arguments"))


def _wrong(path: Path, field: str, what: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used as a cassette: {what}",
        remedy="Record it anew with --record.",
        file=str(path),
        field=field,
    )


def _shown(tool: str, arguments: str) -> str:
    text = f"{tool} with {arguments}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one[:_COMPARED], other[:_COMPARED], autojunk=False).ratio()

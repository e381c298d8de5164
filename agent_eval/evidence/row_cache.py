"""Rows of a large pack in little memory: stored in a compact form, and built on access.

As plain dictionaries the rows of a case take some 8 KB. The compact form takes 1 KB, and almost nothing where
a case result is like an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast, overload

import orjson
from typing_extensions import override

from agent_eval.contracts import CaseIndexRow, CaseResultRow, Tally
from agent_eval.storage.json import dumps

_BEGIN = b'{"case_id":'
CASE_ID_KEY = b'"case_id":'
_REMEMBERED = 2_000
"""Maximum number of lines that `KnownLines` remembers; a line takes some 2 KB."""
_SHARED_PIECES = 20_000
"""Maximum number of pieces that `PieceTable` shares; a piece takes some 250 bytes."""


Pieces = tuple[bytes, ...]
"""A line of a case result, split at the ids of its case."""


def put_together(pieces: Pieces, case_id: str) -> CaseResultRow:
    """Build the row of a case from the pieces of its line, or of a line that is like it."""
    return cast(CaseResultRow, orjson.loads((CASE_ID_KEY + dumps(case_id)).join(pieces)))


class PieceTable:
    """Split lines at the ids in them, and store the pieces that lines share only once."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def take_apart(self, case_id: str, line: bytes) -> Pieces:
        """Split a line into pieces for `put_together`."""
        pieces = line.split(CASE_ID_KEY + dumps(case_id))
        if len(self._known) < _SHARED_PIECES:
            return tuple(self._known.setdefault(piece, piece) for piece in pieces)
        return tuple(self._known.get(piece, piece) for piece in pieces)


class LineTemplate:
    """Checked line of a case result, from which rows of other cases are built that differ in the id only.

    `count` is the number of later lines that are like it.
    """

    __slots__ = ("_pieces", "_row", "count")

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._row: CaseResultRow | None = None
        self.count = 0

    def row(self, case_id: str) -> CaseResultRow:
        """Build the row of a case whose line is like this. Rows share the values in their verdicts."""
        if not self.count:
            return put_together(self._pieces, case_id)
        shared = self.shared()
        verdicts: Any = [{**verdict, "case_id": case_id} for verdict in shared["verdicts"]]
        return {**shared, "case_id": case_id, "verdicts": verdicts}

    def shared(self) -> CaseResultRow:
        """Return the row with an empty case id, which is built once."""
        if self._row is None:
            self._row = put_together(self._pieces, "")
        return self._row


class KnownLines:
    """Remember lines of case results without their ids, so that lines like them need not be parsed."""

    def __init__(self) -> None:
        self._known: dict[bytes, LineTemplate] = {}

    def find(self, line: bytes) -> tuple[str, LineTemplate] | None:
        """Return id and template of a line that is like an earlier one, and count it; else None."""
        token = _id_token(line)
        if token is None:
            return None
        known = self._known.get(line.replace(CASE_ID_KEY + token, CASE_ID_KEY))
        if known is None:
            return None
        try:
            case_id = orjson.loads(token)
        except orjson.JSONDecodeError:
            return None
        known.count += 1
        return case_id, known

    def remember(self, line: bytes, row: CaseResultRow, pieces: Pieces) -> LineTemplate | None:
        """Remember a line that was parsed and checked, if lines like it can be recognized by their bytes.

        That requires the spelling of this program, and the id as the `case_id` of the case and of each
        verdict, and of nothing else.
        """
        token = _id_token(line)
        if token is None or len(self._known) >= _REMEMBERED:
            return None
        if line.count(CASE_ID_KEY + token) != 1 + len(row["verdicts"]) or dumps(row) != line:
            return None
        # Another line of the same file may be like it: `find` is called for all lines before any is parsed.
        return self._known.setdefault(line.replace(CASE_ID_KEY + token, CASE_ID_KEY), LineTemplate(pieces))

    def count(self, tally: Tally) -> None:
        """Add every row that `find` has returned to a tally, and forget all lines."""
        for known in self._known.values():
            if known.count:
                tally.add_row(known.shared(), known.count)
        self._known.clear()


def _id_token(line: bytes) -> bytes | None:
    """Return the id at the start of a line, with quotes; None where it has escapes or is not first."""
    if not line.startswith(_BEGIN + b'"'):
        return None
    end = line.find(b'"', len(_BEGIN) + 1)
    token = line[len(_BEGIN) : end + 1]
    return None if b"\\" in token else token


Row = TypeVar("Row")
_Row_co = TypeVar("_Row_co", covariant=True)


class RowTable(Protocol[_Row_co]):
    """Rows by position, in a compact form."""

    def __len__(self) -> int: ...

    def row(self, position: int) -> _Row_co:
        """Build the row at a position from 0; each call returns a new one."""
        ...


class Rows(Sequence[Row]):
    """Sequence of rows, each built on access; equal to any sequence of equal rows."""

    def __init__(self, table: RowTable[Row]) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, position: int) -> Row: ...
    @overload
    def __getitem__(self, position: slice) -> list[Row]: ...
    def __getitem__(self, position: int | slice) -> Row | list[Row]:
        selected = range(len(self._table))[position]
        if isinstance(selected, int):
            return self._table.row(selected)
        return [self._table.row(number) for number in selected]

    def __iter__(self) -> Iterator[Row]:
        return (self._table.row(position) for position in range(len(self._table)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            row == another for row, another in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} cases"


class RowsById(Mapping[str, Row]):
    """Mapping of rows by the id of their case, in order; each is built on access.

    Args:
        positions: Position of every case by its id, in order.
        table: The rows.
    """

    def __init__(self, positions: Mapping[str, int], table: RowTable[Row]) -> None:
        self._positions = positions
        self._table = table

    def __getitem__(self, case_id: str) -> Row:
        return self._table.row(self._positions[case_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._positions

    def keys(self) -> KeysView[str]:
        """Return the ids, with the set operations of a dictionary's keys."""
        return self._positions.keys()


class IndexRow(Mapping[str, Any]):
    """Row of the index whose calls are stored as JSON, which takes a quarter of the memory of lists.

    Read it like the dictionary from which it was made; that dictionary is empty afterwards.
    """

    __slots__ = (
        "_calls",
        "_more",
        "case_id",
        "cost_usd",
        "definition_digest",
        "input_tokens",
        "latency_ms",
        "models",
        "output_digest",
        "output_tokens",
    )

    def __init__(self, row: dict[str, Any]) -> None:
        take = row.pop
        # A copy, because the serializer's result keeps a buffer of several KB alive.
        self._calls = bytes(memoryview(dumps(take("calls"))))
        self.case_id: str = take("case_id")
        self.cost_usd = take("cost_usd")
        self.definition_digest = take("definition_digest")
        self.input_tokens = take("input_tokens")
        self.latency_ms = take("latency_ms")
        self.models = take("models")
        self.output_digest = take("output_digest")
        self.output_tokens = take("output_tokens")
        self._more = row or None

    def __getitem__(self, name: str) -> Any:
        if name in _PLAIN:
            return getattr(self, name)
        if name == "calls":
            return orjson.loads(self._calls)
        return (self._more or {})[name]

    def __iter__(self) -> Iterator[str]:
        yield from ("calls", *_PLAIN, *(self._more or ()))

    def __len__(self) -> int:
        return 1 + len(_PLAIN) + len(self._more or ())


_PLAIN = tuple(name for name in IndexRow.__slots__ if not name.startswith("_"))


class IndexTable(RowTable[CaseIndexRow]):
    """Rows of an index. Each access builds a dictionary with all fields of the file.

    Args:
        rows: The rows, in suite order.
    """

    def __init__(self, rows: list[IndexRow]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @override
    def row(self, position: int) -> CaseIndexRow:
        return cast(CaseIndexRow, dict(self.rows[position]))


class IndexTableView(RowTable[CaseIndexRow]):
    """Rows of an index without dictionaries: faster where a few fields of many rows are read.

    Each access returns the same `IndexRow`, which is read like a dictionary but is none.
    """

    def __init__(self, index: IndexTable) -> None:
        self._rows = index.rows

    def __len__(self) -> int:
        return len(self._rows)

    @override
    def row(self, position: int) -> CaseIndexRow:
        return cast(CaseIndexRow, self._rows[position])


CompactResult = LineTemplate | Pieces
"""Compact form of a case result, from which its row is built with the id of the case."""


class ResultTable(RowTable[CaseResultRow]):
    """Case results.

    Args:
        ids: Ids of the cases in suite order.
        results: Compact form of their results.
    """

    def __init__(self, ids: list[str], results: list[CompactResult]) -> None:
        self._ids = ids
        self._results = results

    def __len__(self) -> int:
        return len(self._results)

    @override
    def row(self, position: int) -> CaseResultRow:
        result, case_id = self._results[position], self._ids[position]
        if isinstance(result, LineTemplate):
            return result.row(case_id)
        return put_together(result, case_id)

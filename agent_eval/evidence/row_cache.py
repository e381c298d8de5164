"""Rows of a large pack in little memory: kept as what they are made of, made when they are asked for.

As plain dictionaries the rows of a case take some 8 KB; what is kept takes one, and next to nothing of case
results that are like earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast, overload

import orjson

from agent_eval.contracts import CaseIndexRow, CaseResultRow, Tally
from agent_eval.storage.json import dumps

_BEGIN = b'{"case_id":'
CASE_ID_KEY = b'"case_id":'
_REMEMBERED = 2_000
"""Most lines remembered; a line takes some 2 KB."""
_SHARED_PIECES = 20_000
"""Most pieces of lines looked for again; a piece takes some 250 bytes."""


Pieces = tuple[bytes, ...]
"""A line of a case result without its ids."""


def put_together(pieces: Pieces, case_id: str) -> CaseResultRow:
    """The row of a line that was taken apart, of the case with this id."""
    return cast(CaseResultRow, orjson.loads((CASE_ID_KEY + dumps(case_id)).join(pieces)))


class PieceTable:
    """Takes lines apart at the ids in them, so that what lines have in common is kept once."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}

    def take_apart(self, case_id: str, line: bytes) -> Pieces:
        """The pieces of a line, for `put_together`."""
        pieces = line.split(CASE_ID_KEY + dumps(case_id))
        if len(self._known) < _SHARED_PIECES:
            return tuple(self._known.setdefault(piece, piece) for piece in pieces)
        return tuple(self._known.get(piece, piece) for piece in pieces)


class Form:
    """A line that was checked, and how many lines since were like it."""

    __slots__ = ("_pieces", "_row", "count")

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._row: CaseResultRow | None = None
        self.count = 0

    def row(self, case_id: str) -> CaseResultRow:
        """The row of a case whose line is like this. Rows share what lies below the fields of verdicts."""
        if not self.count:
            return put_together(self._pieces, case_id)
        shared = self.shared()
        verdicts: Any = [{**verdict, "case_id": case_id} for verdict in shared["verdicts"]]
        return {**shared, "case_id": case_id, "verdicts": verdicts}

    def shared(self) -> CaseResultRow:
        """The row of no case, made once."""
        if self._row is None:
            self._row = put_together(self._pieces, "")
        return self._row


class KnownLines:
    """Lines of case results seen so far, without their ids."""

    def __init__(self) -> None:
        self._known: dict[bytes, Form] = {}

    def find(self, line: bytes) -> tuple[str, Form] | None:
        """Id and form of a line that is like an earlier one, counted; None where it has to be parsed."""
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

    def remember(self, line: bytes, row: CaseResultRow, pieces: Pieces) -> Form | None:
        """Keep a line that has been parsed and checked, if lines like it can be told from their bytes.

        That is so when it is spelled as this program spells it, and the id stands in it as the id of the
        case and of each verdict and nowhere else as a `case_id`.
        """
        token = _id_token(line)
        if token is None or len(self._known) >= _REMEMBERED:
            return None
        if line.count(CASE_ID_KEY + token) != 1 + len(row["verdicts"]) or dumps(row) != line:
            return None
        # Another line of the same file may be like it: they are looked for before any is read.
        return self._known.setdefault(line.replace(CASE_ID_KEY + token, CASE_ID_KEY), Form(pieces))

    def count(self, tally: Tally) -> None:
        """Add every row that `find` returned to a tally, and forget all lines."""
        for known in self._known.values():
            if known.count:
                tally.add_row(known.shared(), known.count)
        self._known.clear()


def _id_token(line: bytes) -> bytes | None:
    """The id as it stands in a line, quotes included; None where it is not plain and first."""
    if not line.startswith(_BEGIN + b'"'):
        return None
    end = line.find(b'"', len(_BEGIN) + 1)
    token = line[len(_BEGIN) : end + 1]
    return None if b"\\" in token else token


Row = TypeVar("Row")
_Row_co = TypeVar("_Row_co", covariant=True)


class KeptRows(Protocol[_Row_co]):
    """Rows by their position."""

    def __len__(self) -> int: ...

    def row(self, position: int) -> _Row_co:
        """The row at a position from 0, new for every call."""
        ...


class Rows(Sequence[Row]):
    """Rows in order, each made when it is asked for; equal to any sequence of equal rows."""

    def __init__(self, kept: KeptRows[Row]) -> None:
        self._kept = kept

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, position: int) -> Row: ...
    @overload
    def __getitem__(self, position: slice) -> list[Row]: ...
    def __getitem__(self, position: int | slice) -> Row | list[Row]:
        found = range(len(self._kept))[position]
        return self._kept.row(found) if isinstance(found, int) else [self._kept.row(one) for one in found]

    def __iter__(self) -> Iterator[Row]:
        return (self._kept.row(position) for position in range(len(self._kept)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)} cases"


class RowsById(Mapping[str, Row]):
    """Rows by the id of their case, in order, each made when it is asked for.

    Args:
        positions: Of every case, in order.
        kept: The rows.
    """

    def __init__(self, positions: Mapping[str, int], kept: KeptRows[Row]) -> None:
        self._positions = positions
        self._kept = kept

    def __getitem__(self, case_id: str) -> Row:
        return self._kept.row(self._positions[case_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, case_id: object) -> bool:
        return case_id in self._positions

    def keys(self) -> KeysView[str]:
        """The ids; set operations on them are those of a dictionary."""
        return self._positions.keys()


class IndexRow(Mapping[str, Any]):
    """A row of the index with its calls as JSON, which is a quarter of what they take as lists.

    To be read like the dictionary it was made from; that one is empty afterwards.
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
        # A copy of its own: what the serialiser returns holds on to a buffer of several KB.
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


class KeptIndex:
    """The rows of an index.

    Args:
        rows: In suite order.
    """

    def __init__(self, rows: list[IndexRow]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, position: int) -> CaseIndexRow:
        """See `KeptRows.row`: a dictionary, with all that stands in the file."""
        return cast(CaseIndexRow, dict(self.rows[position]))


class LeanIndex:
    """The same rows as they are kept, for reading a few fields of many."""

    def __init__(self, index: KeptIndex) -> None:
        self._rows = index.rows

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, position: int) -> CaseIndexRow:
        """See `KeptRows.row`; the one row there is, which is no dictionary but is read like one."""
        return cast(CaseIndexRow, self._rows[position])


KeptResult = Form | Pieces
"""What a case result is made from, given its id."""


class KeptResults:
    """Case results.

    Args:
        ids: Ids of the cases in suite order.
        kept: What their results are made from.
    """

    def __init__(self, ids: list[str], kept: list[KeptResult]) -> None:
        self._ids = ids
        self._kept = kept

    def __len__(self) -> int:
        return len(self._kept)

    def row(self, position: int) -> CaseResultRow:
        """See `KeptRows.row`."""
        kept, case_id = self._kept[position], self._ids[position]
        if isinstance(kept, Form):
            return kept.row(case_id)
        return put_together(kept, case_id)

"""Rows of a large pack in little memory: kept as what they are made of, made when they are asked for.

As plain dictionaries the rows of a case take some 8 KB; what is kept takes one, and next to nothing of case
results that are like earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast, overload

import orjson

from agent_eval.contracts import CaseIndexRow, CaseResultRow
from agent_eval.evidence.alike import Form, Pieces, put_together
from agent_eval.storage.json_writer import dumps

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

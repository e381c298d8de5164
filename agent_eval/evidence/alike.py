"""Case results that differ from an earlier one in nothing but the id of their case.

Most lines of a large run are like that: judges say the same of many cases. Parsing and checking such a
line again would tell nothing new, so the earlier one's row stands for it, with the other id.
"""

from __future__ import annotations

from typing import Any, cast

import orjson

from agent_eval.contracts import CaseResultRow, Tally
from agent_eval.storage.json_writer import dumps

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

"""Case results that differ from an earlier one in nothing but the id of their case.

Most lines of a large run are like that: judges say the same of many cases. Parsing and checking such a
line again would tell nothing new, so the earlier one's row is copied with the other id.
"""

from __future__ import annotations

from typing import Any

import orjson

from agent_eval.contracts import CaseResultRow, Tally
from agent_eval.storage.json_writer import dumps

_BEGIN = b'{"case_id":'
_KEY = b'"case_id":'
_REMEMBERED = 2_000
"""Most lines remembered; a line takes some 2 KB."""


class _Known:
    """A line that was checked: its row, and how many lines since were like it."""

    __slots__ = ("count", "row")

    def __init__(self, row: CaseResultRow) -> None:
        self.row = row
        self.count = 0

    def copy(self, case_id: str) -> CaseResultRow:
        self.count += 1
        row = self.row
        verdicts: Any = [{**verdict, "case_id": case_id} for verdict in row["verdicts"]]
        return {**row, "case_id": case_id, "verdicts": verdicts}


class KnownLines:
    """Lines of case results seen so far, without their ids.

    Rows made from one line share what lies below their fields; nobody changes a pack's rows.
    """

    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}

    def find(self, line: bytes) -> CaseResultRow | None:
        """The row of a line that is like an earlier one; None where it has to be parsed."""
        token = _id_token(line)
        if token is None:
            return None
        known = self._known.get(line.replace(_KEY + token, _KEY))
        if known is None:
            return None
        try:
            return known.copy(orjson.loads(token))
        except orjson.JSONDecodeError:
            return None

    def remember(self, line: bytes, row: CaseResultRow) -> None:
        """Keep a line that has been parsed and checked, if lines like it can be told from their bytes.

        That is so when it is spelled as this program spells it, and the id stands in it as the id of the
        case and of each verdict and nowhere else as a `case_id`.
        """
        token = _id_token(line)
        if token is None or len(self._known) >= _REMEMBERED:
            return
        if line.count(_KEY + token) == 1 + len(row["verdicts"]) and dumps(row) == line:
            self._known[line.replace(_KEY + token, _KEY)] = _Known(row)

    def count(self, tally: Tally) -> None:
        """Add every row that `find` returned to a tally, and forget all lines."""
        for known in self._known.values():
            if known.count:
                tally.add_row(known.row, known.count)
        self._known.clear()


def _id_token(line: bytes) -> bytes | None:
    """The id as it stands in a line, quotes included; None where it is not plain and first."""
    if not line.startswith(_BEGIN + b'"'):
        return None
    end = line.find(b'"', len(_BEGIN) + 1)
    token = line[len(_BEGIN) : end + 1]
    return None if b"\\" in token else token

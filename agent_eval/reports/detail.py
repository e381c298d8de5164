"""Levels of detail of a report. A report that is too long shows less; its markup is never cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_eval.text.escape import code_span


@dataclass(frozen=True, kw_only=True)
class Detail:
    """Upper bounds for everything that grows with the evaluation.

    Args:
        suites: Suites with a section of their own, and lines in the list of suites.
        cases: Cases that got worse in full, one of each cause first.
        rows: Rows of a table, and sentences of a list.
        ids: Names in a row, and judges of a case.
        quote: Characters of a quoted reason, output, argument or name.
        folded: Whether what a reader can open is there, and commands and links are.
        is_whole: Whether all that is known is shown, and not one case of each cause.
    """

    suites: int
    cases: int
    rows: int
    ids: int
    quote: int
    folded: bool = True
    is_whole: bool = False

    def code(self, text: str) -> str:
        """Set text as inline code, as long as there is room for."""
        return code_span(text, limit=self.quote)


COMMENT = (
    Detail(suites=20, cases=5, rows=40, ids=4, quote=240),
    Detail(suites=20, cases=4, rows=15, ids=4, quote=160),
    Detail(suites=8, cases=3, rows=8, ids=4, quote=100),
    Detail(suites=4, cases=1, rows=5, ids=3, quote=80, folded=False),
    Detail(suites=2, cases=0, rows=3, ids=2, quote=60, folded=False),
    Detail(suites=1, cases=0, rows=1, ids=1, quote=40, folded=False),
    Detail(suites=0, cases=0, rows=0, ids=0, quote=40, folded=False),
)
"""Levels for a comment: what a person reads on a phone, then less and less of it."""

FILE_LIMIT = 1024 * 1024
"""Bytes of a report in a file of its own: larger ones are slow in viewers of markdown."""

FULL = (
    Detail(suites=500, cases=1000, rows=2000, ids=500, quote=600, is_whole=True),
    Detail(suites=200, cases=300, rows=500, ids=100, quote=300, is_whole=True),
    Detail(suites=100, cases=50, rows=100, ids=30, quote=200, is_whole=True),
    *COMMENT,
)
"""Levels for the full report: as much as there is room for."""

_SPARE = 32
"""One part in this many is not used, because a redacted text may be longer."""


def fit(
    render: Callable[[Detail], str], levels: Sequence[Detail], *, limit: int, size: Callable[[str], int]
) -> str:
    """Choose the most detailed rendering within `limit`, or the least detailed one if none is.

    `size` counts the characters or bytes of a text; `levels` go from the most detailed to the least.
    """
    text = ""
    for level in levels:
        text = render(level)
        if size(text) <= limit - limit // _SPARE:
            break
    return text


def characters(text: str) -> int:
    """Length in UTF-16 units: never less than the number of characters, however a platform counts them."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8_bytes(text: str) -> int:
    """Length in bytes of UTF-8."""
    return len(text.encode("utf-8", "replace"))

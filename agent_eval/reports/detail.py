"""Levels of detail of a report. A report that is too long shows less; its markup is never cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache


@dataclass(frozen=True, kw_only=True)
class Detail:
    """Upper bounds for everything that grows with the evaluation.

    Args:
        suites: Suites with a section of their own.
        suite_lines: Suites in the list at the top.
        cases: Regressed cases in full and open, one for each cause: reasons, behaviour, output, command.
        folded_cases: Further regressed cases in full, behind a click. `fit` sets it by the room there is.
        one_liners: Further regressed cases with one line each. `fit` sets it by the room there is.
        listed: Lines in each list of other cases: those that fail, that improved, that pass less often.
        ids: Case ids named in each list of new, changed and removed cases.
        judges: Judges shown for a case, and rows of the judge table.
        quote: Characters of a quoted reason, output or argument.
        name: Characters of a quoted name: case id, judge, suite, branch.
        folded: Whether the tables a reader can open are there: judges, rules, provenance.
        commands: Whether the command that reproduces a case is shown.
        sentences: Reasons, notices and warnings shown, each.
        elsewhere: Where to read what is left out.
        cases_elsewhere: Where to read the regressed cases that are left out.
        calm: Whether suites in which there is nothing to look at have no section of their own.
    """

    suites: int
    suite_lines: int
    cases: int
    listed: int
    ids: int
    judges: int
    clusters: int
    quote: int
    name: int
    folded: bool = True
    commands: bool = True
    links: bool = True
    sentences: int = 10
    elsewhere: str = "see the full report"
    cases_elsewhere: str = "see the full report"
    folded_cases: int = 0
    one_liners: int = 0
    calm: bool = False


COMMENT = (
    Detail(suites=20, suite_lines=60, cases=5, listed=40, ids=10, judges=8, clusters=8, quote=240, name=120),
    Detail(suites=20, suite_lines=60, cases=5, listed=20, ids=10, judges=6, clusters=5, quote=160, name=100),
    Detail(suites=10, suite_lines=40, cases=4, listed=10, ids=6, judges=5, clusters=3, quote=120, name=80),
    Detail(suites=6, suite_lines=30, cases=3, listed=5, ids=5, judges=4, clusters=2, quote=100, name=60),
    Detail(
        suites=4, suite_lines=20, cases=2, listed=0, ids=4, judges=3,
        clusters=0, quote=80, name=60, sentences=5, folded=False,
    ),
    Detail(
        suites=2, suite_lines=12, cases=1, listed=3, ids=3, judges=2,
        clusters=0, quote=60, name=40, sentences=4, folded=False,
    ),
    Detail(
        suites=1, suite_lines=8, cases=0, listed=3, ids=2, judges=2,
        clusters=0, quote=60, name=40, sentences=3, folded=False, commands=False,
    ),
    Detail(
        suites=1, suite_lines=3, cases=0, listed=0, ids=1, judges=0,
        clusters=0, quote=60, name=32, sentences=2, folded=False, commands=False, links=False,
    ),
    Detail(
        suites=0, suite_lines=1, cases=0, listed=0, ids=0, judges=0,
        clusters=0, quote=60, name=24, sentences=1, folded=False, commands=False, links=False,
    ),
)  # fmt: skip
"""Levels for a comment: what a person reads on a phone, then less and less of it."""

FILE_LIMIT = 1024 * 1024
"""Bytes of a report in a file of its own: larger ones are slow in viewers of markdown."""

FULL = (
    Detail(
        suites=500, suite_lines=500, cases=200, listed=2000, ids=500, judges=100,
        clusters=50, quote=600, name=300, sentences=50,
    ),
    Detail(
        suites=200, suite_lines=500, cases=100, listed=500, ids=100, judges=50,
        clusters=30, quote=300, name=200, sentences=50,
    ),
    *COMMENT,
)  # fmt: skip
"""Levels for the full report: as much as there is room for."""


_IN_FULL = 3, 4
"""The share of the room for cases in full where not all of them fit; the rest is for one-liners."""
_FEW = 4
"""Up to this many times the cases that a level shows, all of them are tried first."""
_SPARE = 32
"""One part in this many is not used, because a redacted text may be longer."""


def fit(
    render: Callable[[Detail], str],
    levels: Sequence[Detail],
    *,
    limit: int,
    size: Callable[[str], int],
    regressed: int = 0,
) -> str:
    """Choose the most detailed rendering within `limit`, or the least detailed one if none is.

    Fill the remaining room with regressed cases: in full, then with one line each.

    Args:
        levels: From the most detailed to the least.
        size: Counts the characters or bytes of a text.
        regressed: The number of regressed cases of the suite with the most of them.
    """
    room = limit - limit // _SPARE
    render = lru_cache(maxsize=1)(render)  # the text that fits is not rendered twice
    text = ""
    for level in levels:
        text = render(level)
        if size(text) <= limit:
            return render(_filled(level, regressed, lambda detail: size(render(detail)) <= room))
    return text


def _filled(level: Detail, regressed: int, fits: Callable[[Detail], bool]) -> Detail:
    """Add as many further regressed cases to a level as fit."""
    if not regressed:
        return level

    def in_full(number: int) -> Detail:
        return replace(level, folded_cases=number)

    def with_the_rest(number: int) -> Detail:
        return replace(level, folded_cases=number, one_liners=regressed)

    if regressed <= _FEW * level.cases and fits(in_full(regressed)):
        return in_full(regressed)
    most = _most(regressed, lambda number: fits(in_full(number))) if level.cases else 0
    if most == regressed:
        return in_full(most)
    share, parts = _IN_FULL
    in_full_most = most * share // parts
    if fits(with_the_rest(in_full_most)):
        return with_the_rest(_most(most, lambda number: fits(with_the_rest(number)), least=in_full_most))
    lines = _most(regressed, lambda number: fits(replace(in_full(in_full_most), one_liners=number)))
    return replace(in_full(in_full_most), one_liners=lines)


def _most(bound: int, fits: Callable[[int], bool], *, least: int = 0) -> int:
    """Find the greatest number from `least` to `bound` that fits; `least` if none does."""
    # Of very many cases few fit, and rendering half of them takes long: search from below.
    step, tried = 8, least
    while tried < bound and fits(min(bound, tried + step)):
        tried, step = min(bound, tried + step), 2 * step
    if tried == bound:
        return bound
    low, high = tried, min(bound, tried + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def characters(text: str) -> int:
    """Length in UTF-16 units: never less than the number of characters, however a platform counts them."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8_bytes(text: str) -> int:
    """Length in bytes of UTF-8."""
    return len(text.encode("utf-8", "replace"))

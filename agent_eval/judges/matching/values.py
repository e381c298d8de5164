"""Compare JSON values by place, with tolerances, globs of places to ignore, and patterns.

Numbers are compared as the decimals that were written, without rounding.
"""

from __future__ import annotations

import operator
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import orjson

from agent_eval.judges.base import clipped, listed, quoted
from agent_eval.judges.matching.re2 import compile_glob, compile_pattern

Number = int | float | Decimal

MOST_UNORDERED = 200
"""Most items of a list that is compared in any order."""


def exact(number: Number) -> Fraction:
    """Turn a number of JSON or of a configuration into the decimal that was written, without rounding."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def is_within(expected: Number, actual: Number, tolerance: float) -> bool:
    """Tell whether two numbers differ by at most `tolerance`, as the decimals that were written.

    Example:
        >>> is_within(19.9, 19.91, 0.01), abs(19.9 - 19.91) <= 0.01
        (True, False)
    """
    return expected == actual or abs(exact(expected) - exact(actual)) <= exact(tolerance)


@dataclass(frozen=True, slots=True)
class Rules:
    """How `differences` compares values. Places are written `a.b.0.c` and may be globs: `*.id`, `items.*`.

    `partial`: objects may have more members than expected, at every level.
    `tolerance`: numbers may differ by this much, absolutely.
    `ignore`: places that are not compared.
    `unordered`: places of lists whose items may be in any order.
    `patterns`: RE2 patterns by place; the value there (a string, else its JSON text) must match.

    Example:
        >>> rules = Rules(ignore=("*.created_at",), patterns={"reason": "(?i)damaged"})
        >>> list(differences({}, {"order": {"created_at": 7}, "reason": "late"}, rules))
        ['order is {"created_at": 7} and was not expected', 'reason "late" does not match "(?i)damaged"']
    """

    partial: bool = False
    tolerance: float = 0.0
    ignore: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)

    def ignores(self, place: str) -> bool:
        """Whether a place is not compared."""
        return any(_is_at(glob, place) for glob in self.ignore)

    def pattern_at(self, place: str) -> str | None:
        """Return the pattern for a place; None if it has none."""
        return next((text for glob, text in self.patterns.items() if _is_at(glob, place)), None)


def differences(expected: Any, actual: Any, rules: Rules, place: str = "") -> Iterator[str]:
    """Yield every way in which a JSON value differs from the expected one, in bounded words.

    `True` is not `1`, and `1` is `1.0`. Lists are compared item by item and must be of equal length.
    """
    if place and rules.ignores(place):
        return
    where = _where(place)
    pattern = rules.pattern_at(place)
    if pattern is not None:
        if compile_pattern(pattern).search(searchable_text(actual)) is None:
            yield f"{where} {quoted(actual)} does not match {quoted(pattern)}"
    elif isinstance(expected, dict) and isinstance(actual, dict):
        yield from _member_differences(expected, actual, rules, place)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{where} has {len(actual)} items instead of {len(expected)}"
            return
        if any(_is_at(glob, place) for glob in rules.unordered):
            yield from _differences_in_any_order(expected, actual, rules, place)
            return
        for position, (expected_item, actual_item) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(expected_item, actual_item, rules, _below(place, str(position)))
    elif _is_number(expected) and _is_number(actual):
        if not is_within(expected, actual, rules.tolerance):
            yield f"{where} is {quoted(actual)} instead of {quoted(expected)}"
    elif type(expected) is not type(actual) or expected != actual:
        texts = isinstance(expected, str) and isinstance(actual, str)
        unseen = unseen_difference(expected, actual) if texts else None
        only = f", which differs only in {unseen}" if unseen else ""
        yield f"{where} is {quoted(actual)} instead of {quoted(expected)}{only}"


def _differences_in_any_order(
    expected: list[Any], actual: list[Any], rules: Rules, place: str
) -> Iterator[str]:
    if len(expected) > MOST_UNORDERED:
        yield f"{_where(place)} has {len(expected)} items, more than the {MOST_UNORDERED} that are compared"
        return

    def fits(i: int, j: int) -> bool:
        return not any(differences(expected[i], actual[j], rules, _below(place, str(i))))

    pairs = pair_in_any_order(len(expected), len(actual), fits)
    for position in range(len(expected)):
        if position not in pairs:
            yield f"{_where(place)} has no item {quoted(expected[position])}, in any order"


def _member_differences(
    expected: dict[str, Any], actual: dict[str, Any], rules: Rules, place: str
) -> Iterator[str]:
    for name, expected_value in expected.items():
        below = _below(place, name)
        if name in actual:
            yield from differences(expected_value, actual[name], rules, below)
        elif not rules.ignores(below):
            yield f"{_where(below)} is missing"
    for name, actual_value in actual.items():
        below = _below(place, name)
        if name in expected or rules.ignores(below):
            continue
        if rules.pattern_at(below) is not None:
            yield from differences(None, actual_value, rules, below)
        elif not rules.partial:
            yield f"{_where(below)} is {quoted(actual_value)} and was not expected"
    for name in () if place else rules.patterns:
        # A pattern requires its member to exist, unless it is a glob.
        if name.isidentifier() and name not in actual and name not in expected:
            yield f"{_where(name)} is missing"


def _is_at(glob: str, place: str) -> bool:
    # Names of members may hold lone surrogates, which RE2 cannot read and no glob asks for.
    return glob == place or compile_glob(glob).search(place.encode("utf-8", "replace")) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def searchable_text(value: Any) -> bytes:
    """Encode a string as UTF-8, and anything else as compact JSON."""
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _where(place: str) -> str:
    return clipped(place, 60) or "the value"


_QUOTES = str.maketrans(
    "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\xab\xbb\u2039\u203a`\xb4'", '"' * 15
)
_UNSEEN: Mapping[str, Callable[[str], str]] = {
    "the normal form of Unicode": partial(unicodedata.normalize, "NFC"),
    "quotes": lambda text: text.translate(_QUOTES),
    "spaces": lambda text: " ".join(text.split()),
}
"""What readers do not see of a difference between two texts, and what makes texts equal that differ so."""


def unseen_difference(
    expected: str, actual: str, fits: Callable[[str, str], bool] = operator.eq
) -> str | None:
    """Name what readers do not see without which a text would fit; None where it would not, or fits already.

    Example:
        >>> unseen_difference("\u201cyes\u201d,\xa0he said", '"yes", he said')
        'quotes and spaces'
    """

    def fits_without(names: Collection[str]) -> bool:
        texts = [expected, actual]
        for name in names:
            texts = [_UNSEEN[name](text) for text in texts]
        return fits(*texts)

    needed = [name for name in _UNSEEN if not fits_without([other for other in _UNSEEN if other != name])]
    return listed(needed) if needed and fits_without(_UNSEEN) else None


Fits = Callable[[int, int], bool]
"""Whether expected call number i could be actual call number j."""


def pair_in_any_order(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """Find a largest set of pairs regardless of order, as {expected: actual}.

    Maximum bipartite matching by shortest augmenting paths (Hopcroft and Karp 1973 augment along many
    paths at a time; traces are short, so one at a time will do). A greedy choice can miss a pair that this
    finds: one actual call may fit two expected ones, of which only one has an alternative.
    """
    options = [[j for j in range(actual) if fits(i, j)] for i in range(expected)]
    pairs: dict[int, int] = {}
    expected_of: dict[int, int] = {}
    for start in range(expected):
        # Find a partner for `start`, moving others to their alternatives if that frees one.
        reached_from: dict[int, int] = {}
        free: int | None = None
        queue = deque([start])
        while queue and free is None:
            i = queue.popleft()
            for j in options[i]:
                if j not in reached_from:
                    reached_from[j] = i
                    if j not in expected_of:
                        free = j
                        break
                    queue.append(expected_of[j])
        # Flip the pairs along the path that ends there, which gains one pair.
        while free is not None:
            i = reached_from[free]
            expected_of[free] = i
            pairs[i], free = free, pairs.get(i)
    return dict(sorted(pairs.items()))

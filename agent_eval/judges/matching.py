"""Whether a JSON value is the expected one: exactly, in part, within a tolerance, or by pattern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from agent_eval.judges.patterns import compile_glob, compile_pattern
from agent_eval.judges.wording import clipped, quoted


@dataclass(frozen=True, slots=True)
class Rules:
    """How to compare. Places are written `a.b.0.c` and may be globs: `*.id`, `items.*`.

    `partial`: objects may have more members than expected, at every level.
    `tolerance`: numbers may differ by this much, absolutely.
    `ignore`: places that are not compared.
    `patterns`: RE2 patterns by place; the value there (a string, else its JSON text) must show it.
    `defaults`: members that may be left out, on either side, when the other has this value.
    """

    partial: bool = False
    tolerance: float = 0.0
    ignore: tuple[str, ...] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def ignored(self, place: str) -> bool:
        """Whether a place is not compared."""
        return any(_is_at(glob, place) for glob in self.ignore)

    def pattern_at(self, place: str) -> str | None:
        """The pattern for a place, if there is one."""
        return next((text for glob, text in self.patterns.items() if _is_at(glob, place)), None)


def _is_at(glob: str, place: str) -> bool:
    # Names of members may hold lone surrogates, which RE2 cannot read and no glob asks for.
    return glob == place or compile_glob(glob).search(place.encode("utf-8", "replace")) is not None


def differences(expected: Any, actual: Any, rules: Rules, place: str = "") -> Iterator[str]:
    """Every way in which a value is not the expected one, in bounded words; nothing when it is.

    `True` is not `1`, and `1` is `1.0`. Lists are compared item by item and must be of equal length.
    """
    if place and rules.ignored(place):
        return
    pattern = rules.pattern_at(place)
    if pattern is not None:
        if compile_pattern(pattern).search(_text(actual)) is None:
            yield f"{_said(place)} {quoted(actual)} does not match {quoted(pattern)}"
    elif isinstance(expected, dict) and isinstance(actual, dict):
        yield from _members(expected, actual, rules, place)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            yield f"{_said(place)} has {len(actual)} items instead of {len(expected)}"
        else:
            for position, (wanted, given) in enumerate(zip(expected, actual, strict=True)):
                yield from differences(wanted, given, rules, _below(place, str(position)))
    elif not same_scalar(expected, actual, rules.tolerance):
        yield f"{_said(place)} is {quoted(actual)} instead of {quoted(expected)}"


def _members(expected: dict[str, Any], actual: dict[str, Any], rules: Rules, place: str) -> Iterator[str]:
    for name, wanted in expected.items():
        below = _below(place, name)
        if name in actual:
            yield from differences(wanted, actual[name], rules, below)
        elif not rules.ignored(below) and not _is_default(wanted, below, rules):
            yield f"{_said(below)} is missing"
    for name, given in actual.items():
        below = _below(place, name)
        if name in expected or rules.ignored(below) or _is_default(given, below, rules):
            continue
        if rules.pattern_at(below) is not None:
            yield from differences(None, given, rules, below)
        elif not rules.partial:
            yield f"{_said(below)} is {quoted(given)} and was not expected"
    for name in rules.patterns:
        # A pattern asks for its member to be there, unless it is a glob.
        if not place and name.isidentifier() and name not in actual and name not in expected:
            yield f"{_said(name)} is missing"


def _is_default(value: Any, place: str, rules: Rules) -> bool:
    return place in rules.defaults and not any(differences(rules.defaults[place], value, Rules()))


def same_scalar(expected: Any, actual: Any, tolerance: float = 0.0) -> bool:
    """Whether two values that are not both objects or both arrays are the same JSON value."""
    if _is_number(expected) and _is_number(actual):
        return expected == actual or bool(abs(expected - actual) <= tolerance)
    return type(expected) is type(actual) and bool(expected == actual)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else orjson.dumps(value)


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _said(place: str) -> str:
    return clipped(place, 60) if place else "the value"

"""Reading one input's text as the kind of value that it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.ci.table import Input
from agent_eval.contracts.trials import case_policy
from agent_eval.errors import InvalidInput, UsageError

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_LONGEST = 100_000
_LARGEST_AMOUNT = 1e9
_MOST_PARALLEL = 256


@dataclass(frozen=True, slots=True)
class Given:
    """A value as text, and where it came from (for error messages)."""

    text: str
    source: str


def parse_value(row: Input, given: Given) -> Any:
    """The value that the text stands for; None where it is empty and its kind has no empty value.

    Raises:
        UsageError: It stands for none; names the input and where it came from.
    """
    if len(given.text) > _LONGEST or not all(char.isprintable() or char in "\n\r\t" for char in given.text):
        raise wrong_value(given, row, "printable text of reasonable length", shown=False)
    return _PARSERS.get(row.kind, _line)(row, given)


def wrong_value(given: Given, row: Input, wanted: str, *, shown: bool = True) -> UsageError:
    """The error for a value that is not what it must be. No secret is repeated, not even a broken one."""
    value = f" {given.text[:80]!r}" if shown and row.kind != "secret" else ""
    return UsageError(
        f"{row.name}:{value} is not {wanted} (from {given.source}).",
        remedy=f"Set `{row.name}` to {wanted}." if shown else "Correct the value.",
        field=row.name,
    )


def _line(row: Input, given: Given) -> str:
    if "\n" in given.text or "\r" in given.text:
        raise wrong_value(given, row, "a single line", shown=False)
    return given.text


def _path(row: Input, given: Given) -> Path | None:
    return Path(text) if (text := _line(row, given)) else None


def _script(row: Input, given: Given) -> str:  # noqa: ARG001 - the table's
    return given.text


def _lines(row: Input, given: Given) -> tuple[str, ...]:
    separated = given.text.replace(",", "\n") if row.kind == "list" else given.text
    return tuple(line.strip() for line in separated.splitlines() if line.strip())


def _choice(row: Input, given: Given) -> str | None:
    if not given.text and not row.default:
        return None
    if given.text not in row.choices:
        raise wrong_value(given, row, " or ".join(row.choices))
    return given.text


def _share(row: Input, given: Given) -> float | None:
    number = _number(given)
    if number is not None and not 0 <= number <= 1:
        raise wrong_value(given, row, "a number from 0 to 1, such as 0.95")
    return number


def _amount(row: Input, given: Given) -> float | None:
    number = _number(given)
    if number is not None and not 0 < number <= _LARGEST_AMOUNT:
        raise wrong_value(given, row, "a number above 0")
    return number


def _number(given: Given) -> float | None:
    """NaN for what is no number; it lies within no bounds."""
    try:
        return float(given.text) if given.text else None
    except ValueError:
        return math.nan


def _whole(row: Input, given: Given) -> int | None:
    text = given.text
    least = 0 if row.kind == "count" else 1
    if text and not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= least):
        raise wrong_value(given, row, f"a whole number from {least}")
    return int(text) if text else None


def _parallel(row: Input, given: Given) -> int | None:
    """None for `auto`."""
    text = given.text
    if text == "auto":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= _MOST_PARALLEL):
        raise wrong_value(given, row, f"auto or a number from 1 to {_MOST_PARALLEL}")
    return int(text)


def _switch(row: Input, given: Given) -> bool:
    word = given.text.lower()
    if word not in _TRUE | _FALSE:
        raise wrong_value(given, row, "true or false")
    return word in _TRUE


def _case_policy(row: Input, given: Given) -> str:
    try:
        return case_policy(given.text).text
    except InvalidInput:
        raise wrong_value(given, row, "all, any, majority, or pass_rate>=x with x from 0 to 1") from None


_PARSERS: Mapping[str, Callable[[Input, Given], Any]] = {
    "lines": _lines,
    "list": _lines,
    "script": _script,
    "path": _path,
    "choice": _choice,
    "share": _share,
    "amount": _amount,
    "count": _whole,
    "integer": _whole,
    "parallel": _parallel,
    "switch": _switch,
    "case policy": _case_policy,
}
"""By kind; every other kind is a line of text."""

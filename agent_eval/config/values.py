"""Values of options from text: one meaning of `0.95`, `auto` or `NAME=VARIABLE`, wherever it is written.

Only the standard library is imported with this module; it is part of every command's start.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from agent_eval.config.options import SECRET, Option

_NUMBERS = frozenset({"share", "amount", "count", "integer", "seed", "parallel"})
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_MOST_PARALLEL = 256
_LARGEST_AMOUNT = 1e9
_LARGEST_WHOLE = 10**18 - 1


class WrongValue(ValueError):
    """A text that is no value of its option.

    Attributes:
        wanted: What it should be: "a number from 0 to 1, such as 0.95".
        may_be_shown: Whether the text may be repeated in a message; it may be a secret otherwise.
    """

    def __init__(self, wanted: str, *, may_be_shown: bool = True) -> None:
        super().__init__(wanted)
        self.wanted, self.may_be_shown = wanted, may_be_shown


def parse(option: Option, text: str) -> Any:
    """Read the value of an option.

    `text` is not empty. Of an option with several values, it has all of them.

    Raises:
        WrongValue: It is not of that kind, or out of bounds.

    Example:
        >>> parse(Option("min-pass-rate", "share", "…", ("gate",)), "0.95")
        0.95
    """
    if option.is_listed:
        return _several(option, text)
    return _number(option, text) if option.kind in _NUMBERS else _single(option, text)


def texts_of(option: Option, value: Any) -> list[str]:
    """Write a value as the texts that `parse` reads: one for each time that the flag is given."""
    if option.kind == "headers":
        return [f"{name}={variable}" for name, variable in value]
    if option.is_listed:
        return list(value)
    return [f"{value:.15g}" if isinstance(value, float) else str(value)]


def _single(option: Option, text: str) -> Any:
    kind = option.kind
    if kind == "path":
        from pathlib import Path

        return Path(text)
    if kind == "object":
        import json

        try:
            return json.loads(text)
        except ValueError:
            raise WrongValue("a value of JSON") from None
    if kind == "switch":
        if text.lower() not in _TRUE | _FALSE:
            raise WrongValue("true or false")
        return text.lower() in _TRUE
    if kind == "choice" and text not in option.choices:
        raise WrongValue(" or ".join(option.choices))
    if kind in ("text", "secret", "url"):
        _refuse_unprintable(option, text)
    if kind == "url" and not text.lower().startswith(("http://", "https://")):
        raise WrongValue("an address such as https://host/path", may_be_shown="@" not in text)
    return text


def _number(option: Option, text: str) -> float | str:
    kind, bounds = option.kind, option.bounds
    if kind == "parallel" and text == "auto":
        return text
    least: float
    most: float
    if kind == "share":
        # A share that suits the option: its default, else a small one for what has an upper limit.
        usual = "0.05" if option.default or option.name.startswith("max-") else "0.95"
        if option.default and float(option.default):
            usual = option.default
        least, most, wanted = 0.0, 1.0, f"a number from 0 to 1, such as {usual}"
    elif kind == "amount":
        least, most = bounds or (math.nextafter(0.0, 1.0), _LARGEST_AMOUNT)
        wanted = f"a number from {least:g} to {most:g}" if bounds else "a number above 0"
    elif kind == "seed":
        least, most, wanted = -(2**63), 2**63 - 1, "a whole number of at most 64 bits"
    elif kind == "parallel":
        least, most, wanted = 1, _MOST_PARALLEL, f"auto or a number from 1 to {_MOST_PARALLEL}"
    else:
        least, most = bounds or (0 if kind == "count" else 1, _LARGEST_WHOLE)
        wanted = f"a whole number from {least:g}" + (f" to {most:g}" if bounds else "")
    number: float = math.nan
    if kind in ("share", "amount"):
        with suppress(ValueError):
            number = float(text)
    else:
        digits = text.removeprefix("-") if kind == "seed" else text
        if digits.isascii() and digits.isdigit() and len(text) <= len(str(-(2**63))):
            number = int(text)
    if not least <= number <= most:  # nor is NaN
        raise WrongValue(wanted)
    return number


def _several(option: Option, text: str) -> tuple[Any, ...]:
    kind = option.kind
    separated = text.replace(",", "\n") if kind in ("list", "variables") else text
    items = tuple(line.strip() for line in separated.splitlines() if line.strip())
    if option.choices and not set(items) <= set(option.choices):
        raise WrongValue(" or ".join(option.choices))
    if kind == "headers":
        pairs = [tuple(part.strip() for part in item.partition("=")[::2]) for item in items]
        if not all(name and _may_name_a_variable(variable) for name, variable in pairs):
            raise WrongValue("of the form NAME=VARIABLE, such as Authorization=MY_KEY", may_be_shown=False)
        return tuple(pairs)
    if kind in ("list", "variables"):
        for item in items:
            _refuse_unprintable(option, item)
    if kind == "variables" and not all(map(_may_name_a_variable, items)):
        raise WrongValue("the name of an environment variable", may_be_shown=False)
    return items


def _refuse_unprintable(option: Option, text: str) -> None:
    if not text.isprintable():
        is_public = option.kind not in SECRET
        wanted = "a line of text that can be printed" if is_public else "a single line"
        raise WrongValue(wanted, may_be_shown=is_public)


def _may_name_a_variable(name: str) -> bool:
    return name != "" and not any(char in "=\0" or char.isspace() for char in name)

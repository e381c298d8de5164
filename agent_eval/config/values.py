"""Values of options from text: one meaning of `0.95`, `auto` or `NAME=VARIABLE`, wherever it is written.

Only the standard library is imported with this module; it is part of every command's start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agent_eval.config.options import SECRET, Kind, Option

if TYPE_CHECKING:
    from pathlib import Path

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
    return _PARSERS[option.kind](option, text)


def texts_of(option: Option, value: Any) -> list[str]:
    """Write a value as the texts that `parse` reads: one for each time that the flag is given."""
    if option.kind == "headers":
        return [f"{name}={variable}" for name, variable in value]
    if option.is_listed:
        return list(value)
    return [f"{value:.15g}" if isinstance(value, float) else str(value)]


def _text(option: Option, text: str) -> str:
    if not text.isprintable():
        is_public = option.kind not in SECRET
        wanted = "a line of text that can be printed" if is_public else "a single line"
        raise WrongValue(wanted, may_be_shown=is_public)
    return text


def _url(option: Option, text: str) -> str:
    if not _text(option, text).lower().startswith(("http://", "https://")):
        raise WrongValue("an address such as https://host/path", may_be_shown="@" not in text)
    return text


def _path(_option: Option, text: str) -> Path:
    from pathlib import Path

    return Path(text)


def _choice(option: Option, text: str) -> str:
    if text not in option.choices:
        raise WrongValue(" or ".join(option.choices))
    return text


def _switch(_option: Option, text: str) -> bool:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise WrongValue("true or false")
    return word in _TRUE


def _share(option: Option, text: str) -> float:
    # A share that suits the option: its default, else a small one for what has an upper limit.
    usual = "0.05" if option.default or option.name.startswith("max-") else "0.95"
    if option.default and float(option.default):
        usual = option.default
    return _number(text, 0.0, 1.0, f"a number from 0 to 1, such as {usual}")


def _amount(option: Option, text: str) -> float:
    if option.bounds is not None:
        least, most = option.bounds
        return _number(text, least, most, f"a number from {least:g} to {most:g}")
    smallest_above_0 = math.nextafter(0.0, 1.0)
    return _number(text, smallest_above_0, _LARGEST_AMOUNT, "a number above 0")


def _number(text: str, least: float, most: float, wanted: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:  # nor is NaN
        raise WrongValue(wanted)
    return number


def _whole(option: Option, text: str) -> int:
    least, most = option.bounds or (0 if option.kind == "count" else 1, _LARGEST_WHOLE)
    wanted = f"a whole number from {least:g}" + (f" to {most:g}" if option.bounds else "")
    if option.kind == "seed":
        least, most, wanted = -(2**63), 2**63 - 1, "a whole number of at most 64 bits"
    digits = text.removeprefix("-") if option.kind == "seed" else text
    is_short = digits.isascii() and digits.isdigit() and len(text) <= len(str(-(2**63)))
    if not (is_short and least <= int(text) <= most):
        raise WrongValue(wanted)
    return int(text)


def _parallel(option: Option, text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return _whole(option._replace(bounds=(1, _MOST_PARALLEL)), text)
    except WrongValue:
        raise WrongValue(f"auto or a number from 1 to {_MOST_PARALLEL}") from None


def _lines(option: Option, text: str) -> tuple[str, ...]:
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    if option.choices and not set(lines) <= set(option.choices):
        raise WrongValue(" or ".join(option.choices))
    return lines


def _list(option: Option, text: str) -> tuple[str, ...]:
    return tuple(_text(option, item) for item in _lines(option, text.replace(",", "\n")))


def _variables(option: Option, text: str) -> tuple[str, ...]:
    names = _list(option, text)
    if not all(map(_may_name_a_variable, names)):
        raise WrongValue("the name of an environment variable", may_be_shown=False)
    return names


def _headers(option: Option, text: str) -> tuple[tuple[str, str], ...]:
    headers = []
    for line in _lines(option, text):
        name, separator, variable = (part.strip() for part in line.partition("="))
        if not (separator and name and _may_name_a_variable(variable)):
            raise WrongValue("of the form NAME=VARIABLE, such as Authorization=MY_KEY", may_be_shown=False)
        headers.append((name, variable))
    return tuple(headers)


def _object(_option: Option, text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError:
        raise WrongValue("a value of JSON") from None


def _may_name_a_variable(name: str) -> bool:
    return name != "" and not any(char in "=\0" or char.isspace() for char in name)


_PARSERS: Mapping[Kind, Callable[[Option, str], Any]] = {
    "text": _text,
    "id": lambda _option, text: text,
    "path": _path,
    "url": _url,
    "secret": _text,
    "private key": lambda _option, text: text,
    "script": lambda _option, text: text,
    "choice": _choice,
    "switch": _switch,
    "share": _share,
    "amount": _amount,
    "count": _whole,
    "integer": _whole,
    "seed": _whole,
    "parallel": _parallel,
    "lines": _lines,
    "list": _list,
    "variables": _variables,
    "headers": _headers,
    "object": _object,
}

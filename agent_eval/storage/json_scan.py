"""Finds what is wrong with a JSON text, and where.

The slow half of `json_reader`: it is asked only when the fast half refuses a text or cannot rule a
problem out. It builds no values and does not recurse, so nothing in the text can exhaust the stack.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field

MIN_INTEGER = -(2**63)
MAX_INTEGER = 2**64 - 1
"""The integers that survive a round trip through 64-bit readers; others silently become floats there."""

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"true|false|null")
_NOT_FINITE = re.compile(r"-?(?:NaN|Infinity)")
_SURROGATE = re.compile("[\ud800-\udfff]")

_LONGEST_INTEGER = 20
"""Characters of the longest integer in range: 18446744073709551615, -9223372036854775808."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong (`what`, `remedy`) and the character at which it shows (`position`, from 0).

    `text` is what was decoded; for bytes that are not UTF-8, the part before the first bad byte.
    """

    what: str
    remedy: str
    position: int
    text: str = field(repr=False)

    @property
    def line(self) -> int:
        """Line of the problem, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """Column of the problem in characters, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1


_FIX_SYNTAX = "Fix the JSON at this place; a JSON formatter or `python -m json.tool FILE` shows it."
_FIX_TRUNCATED = "The file was cut off: write it again or download it again."
_FIX_STRING = "Escape control characters and quotes inside strings, for instance as \\n and \\u001b."
_FIX_NUMBER = "JSON has no such number: write a finite number or null."


class _Found(Exception):
    def __init__(self, what: str, remedy: str, position: int) -> None:
        super().__init__(what)
        self.what, self.remedy, self.position = what, remedy, position


def find_problem(data: bytes, *, max_depth: int) -> Problem | None:
    """The first thing in `data` that a strict reader must refuse, or None.

    Strict: RFC 8259 in UTF-8 without byte order mark; no duplicate keys, no NaN or infinity (also not
    by overflow, as 1e999), integers within 64 bit, no lone surrogates, nesting up to `max_depth`.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        return Problem("not UTF-8", "Save the file as UTF-8.", len(before), before)
    try:
        _Scanner(text, max_depth).scan()
    except _Found as found:
        return Problem(found.what, found.remedy, found.position, text)
    return None


class _Scanner:
    """A pushdown automaton over the text: one stack entry for every open array or object."""

    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.max_depth = max_depth
        self.position = 0
        # None for an open array, the set of keys seen so far for an open object.
        self.open: list[set[str] | None] = []

    def scan(self) -> None:
        """Walk the whole text; raises `_Found` at the first problem."""
        if self.text.startswith("\ufeff"):
            raise _Found("starts with a byte order mark", "Save the file as UTF-8 without BOM.", 0)
        self._skip_space()
        if self.position == len(self.text):
            raise _Found("empty", "The file has no JSON in it: write it again.", 0)
        while True:
            if self._value():
                continue  # something was opened: its first member is next
            if not self._after_value():
                break
        if self.position < len(self.text):
            raise _Found("more text after the end of the JSON value", _FIX_SYNTAX, self.position)

    def _value(self) -> bool:
        """Read one value; True when it opened an array or object that is not empty."""
        text, start = self.text, self.position
        character = text[start : start + 1]
        if character in ("{", "["):
            if len(self.open) >= self.max_depth:
                what = f"nested deeper than {self.max_depth} levels"
                raise _Found(what, "Flatten the data; no contract needs such nesting.", start)
            self.position += 1
            self._skip_space()
            closing = "}" if character == "{" else "]"
            if text[self.position : self.position + 1] == closing:
                self._step()
                return False
            self.open.append(set() if character == "{" else None)
            if character == "{":
                self._key()
            return True
        if character == '"':
            self._string()
        elif match := _WORD.match(text, start):
            self.position = match.end()
        else:
            self._number()
        self._skip_space()
        return False

    def _after_value(self) -> bool:
        """Close what ends here; True when a comma leads to another value."""
        while self.open:
            keys = self.open[-1]
            character = self.text[self.position : self.position + 1]
            if character == ",":
                self._step()
                if keys is not None:
                    self._key()
                return True
            if character != ("]" if keys is None else "}"):
                expected = "',' or ']'" if keys is None else "',' or '}'"
                self._refuse_syntax(f"expected {expected}")
            self.open.pop()
            self._step()
        return False

    def _key(self) -> None:
        start = self.position
        if self.text[start : start + 1] != '"':
            self._refuse_syntax("expected a key in double quotes")
        key = self._string()
        keys = self.open[-1]
        assert keys is not None
        if key in keys:
            shown = key if len(key) <= 80 else key[:80] + "…"
            raise _Found(f"duplicate key {json.dumps(shown)}", "Keep one of the two.", start)
        keys.add(key)
        self._skip_space()
        if self.text[self.position : self.position + 1] != ":":
            self._refuse_syntax("expected ':'")
        self._step()

    def _string(self) -> str:
        start = self.position
        match = _STRING.match(self.text, start)
        if match is None:
            raise self._broken_string(start)
        self.position = match.end()
        raw = match.group()
        if "\\" not in raw:
            return raw[1:-1]
        value: str = json.loads(raw)
        if _SURROGATE.search(value):
            raise _Found("lone surrogate in a string", "Escape characters as whole UTF-16 pairs.", start)
        return value

    def _broken_string(self, start: int) -> _Found:
        position = start + 1
        while position < len(self.text) and self.text[position] >= " ":
            if self.text[position] != "\\":
                position += 1
                continue
            escape = _ESCAPE.match(self.text, position)
            if escape is None and len(self.text) - position >= 6:
                return _Found("invalid escape in a string", _FIX_STRING, position)
            position = escape.end() if escape else len(self.text)
        if position >= len(self.text):
            return _Found("the text ends inside a string", _FIX_TRUNCATED, len(self.text))
        return _Found("control character in a string", _FIX_STRING, position)

    def _number(self) -> None:
        start = self.position
        if match := _NOT_FINITE.match(self.text, start):
            raise _Found(f"{match.group()} is not JSON", _FIX_NUMBER, start)
        match = _NUMBER.match(self.text, start)
        if match is None:
            self._refuse_syntax("expected a value")
            return
        self.position = match.end()
        fraction, exponent = match.groups()
        literal = match.group()
        if fraction is None and exponent is None:
            if len(literal) > _LONGEST_INTEGER or not MIN_INTEGER <= int(literal) <= MAX_INTEGER:
                remedy = "Write it as a string; readers with 64-bit integers would change it silently."
                raise _Found("integer outside 64 bit", remedy, start)
        elif not math.isfinite(float(literal)):
            raise _Found("number too large for a 64-bit float", _FIX_NUMBER, start)

    def _refuse_syntax(self, expected: str) -> None:
        if self.position >= len(self.text):
            raise _Found("the text ends before the JSON value does", _FIX_TRUNCATED, len(self.text))
        raise _Found(expected, _FIX_SYNTAX, self.position)

    def _step(self) -> None:
        self.position += 1
        self._skip_space()

    def _skip_space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

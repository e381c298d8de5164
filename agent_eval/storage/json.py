"""Strict, bounded JSON: what comes from outside is read here and nowhere else.

orjson parses; what it lets pass silently is ruled out by comparing the text with the bytes it writes
back, which costs a fraction of a pairs hook:

* duplicate keys: orjson keeps the last one, so the text has more colons than the bytes written back.
  Only an escaped colon inside a string can hide that; texts with `\\u003a` take the slow way.
* nesting: orjson refuses to write values deeper than a fixed limit; wrapping the value in lists moves
  that limit to ours.
* integers beyond 64 bit, which orjson turns into floats, need a run of 20 digits, or 19 after a minus.

Whatever looks suspicious is decided by `json_scan`, which also knows line and column.
"""

from __future__ import annotations

import json
import math
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from agent_eval.errors import InvalidInput
from agent_eval.storage.files import read_bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on a text from outside: bytes, and levels of nested arrays and objects (1 to 200)."""

    max_bytes: int = 1 << 30
    max_depth: int = 64

    def __post_init__(self) -> None:
        if not 1 <= self.max_depth <= 200:
            raise ValueError("max_depth must lie between 1 and 200")


DEFAULT_LIMITS = Limits()


def parse(data: bytes, *, source: str, limits: Limits = DEFAULT_LIMITS, first_line: int = 1) -> Any:
    """Parse strict JSON.

    Args:
        data: The whole text, UTF-8.
        source: What to call it in errors, usually the file's path.
        limits: Bounds on size and nesting.
        first_line: Line number of the first byte in `source`, for texts that are a part of a file.

    Raises:
        InvalidInput: Empty, too large, not UTF-8, malformed, nested too deeply; duplicate keys, NaN,
            infinity, integers outside 64 bit, lone surrogates. Names source, line, column and remedy.
    """
    value, _ = _parse(data, source, limits, first_line, 0)
    return value


def parse_and_encode(
    data: bytes, *, source: str, limits: Limits = DEFAULT_LIMITS, first_line: int = 1
) -> tuple[Any, bytes]:
    """Like `parse`, and the value's bytes as `json_writer.dumps` would write them, at no extra cost."""
    value, encoded = _parse(data, source, limits, first_line, orjson.OPT_SORT_KEYS)
    padding = _padding(data, limits)
    return value, encoded[padding : len(encoded) - padding]


def read_json(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read and parse a JSON file. Raises what `read_bytes` and `parse` raise."""
    return parse(read_bytes(path, max_bytes=limits.max_bytes), source=str(path), limits=limits)


# Long runs of digits: every digit becomes 0, a minus stays, everything else becomes a blank.
_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x2D if byte == 0x2D else 0x20 for byte in range(256))
_LONG_RUN = b"0" * 20
_BEFORE_A_NUMBER = b"[,: \t\r\n-"
_SHORT = 4096
"""Bytes up to which counting brackets is cheaper than wrapping the value."""
_LONG_NEGATIVE_RUN = b"-" + b"0" * 19


def _parse(data: bytes, source: str, limits: Limits, first_line: int, option: int) -> tuple[Any, bytes]:
    if len(data) > limits.max_bytes:
        message = f"{source}: {len(data):,} bytes, more than the {limits.max_bytes:,} that are read"
        raise InvalidInput(message, file=source, remedy="Split the file.")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        _refuse(data, source, limits, first_line)
        # The scan found nothing, so this reader and orjson disagree; orjson has the last word.
        raise InvalidInput(f"{source}: {error}", file=source, line=first_line + error.lineno - 1) from None
    encoded = _encode_wrapped(value, _padding(data, limits), option)
    if encoded is None or _suspicious(data, encoded):
        _refuse(data, source, limits, first_line)
        if encoded is None:  # pragma: no cover - the scan finds every value that is too deep
            raise InvalidInput(f"{source}: nested too deeply", file=source)
    return value, encoded


def _padding(data: bytes, limits: Limits) -> int:
    """How many lists to wrap a value in, so that orjson refuses it where it is too deep."""
    if len(data) < _SHORT and data.count(b"[") + data.count(b"{") <= limits.max_depth:
        return 0
    return _ORJSON_DEPTH - limits.max_depth


def _suspicious(data: bytes, encoded: bytes) -> bool:
    if data.count(b":") != encoded.count(b":"):
        return True
    if b"\\" in data and (b"\\u003a" in data or b"\\u003A" in data):
        return True
    digits = data.translate(_DIGITS)
    return any(_begins_a_number(run, digits, data) for run in (_LONG_RUN, _LONG_NEGATIVE_RUN))


def _begins_a_number(run: bytes, digits: bytes, data: bytes) -> bool:
    """Whether a run may be a number of its own, rather than a part of a hexadecimal string."""
    position = digits.find(run)
    while position >= 0:
        if position == 0 or data[position - 1] in _BEFORE_A_NUMBER:
            return True
        position = digits.find(run, position + len(run))
    return False


def _refuse(data: bytes, source: str, limits: Limits, first_line: int) -> None:
    """Raise InvalidInput if a strict scan finds a problem."""
    problem = find_problem(data, max_depth=limits.max_depth)
    if problem is None:
        return
    line = first_line + problem.line - 1
    raise InvalidInput(
        f"{source}: line {line}, column {problem.column}: {problem.what}",
        remedy=problem.remedy,
        file=source,
        line=line,
        column=problem.column,
    )


class _Wrappers(threading.local):
    """Nested one-element lists by depth, built once a thread: `(outermost, innermost)`."""

    def __init__(self) -> None:
        self.by_depth: dict[int, tuple[list[Any], list[Any]]] = {}

    def get(self, depth: int) -> tuple[list[Any], list[Any]]:
        if depth not in self.by_depth:
            innermost: list[Any] = [None]
            outermost = innermost
            for _ in range(depth - 1):
                outermost = [outermost]
            self.by_depth[depth] = (outermost, innermost)
        return self.by_depth[depth]


_WRAPPERS = _Wrappers()


def _encode_wrapped(value: Any, depth: int, option: int) -> bytes | None:
    """The bytes of `value` inside `depth` lists; None where that is deeper than orjson writes."""
    if not depth:
        return orjson.dumps(value, option=option)
    outermost, innermost = _WRAPPERS.get(depth)
    innermost[0] = value
    try:
        return orjson.dumps(outermost, option=option)
    except orjson.JSONEncodeError:
        return None
    finally:
        innermost[0] = None


def _measure_orjson_depth() -> int:
    """How many nested containers orjson writes: 254 in the versions known, measured to be sure."""
    depth = 254
    if _encode_wrapped(None, depth, 0) is not None and _encode_wrapped(None, depth + 1, 0) is None:
        return depth
    for depth in range(4096, 200, -1):  # pragma: no cover - only with another orjson
        if _encode_wrapped(None, depth, 0) is not None:
            return depth
    raise ImportError("this orjson writes fewer than 200 levels of nesting")  # pragma: no cover


_ORJSON_DEPTH = _measure_orjson_depth()


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


_PLAIN = orjson.OPT_SORT_KEYS
_INDENTED = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """UTF-8 JSON with sorted keys.

    Args:
        value: Plain JSON data (what `Contract.to_json` gives). NaN and infinity become null, so keep
            them out; integers must fit in 64 bit.
        indent: For files that people open: two spaces and a newline at the end. Otherwise one line,
            without a newline, as JSON Lines wants it.

    Raises:
        TypeError: `value` is not JSON.
    """
    return orjson.dumps(value, option=_INDENTED if indent else _PLAIN)

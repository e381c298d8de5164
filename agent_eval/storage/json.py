"""Read and write strict, bounded JSON. No other module parses JSON from outside.

orjson parses. To find what orjson accepts silently, this module compares the text with the bytes that orjson
writes for the value, which costs a fraction of a pairs hook. A text that is equal to them can only be nested
too deeply. Of others it looks at:

* duplicate keys: orjson keeps the last one, so the text has more colons than the bytes. Only an escaped
  colon inside a string can hide that, so texts with `\\u003a` are checked slowly.
* nesting: orjson refuses to write values deeper than a fixed limit; wrapping the value in lists lowers that
  limit to the one in `Limits`.
* integers beyond 64 bit, which orjson turns into floats, need a run of 20 digits, or 19 after a minus.

A text that orjson refuses or that looks suspicious is checked slowly, with line and column: the standard
library finds the syntax error, and a walk over the tokens finds what the library accepts before it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from agent_eval.errors import InvalidInput
from agent_eval.storage.files import read_bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a text from outside.

    `max_depth` is the maximum of levels of nested arrays and objects, from 1 to 200. With `wide_integers`,
    integers beyond 64 bits are read as they are; `dumps` cannot write them, so use `within_64_bits` first.
    """

    max_bytes: int = 1 << 30
    max_depth: int = 64
    wide_integers: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.max_depth <= 200:
            raise ValueError("max_depth must be between 1 and 200")


DEFAULT_LIMITS = Limits()


def parse(data: bytes, *, source: str, limits: Limits = DEFAULT_LIMITS, first_line: int = 1) -> Any:
    """Parse strict JSON.

    `source` is the name of the text in errors, usually the file's path. `first_line` is the line number of
    the first byte in it, for a text that is a part of a file.

    Raises:
        InvalidInput: It is not strict JSON (RFC 8259, also no duplicate keys, no integers beyond 64 bits), or
            exceeds `limits`. Names source, line, column and remedy.
    """
    value, _ = _parse(data, source, limits, first_line, 0)
    return value


def parse_and_encode(
    data: bytes, *, source: str, limits: Limits = DEFAULT_LIMITS, first_line: int = 1
) -> tuple[Any, bytes]:
    """Parse as `parse` does; also return the bytes that `dumps` would write, which costs nothing extra."""
    return _parse(data, source, limits, first_line, orjson.OPT_SORT_KEYS)


_SPACE = re.compile(r"[ \t\r\n]*")


def elements_of(data: bytes, member: str) -> tuple[bytes, list[slice]] | None:
    """Find the elements of the array that a JSON object has as a member, without keeping their values.

    Returns the text without them, and where in `data` each of them is. None where there is no such array, or
    the text is malformed. What is returned need not be strict JSON: `parse` decides.
    """
    # Latin-1 has one character for each byte, and none of those of a longer character is a sign of JSON.
    text, value_at = data.decode("latin-1"), json.JSONDecoder().raw_decode

    def after_space(at: int) -> int:
        return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere

    def after(at: int, sign: str) -> int:
        if text[at := after_space(at)] != sign:
            raise ValueError(f"no {sign}")
        return after_space(at + 1)

    places: list[slice] = []
    try:
        key, at = value_at(text, after(0, "{"))
        while key != member:
            _, at = value_at(text, after(at, ":"))
            key, at = value_at(text, after(at, ","))
        begin = end = after(after(at, ":"), "[")
        while text[end] != "]":
            at = after(end, ",") if places else begin
            _, end = value_at(text, at)
            places.append(slice(at, end))
            end = after_space(end)
    except (ValueError, IndexError, RecursionError):
        return None
    return data[:begin] + data[end:], places


def read_json(path: Path, *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """Read and parse a JSON file. Raises what `read_bytes` and `parse` raise."""
    return parse(read_bytes(path, max_bytes=limits.max_bytes), source=str(path), limits=limits)


# Long runs of digits: every digit becomes 0, a minus stays, everything else becomes a blank.
_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x2D if byte == 0x2D else 0x20 for byte in range(256))
_NINETEEN_DIGITS = b"0" * 19
"""Integers with fewer digits fit in 64 bits."""
_LONG_RUNS = (b"0" + _NINETEEN_DIGITS, b"-" + _NINETEEN_DIGITS)
_BEFORE_A_NUMBER = b"[,: \t\r\n-"


def _parse(data: bytes, source: str, limits: Limits, first_line: int, option: int) -> tuple[Any, bytes]:
    if len(data) > limits.max_bytes:
        message = f"{source}: {len(data):,} bytes, more than the {limits.max_bytes:,} that are read"
        raise InvalidInput(message, file=source, remedy="Split the file.")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        _refuse(data, source, limits, first_line, malformed=True)
        if limits.wide_integers:
            return json.loads(data), data  # the standard library reads integers of any length
        # The slow check found no problem, so it disagrees with orjson; orjson decides.
        raise InvalidInput(f"{source}: {error}", file=source, line=first_line + error.lineno - 1) from None
    # A text with fewer opening brackets than levels cannot be too deep.
    is_flat = data.count(b"[") + data.count(b"{") <= limits.max_depth
    encoded = _encode_wrapped(value, 0 if is_flat else _ORJSON_DEPTH - limits.max_depth, option)
    # What orjson would write itself has nothing that it accepts silently.
    if encoded != data and (encoded is None or data.count(b":") != encoded.count(b":") or _suspicious(data)):
        _refuse(data, source, limits, first_line, malformed=False)
        if encoded is None:  # pragma: no cover - the slow check refuses every value that is too deep
            raise InvalidInput(f"{source}: nested too deeply", file=source)
        if limits.wide_integers:
            return json.loads(data), data  # the standard library reads integers of any length
    return value, encoded


def _suspicious(data: bytes) -> bool:
    """Whether an escaped colon may hide a duplicate key, or an integer may be beyond 64 bits."""
    if b"\\u003" in data and (b"\\u003a" in data or b"\\u003A" in data):
        return True
    digits = data.translate(_DIGITS)
    for run in _LONG_RUNS if _NINETEEN_DIGITS in digits else ():
        position = digits.find(run)
        while position >= 0:
            # A whole number, rather than a part of a hexadecimal string.
            if position == 0 or data[position - 1] in _BEFORE_A_NUMBER:
                return True
            position = digits.find(run, position + len(run))
    return False


def _encode_wrapped(value: Any, depth: int, option: int) -> bytes | None:
    """Encode `value` inside `depth` lists; None if that is deeper than orjson writes."""
    if not depth:
        return orjson.dumps(value, option=option)
    for _ in range(depth):
        value = [value]
    try:
        return orjson.dumps(value, option=option)[depth:-depth]
    except orjson.JSONEncodeError:
        return None


def _measure_orjson_depth() -> int:
    """Return how many nested containers orjson writes: 254 in known versions, measured to be sure."""
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
"""Smallest and largest integer that 64-bit readers preserve; they silently turn others into floats."""

_LONGEST_INTEGER = 20
"""Characters of the longest integer in range: 18446744073709551615, -9223372036854775808."""

_LONGEST_WIDE_INTEGER = 4000
"""Characters of the longest integer that is read at all; Python itself refuses to parse more than 4,300."""

_TOKEN = re.compile(
    r"""
      (?P<mark>[\[\]{},])
    | (?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")
    | (?P<broken_string>")
    | (?P<not_finite>NaN|-?Infinity)
    | (?P<number>-?(?:0|[1-9][0-9]*)(?P<fraction>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))
    """,
    re.VERBOSE,
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_FIX_SYNTAX = "Fix the JSON at this place; a JSON formatter or `python -m json.tool FILE` shows it."
_FIX_TRUNCATED = "The file was cut off: write it again or download it again."
_FIX_STRING = "Escape control characters and quotes inside strings, for instance as \\n and \\u001b."
_FIX_NUMBER = "JSON has no such number: write a finite number or null."
_FIX_INTEGER = "Write it as a string; readers with 64-bit integers would change it silently."

_SYNTAX = (
    ("Expecting value", "expected a value", _FIX_SYNTAX),
    ("Expecting property name", "expected a key in double quotes", _FIX_SYNTAX),
    ("Expecting ':'", "expected ':'", _FIX_SYNTAX),
    ("Expecting ','", "expected ',' or '{closing}'", _FIX_SYNTAX),
    ("Extra data", "more text after the end of the JSON value", _FIX_SYNTAX),
    ("Invalid control character", "control character in a string", _FIX_STRING),
    ("Invalid \\", "invalid escape in a string", _FIX_STRING),
)
"""Beginnings of the standard library's messages, with message and remedy that replace them. Packs have these
words, so they must not depend on the version of Python."""


class _Problem(NamedTuple):
    """A problem with its remedy, and the position of the character that shows it, from 0."""

    message: str
    remedy: str
    position: int


def _refuse(data: bytes, source: str, limits: Limits, first_line: int, *, malformed: bool) -> None:
    """Raise InvalidInput for the first problem in `data`; return if a strict reader finds none.

    Strict means RFC 8259 in UTF-8 without byte order mark; no duplicate keys, no NaN or infinity (also not
    by overflow, as 1e999), integers within 64 bit, no lone surrogates, nesting up to the limit.
    """
    problem: _Problem | None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data[: error.start].decode("utf-8")
        problem = _Problem("not UTF-8", "Save the file as UTF-8.", len(text))
    else:
        syntax_error = _find_syntax_error(text) if malformed else None
        problem = _find_problem(text, syntax_error, limits)
    if problem is None:
        return
    line = first_line + text.count("\n", 0, problem.position)
    column = problem.position - text.rfind("\n", 0, problem.position)
    raise InvalidInput(
        f"{source}: line {line}, column {column}: {problem.message}",
        remedy=problem.remedy,
        file=source,
        line=line,
        column=column,
    )


def _find_syntax_error(text: str) -> _Problem | None:
    """Return the syntax error at which the standard library's parser stops; None if it accepts the text.

    In the words of `_SYNTAX`, with an exact position.
    """
    if text.startswith("\ufeff"):
        return _Problem("starts with a byte order mark", "Save the file as UTF-8 without BOM.", 0)
    if not text.strip(" \t\n\r"):
        return _Problem("empty", "The file has no JSON in it: write it again.", 0)
    try:
        # parse_int accepts integers of any length; the blank makes an escape at the very end an error.
        json.loads(text + " ", parse_int=str)
        return None
    except json.JSONDecodeError as error:
        message, position = error.msg, error.pos
    except RecursionError:
        return None  # nested deeper than any limit, which the walk over the tokens finds
    if message.startswith("Illegal trailing comma"):  # Python 3.13 points to the comma, not behind it
        message = "Expecting value" if "array" in message else "Expecting property name"
        position = text.index("]" if message == "Expecting value" else "}", position)
    in_escape = message.startswith("Invalid \\")
    if in_escape:
        position = text.rindex("\\", 0, position + 1)
    if message.startswith("Unterminated string") or (in_escape and len(text) - position < len("\\u0000")):
        return _Problem("the text ends inside a string", _FIX_TRUNCATED, len(text))
    if position >= len(text):
        return _Problem("the text ends before the JSON value does", _FIX_TRUNCATED, len(text))
    words, remedy = next((words, remedy) for start, words, remedy in _SYNTAX if message.startswith(start))
    return _Problem(words, remedy, position)


def _find_problem(text: str, syntax_error: _Problem | None, limits: Limits) -> _Problem | None:
    """Return the first problem: the syntax error, or an earlier one that the standard library accepts."""
    # None for an open array, the keys so far for an open object.
    opened: list[set[str] | None] = []
    previous = ""
    for token in _TOKEN.finditer(text):
        lexeme, start = token.group(), token.start()
        if token["broken_string"] or (syntax_error and start >= syntax_error.position):
            break
        problem = None
        if token["string"]:
            problem = _problem_of_string(token, opened[-1] if opened and previous in ("{", ",") else None)
        elif not token["mark"]:
            problem = _problem_of_number(token, limits)
        elif lexeme in ("[", "{"):
            opened.append(set() if lexeme == "{" else None)
            if len(opened) > limits.max_depth:
                message = f"nested deeper than {limits.max_depth} levels"
                problem = _Problem(message, "Flatten the data; no contract needs such nesting.", start)
        elif lexeme != ",":
            opened.pop()
        if problem:
            return problem
        previous = lexeme
    if syntax_error and opened:
        closing = "]" if opened[-1] is None else "}"
        return syntax_error._replace(message=syntax_error.message.format(closing=closing))
    return syntax_error


def _problem_of_string(token: re.Match[str], keys: set[str] | None) -> _Problem | None:
    """Find a lone surrogate, or a key that its object has already; add a new key to `keys`."""
    raw, start = token.group(), token.start()
    value: str = json.loads(raw) if "\\" in raw else raw[1:-1]
    if _LONE_SURROGATE.search(value):
        return _Problem("lone surrogate in a string", "Escape characters as whole UTF-16 pairs.", start)
    if keys is None:
        return None
    if value in keys:
        key = value if len(value) <= 80 else value[:80] + "…"
        return _Problem(f"duplicate key {json.dumps(key)}", "Keep one of the two.", start)
    keys.add(value)
    return None


def _problem_of_number(token: re.Match[str], limits: Limits) -> _Problem | None:
    lexeme, start = token.group(), token.start()
    if token["not_finite"]:
        return _Problem(f"{lexeme} is not JSON", _FIX_NUMBER, start)
    if token["fraction"]:
        if not math.isfinite(float(lexeme)):
            return _Problem("number too large for a 64-bit float", _FIX_NUMBER, start)
    elif limits.wide_integers:
        if len(lexeme) > _LONGEST_WIDE_INTEGER:
            return _Problem(f"integer with more than {_LONGEST_WIDE_INTEGER} digits", _FIX_INTEGER, start)
    elif len(lexeme) > _LONGEST_INTEGER or not MIN_INTEGER <= int(lexeme) <= MAX_INTEGER:
        return _Problem("integer outside 64 bit", _FIX_INTEGER, start)
    return None


_PLAIN = orjson.OPT_SORT_KEYS
_INDENTED = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def dumps(value: Any, *, indent: bool = False) -> bytes:
    """Encode a value as JSON in UTF-8, with sorted keys.

    Args:
        value: Plain JSON data. NaN and infinity become null, so the caller must exclude them; integers must
            fit in 64 bit.
        indent: Two spaces and a newline at the end, for files that people open; otherwise one line without a
            newline, for JSON Lines.

    Example:
        >>> dumps({"b": 1.5, "a": [None, True]})
        b'{"a":[null,true],"b":1.5}'
    """
    return orjson.dumps(value, option=_INDENTED if indent else _PLAIN)


def within_64_bits(value: Any) -> Any:
    """Replace integers beyond 64 bits, which no reader of JSON preserves reliably, by their digits as text.

    Example:
        >>> within_64_bits({"id": 2**64, "count": 3})
        {'id': '18446744073709551616', 'count': 3}
    """
    if isinstance(value, dict):
        return {key: within_64_bits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [within_64_bits(item) for item in value]
    if isinstance(value, int) and not MIN_INTEGER <= value <= MAX_INTEGER:
        return str(value)
    return value

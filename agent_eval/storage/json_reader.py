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

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from agent_eval.errors import InvalidInput
from agent_eval.storage.bytes_reader import read_bytes
from agent_eval.storage.json_scan import find_problem

__all__ = ["DEFAULT_LIMITS", "Limits", "parse", "parse_and_encode", "read_bytes", "read_json"]


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

"""Arguments of a tool call, as the object that they should be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.judges.base import clipped
from agent_eval.storage.json import Limits, parse

TEXT_LIMITS = Limits(max_bytes=16 << 20)
"""Bounds on JSON within a trace: 16 MiB, 64 levels."""


class UnreadableText(ValueError):
    """A text that should be JSON and is not."""


class MalformedArguments(ValueError):
    """Arguments that are no object. `failure` is parse_error or type_error."""

    def __init__(self, message: str, failure: FailureKind) -> None:
        super().__init__(message)
        self.failure = failure


def read_text(text: str, what: str) -> Any:
    """Strict JSON within a trace.

    Raises:
        UnreadableText: Says why and where, without quoting the text.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UnreadableText("it holds half of a surrogate pair") from None
    try:
        return parse(data, source=what, limits=TEXT_LIMITS)
    except InvalidInput as problem:
        raise UnreadableText(clipped(problem.message.removeprefix(f"{what}: "), 160)) from None


def read_arguments(recorded: Any) -> dict[str, Any]:
    """Arguments as an object: null is none given, a string must be the JSON text of an object.

    Raises:
        MalformedArguments: Anything else.
    """
    if isinstance(recorded, dict):
        return recorded
    if recorded is None:
        return {}
    if isinstance(recorded, str):
        try:
            recorded = read_text(recorded, "arguments")
        except UnreadableText as problem:
            raise MalformedArguments(f"that are not JSON: {problem}", FailureKind.PARSE_ERROR) from None
        if isinstance(recorded, dict):
            return recorded
    raise MalformedArguments(f"that are {_kind(recorded)}, not an object", FailureKind.TYPE_ERROR)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return {str: "a string", list: "an array", type(None): "null"}.get(type(value), "unknown")


def call_fingerprint(tool: str, arguments: Any) -> str:
    """Equal for calls that differ in the order of arguments, in white space or in number format only."""
    return f"{tool} {json.dumps(_normal(_parsed(arguments)), sort_keys=True)}"


def message_fingerprint(output: Any) -> str:
    """Equal for messages that differ in white space and letter case only; empty for an empty message."""
    if isinstance(output, str):
        return " ".join(output.split()).casefold()
    return json.dumps(_normal(output), sort_keys=True)


def longest_repeat(items: Sequence[str], max_period: int) -> tuple[int, int, int]:
    """The block of at most `max_period` items that comes most often in a row.

    Returns:
        (times, period, start): how often it comes, its length and the position of the first item. Among
        equals the shortest block, then the first. (0, 0, 0) for no items.
    """
    best = (1, 1, 0) if items else (0, 0, 0)
    for period in range(1, min(max_period, len(items) // 2) + 1):
        run = 0
        for position in range(period, len(items)):
            run = run + 1 if items[position] == items[position - period] else 0
            times = run // period + 1
            if times > best[0]:
                best = (times, period, position - run - period + 1)
    return best


def _parsed(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            return read_text(arguments, "arguments")
        except UnreadableText:
            return arguments
    return arguments


def _normal(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {_normal(key): _normal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value

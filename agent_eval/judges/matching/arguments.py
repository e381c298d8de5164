"""Read JSON from a trace, and compare calls and messages by fingerprint."""

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
    """A text that should be JSON but is not."""


class MalformedArguments(ValueError):
    """Arguments of a tool call that are not an object. `failure` is parse_error or type_error."""

    def __init__(self, message: str, failure: FailureKind) -> None:
        super().__init__(message)
        self.failure = failure


def read_text(text: str, what: str) -> Any:
    """Parse strict JSON from within a trace.

    `what` is the name of the text in messages, such as "the final output".

    Raises:
        UnreadableText: Not JSON; says why and where, without quoting the text.
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
    """Return a call's arguments as an object, which may be recorded as JSON text; null means no arguments.

    Raises:
        MalformedArguments: Anything but an object, its JSON text or null.
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
    raise MalformedArguments(f"that are {_type_name(recorded)}, not an object", FailureKind.TYPE_ERROR)


def call_fingerprint(tool: str, arguments: Any) -> str:
    """Return a text that is equal for calls with the same tool and arguments.

    The order of arguments, white space and number format (1 and 1.0) do not matter.
    """
    return f"{tool} {json.dumps(_normalize(_parse_text(arguments)), sort_keys=True)}"


def message_fingerprint(output: Any) -> str:
    """Return a text that is equal for messages that differ only in white space and letter case.

    The fingerprint of an empty message is empty.
    """
    if isinstance(output, str):
        return " ".join(output.split()).casefold()
    return json.dumps(_normalize(output), sort_keys=True)


def longest_repeat(items: Sequence[str], max_period: int) -> tuple[int, int, int]:
    """Find the block of at most `max_period` items that repeats most often in a row.

    Returns (times, period, start): how often the block comes, its length and the position of its first item.
    Among equals the shortest block, then the first. (0, 0, 0) for no items.

    Example:
        >>> longest_repeat("xababab", max_period=3)
        (3, 2, 1)
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


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return {str: "a string", list: "an array", type(None): "null"}.get(type(value), "unknown")


def _parse_text(arguments: Any) -> Any:
    if isinstance(arguments, str):
        try:
            return read_text(arguments, "arguments")
        except UnreadableText:
            return arguments
    return arguments


def _normalize(value: Any) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {_normalize(key): _normalize(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_normalize(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value

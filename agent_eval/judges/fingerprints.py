"""When two calls, or two messages, are the same for all that matters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_eval.judges.arguments import UnreadableText, read_text


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

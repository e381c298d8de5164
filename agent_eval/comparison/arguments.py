"""How the arguments of one tool call differ, place by place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_eval.comparison.reasons import cut
from agent_eval.contracts import canonical_json

ABSENT = "(absent)"
"""Stands for a value that one side does not have."""
PLACES = 20
"""Differing places listed for one call."""
VALUE_LIMIT = 200
"""Characters of a value's text."""
DEPTH = 6
"""Levels followed before two values are compared as a whole."""


def argument_diff(before: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """JSON paths at which two values differ, with both values, cut to a bounded size."""
    found: dict[str, tuple[Any, Any]] = {}
    for path, values in _differences(before, now, "$", DEPTH):
        if len(found) == PLACES:
            break
        found[path] = values
    return found


def _differences(before: Any, now: Any, path: str, depth: int) -> Iterator[tuple[str, tuple[Any, Any]]]:
    if depth and isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from _differences(
                before.get(key, ABSENT), now.get(key, ABSENT), f"{path}.{cut(key, VALUE_LIMIT)}", depth - 1
            )
    elif depth and isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, pair in enumerate(zip(before, now, strict=True)):
            yield from _differences(*pair, f"{path}[{place}]", depth - 1)
    elif not same_json(before, now):
        yield path, (_bounded(before), _bounded(now))


def same_json(before: Any, now: Any) -> bool:
    """Whether two JSON values are the same; `true` is not `1`, but `10.0` is `10`."""
    if isinstance(before, bool) or isinstance(now, bool):
        return before is now
    if isinstance(before, int | float) and isinstance(now, int | float):
        return before == now
    return canonical_json(before) == canonical_json(now)


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, VALUE_LIMIT)
    if isinstance(value, dict | list):
        return cut(canonical_json(value).decode(), VALUE_LIMIT)
    return value

"""What changed between two trajectories, event by event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from agent_eval.contracts.base import canonical_json

Change = Literal["same", "removed", "added"]

_COMPARED = ("actor", "type", "agent_name", "tool", "input", "output", "parts", "error", "stop_reason")
"""Fields that say what happened; ids, times and tokens differ in every run."""

_LONGEST = 5_000
"""Events of a trajectory that are aligned; of longer ones only the ends that are the same are."""


class EventChange(NamedTuple):
    """One event, and whether both trajectories have it."""

    change: Change
    event: Mapping[str, Any]


def diff_events(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[EventChange]:
    """Align two trajectories; removed events come before those that were added in their place.

    Args:
        baseline: Events as plain JSON.
        candidate: Events as plain JSON.

    Example:
        >>> said = {"actor": "agent", "type": "message", "output": "Hi!"}
        >>> [found.change for found in diff_events([said], [said, {**said, "output": "Bye."}])]
        ['same', 'added']
    """
    before, after = [_key(event) for event in baseline], [_key(event) for event in candidate]
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    middle = (before[start : len(before) - end], after[start : len(after) - end])
    changes = [EventChange("same", event) for event in candidate[:start]]
    changes += _aligned(
        middle, baseline[start : len(baseline) - end], candidate[start : len(candidate) - end]
    )
    return changes + [EventChange("same", event) for event in candidate[len(candidate) - end :]]


def _aligned(
    keys: tuple[list[bytes], list[bytes]],
    baseline: Sequence[Mapping[str, Any]],
    candidate: Sequence[Mapping[str, Any]],
) -> Iterator[EventChange]:
    if max(len(keys[0]), len(keys[1])) > _LONGEST:
        yield from (EventChange("removed", event) for event in baseline)
        yield from (EventChange("added", event) for event in candidate)
        return
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            yield from (EventChange("same", event) for event in candidate[start:end])
        else:
            yield from (EventChange("removed", event) for event in baseline[first:last])
            yield from (EventChange("added", event) for event in candidate[start:end])


def _key(event: Mapping[str, Any]) -> bytes:
    return canonical_json({name: event[name] for name in _COMPARED if event.get(name) is not None})


def _common(first: Sequence[bytes], second: Sequence[bytes]) -> int:
    """Count the keys that both begin with."""
    number = 0
    for first_key, second_key in zip(first, second, strict=False):
        if first_key != second_key:
            break
        number += 1
    return number

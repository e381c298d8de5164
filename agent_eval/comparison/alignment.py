"""Alignment of two lists of calls or events, so that one more does not make every later one differ."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from agent_eval.contracts.base import canonical_json

Call = tuple[str, str]
"""Tool and digest of the arguments."""

MOST_CELLS = 250_000
"""Pairs of alike items up to which lists are aligned; of more, each is paired with what is at its place."""

_COMPARED = ("actor", "type", "agent_name", "tool", "input", "output", "parts", "error", "stop_reason")
"""Fields that say what happened; ids, times and tokens differ in every run."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step, with the positions of the call in both lists; None where a list has no such call."""

    kind: Literal["same", "added", "removed", "moved", "arguments"]
    tool: str
    baseline: int | None
    candidate: int | None


@dataclass(frozen=True, slots=True)
class Alignment:
    """The steps that turn the baseline's calls into the candidate's.

    `coarse`: too many calls differ to align them; the steps are correct, but fewer might have been enough.
    """

    steps: list[Step]
    coarse: bool


class EventChange(NamedTuple):
    """One event, and whether both trajectories have it."""

    change: Literal["same", "removed", "added"]
    event: Mapping[str, Any]


def align(baseline: Sequence[Call], candidate: Sequence[Call]) -> Alignment:
    """Align two lists of calls: equal calls first, then between them calls of the same tool.

    A call that is not aligned although the other list has it too, with the same arguments, has `moved`; its
    step is at its new place. The steps that are not `removed` are the candidate's calls in order; the steps
    that are not `added` are the baseline's calls, in order but for those that moved.
    """
    ends = len(baseline), len(candidate)
    equal, coarse = _equal(baseline, candidate)
    partner: dict[int, int] = {}
    here = there = 0
    for before, now in [*equal, ends]:
        if here < before and there < now:
            tools = [[tool for tool, _ in side] for side in (baseline[here:before], candidate[there:now])]
            inner, is_coarse = _between(*tools)
            partner |= {there + second: here + first for first, second in inner}
            coarse = coarse or is_coarse
        partner[now] = before
        here, there = before + 1, now + 1
    alone: defaultdict[Call, deque[int]] = defaultdict(deque)
    for place in sorted(set(range(len(baseline))).difference(partner.values())):
        alone[baseline[place]].append(place)
    moved = {
        now: alone[call].popleft()
        for now, call in enumerate(candidate)
        if now not in partner and alone.get(call)
    }
    stay = set(range(len(baseline))).difference(moved.values())
    steps: list[Step] = []
    position = 0
    for now, call in enumerate([*candidate, ("", "")]):
        if now not in partner:
            steps.append(Step("moved" if now in moved else "added", call[0], moved.get(now), now))
            continue
        before = partner[now]
        removed = (place for place in range(position, before) if place in stay)
        steps += [Step("removed", baseline[place][0], place, None) for place in removed]
        if now < len(candidate):
            steps.append(Step("same" if baseline[before] == call else "arguments", call[0], before, now))
        position = before + 1
    return Alignment(steps, coarse)


def diff_events(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[EventChange]:
    """Align the events of two trajectories as plain JSON; removed ones come before what is in their place."""
    keys = [
        [
            canonical_json({name: event[name] for name in _COMPARED if event.get(name) is not None})
            for event in side
        ]
        for side in (baseline, candidate)
    ]
    changes: list[EventChange] = []
    here = there = 0
    for before, now in [*_equal(*keys)[0], (len(baseline), len(candidate))]:
        changes += [EventChange("removed", event) for event in baseline[here:before]]
        changes += [EventChange("added", event) for event in candidate[there:now]]
        changes += [EventChange("same", event) for event in candidate[now : now + 1]]
        here, there = before + 1, now + 1
    return changes


def _equal(before: Sequence[Hashable], now: Sequence[Hashable]) -> tuple[list[tuple[int, int]], bool]:
    """Pair what is equal in both lists, ascending: first what they begin and end with."""
    shorter = min(len(before), len(now))
    start = next((k for k in range(shorter) if before[k] != now[k]), shorter)
    end = next((k for k in range(shorter - start) if before[-1 - k] != now[-1 - k]), shorter - start)
    inner, coarse = _between(before[start : len(before) - end], now[start : len(now) - end])
    pairs = [(k, k) for k in range(start)] + [(start + first, start + second) for first, second in inner]
    return pairs + [(len(before) - k, len(now) - k) for k in range(end, 0, -1)], coarse


def _between(before: Sequence[Hashable], now: Sequence[Hashable]) -> tuple[list[tuple[int, int]], bool]:
    """Pair what is equal; where that would take long, only what is at the same place, and say so."""
    counts = Counter(before), Counter(now)
    if sum(number * counts[1][item] for item, number in counts[0].items()) > MOST_CELLS:
        pairs = enumerate(zip(before, now, strict=False))
        return [(place, place) for place, (old, new) in pairs if old == new], True
    blocks = SequenceMatcher(None, before, now, autojunk=False).get_matching_blocks()
    return [(block.a + k, block.b + k) for block in blocks for k in range(block.size)], False

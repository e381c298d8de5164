"""Two lists of tool calls laid side by side, so that one extra call does not make every later one differ."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Call = tuple[str, str]
"""A tool and the digest of its arguments."""

Kind = Literal["same", "added", "removed", "moved", "arguments"]

OPTIMAL_CELLS = 40_000
"""Up to this many pairs of differing calls the alignment is optimal; beyond it, longest common blocks."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an alignment, with the positions of the call in both lists (None: not there)."""

    kind: Kind
    tool: str
    baseline: int | None
    candidate: int | None


def align(baseline: Sequence[Call], candidate: Sequence[Call]) -> list[Step]:
    """Align two lists of calls.

    As many calls as possible keep their place by tool, and among such alignments as many as possible by
    arguments too (a longest common subsequence, Wagner and Fischer 1974). A call left over on both sides
    with the same tool and arguments `moved`; it is given at its new place only.

    Laws: the steps that are not `removed` are the candidate's calls in order; the steps that are not
    `added` are the baseline's calls, in order but for those that moved.
    """
    matches = _matches(baseline, candidate)
    moved = _moved(baseline, candidate, matches)
    moved_from = set(moved.values())
    steps: list[Step] = []
    position = 0

    def removed_before(end: int) -> None:
        nonlocal position
        steps.extend(
            Step("removed", baseline[place][0], place, None)
            for place in range(position, end)
            if place not in moved_from
        )
        position = end

    partner = {now: before for before, now in matches}
    for now, call in enumerate(candidate):
        before = partner.get(now)
        if before is not None:
            removed_before(before)
            position = before + 1
            steps.append(Step("same" if baseline[before] == call else "arguments", call[0], before, now))
        elif now in moved:
            steps.append(Step("moved", call[0], moved[now], now))
        else:
            steps.append(Step("added", call[0], None, now))
    removed_before(len(baseline))
    return steps


def _matches(baseline: Sequence[Call], candidate: Sequence[Call]) -> list[tuple[int, int]]:
    """Pairs of positions with the same tool, rising on both sides."""
    start = 0
    shorter = min(len(baseline), len(candidate))
    while start < shorter and baseline[start] == candidate[start]:
        start += 1
    end = 0
    while end < shorter - start and baseline[-1 - end] == candidate[-1 - end]:
        end += 1
    left = baseline[start : len(baseline) - end]
    right = candidate[start : len(candidate) - end]
    inner = _optimal(left, right) if len(left) * len(right) <= OPTIMAL_CELLS else _blocks(left, right)
    return [
        *((place, place) for place in range(start)),
        *((before + start, now + start) for before, now in inner),
        *((len(baseline) - place, len(candidate) - place) for place in range(end, 0, -1)),
    ]


def _optimal(left: Sequence[Call], right: Sequence[Call]) -> list[tuple[int, int]]:
    # A tool match outweighs any number of argument matches.
    tool_weight = min(len(left), len(right)) + 1
    rows = [[0] * (len(right) + 1)]
    for before in reversed(left):
        below = rows[-1]
        row = [0] * (len(right) + 1)
        for place in range(len(right) - 1, -1, -1):
            now = right[place]
            best = max(below[place], row[place + 1])
            if now[0] == before[0]:
                best = max(best, below[place + 1] + tool_weight + (now[1] == before[1]))
            row[place] = best
        rows.append(row)
    rows.reverse()
    pairs = []
    here = there = 0
    while here < len(left) and there < len(right):
        gain = tool_weight + (left[here][1] == right[there][1])
        if left[here][0] == right[there][0] and rows[here][there] == rows[here + 1][there + 1] + gain:
            pairs.append((here, there))
            here, there = here + 1, there + 1
        elif rows[here][there] == rows[here + 1][there]:
            here += 1
        else:
            there += 1
    return pairs


def _blocks(left: Sequence[Call], right: Sequence[Call]) -> list[tuple[int, int]]:
    names = [call[0] for call in left], [call[0] for call in right]
    matcher = SequenceMatcher(None, *names, autojunk=False)
    return [
        (block.a + step, block.b + step)
        for block in matcher.get_matching_blocks()
        for step in range(block.size)
    ]


def _moved(
    baseline: Sequence[Call], candidate: Sequence[Call], matches: Sequence[tuple[int, int]]
) -> dict[int, int]:
    """Position in the candidate to position in the baseline of calls left over on both sides."""
    kept_before = {before for before, _ in matches}
    kept_now = {now for _, now in matches}
    left_over: defaultdict[Call, deque[int]] = defaultdict(deque)
    for place, call in enumerate(baseline):
        if place not in kept_before:
            left_over[call].append(place)
    moved = {}
    for place, call in enumerate(candidate):
        if place not in kept_now and left_over.get(call):
            moved[place] = left_over[call].popleft()
    return moved

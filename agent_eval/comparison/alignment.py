"""Two lists of tool calls laid side by side, so that one extra call does not make every later one differ."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Call = tuple[str, str]
"""A tool and the digest of its arguments."""

Kind = Literal["same", "added", "removed", "moved", "arguments"]

OPTIMAL_CELLS = 40_000
"""Up to this many pairs of differing calls the alignment is optimal; beyond it, it is coarse.

So it takes time that is close to linear in the number of calls, and some milliseconds.
"""

AHEAD = 8
_SKIPS = sorted(
    ((one, other) for one in range(AHEAD + 1) for other in range(AHEAD + 1 - one)),
    key=lambda skip: (sum(skip), abs(skip[0] - skip[1])),
)

Pairs = list[tuple[int, int]]
"""Positions in both lists of calls of the same tool, rising on both sides."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an alignment, with the positions of the call in both lists (None: not there)."""

    kind: Kind
    tool: str
    baseline: int | None
    candidate: int | None


@dataclass(frozen=True, slots=True)
class Alignment:
    """Two lists side by side.

    `coarse` where there were too many differing calls to find the fewest steps: what is said to have been
    added, removed or moved is true, but could be said in fewer steps.
    """

    steps: list[Step]
    coarse: bool


def align(baseline: Sequence[Call], candidate: Sequence[Call]) -> Alignment:
    """Align two lists of calls.

    As many calls as possible keep their place by tool, and among such alignments as many as possible by
    arguments too (a longest common subsequence, Wagner and Fischer 1974). A call left over on both sides
    with the same tool and arguments `moved`; it is given at its new place only.

    Laws: the steps that are not `removed` are the candidate's calls in order; the steps that are not
    `added` are the baseline's calls, in order but for those that moved.
    """
    matches, coarse = _matches(baseline, candidate)
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
    return Alignment(steps, coarse)


def _matches(baseline: Sequence[Call], candidate: Sequence[Call]) -> tuple[Pairs, bool]:
    """What keeps its place, and whether more might have."""
    start = 0
    shorter = min(len(baseline), len(candidate))
    while start < shorter and baseline[start] == candidate[start]:
        start += 1
    end = 0
    while end < shorter - start and baseline[-1 - end] == candidate[-1 - end]:
        end += 1
    left = baseline[start : len(baseline) - end]
    right = candidate[start : len(candidate) - end]
    optimal = len(left) * len(right) <= OPTIMAL_CELLS
    inner = _optimal(left, right) if optimal else _coarse(left, right)
    matches = [
        *((place, place) for place in range(start)),
        *((before + start, now + start) for before, now in inner),
        *((len(baseline) - place, len(candidate) - place) for place in range(end, 0, -1)),
    ]
    return matches, not optimal and len(inner) < min(len(left), len(right))


def _optimal(left: Sequence[Call], right: Sequence[Call]) -> Pairs:
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


def _coarse(left: Sequence[Call], right: Sequence[Call]) -> Pairs:
    """In time that is close to linear, the best of what is found by calls that hold the lists together and
    without them. Where the same calls were only made in another order, calls are paired with their like."""
    if Counter(left) == Counter(right):
        return _reordered(left, right)
    found = [_between([], left, right)]
    if anchors := _anchors(left, right):
        found.append(_between(anchors, left, right))
    return max(found, key=lambda pairs: (len(pairs), sum(left[here] == right[now] for here, now in pairs)))


def _between(anchors: Pairs, left: Sequence[Call], right: Sequence[Call]) -> Pairs:
    """The anchors, and what lies between two of them aligned for itself (patience diff, B. Cohen)."""
    pairs: Pairs = []
    budget = OPTIMAL_CELLS
    here = there = 0
    for before, now in [*anchors, (len(left), len(right))]:
        gap = left[here:before], right[there:now]
        found, spent = _gap(*gap, budget)
        budget -= spent
        pairs += ((here + one, there + other) for one, other in found)
        if before < len(left):
            pairs.append((before, now))
        here, there = before + 1, now + 1
    return pairs


def _reordered(left: Sequence[Call], right: Sequence[Call]) -> Pairs:
    """Each call with its like, the first with the first: as many of these as keep their order."""
    places: defaultdict[Call, deque[int]] = defaultdict(deque)
    for place, call in enumerate(right):
        places[call].append(place)
    return _rising([(place, places[call].popleft()) for place, call in enumerate(left)])


def _anchors(left: Sequence[Call], right: Sequence[Call]) -> Pairs:
    """Calls that are unique on both sides, as many as keep their order."""
    counts = Counter(left), Counter(right)
    places = {call: place for place, call in enumerate(right) if counts[1][call] == 1}
    return _rising(
        [(place, places[call]) for place, call in enumerate(left) if counts[0][call] == 1 and call in places]
    )


def _rising(shared: Pairs) -> Pairs:
    """As many of the pairs, which rise on the left, as rise on the right: a longest rising subsequence."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, now) in enumerate(shared):
        length = bisect_left(ends, now)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [now]
        last[length : length + 1] = [number]
    found = []
    number = last[-1] if last else -1
    while number >= 0:
        found.append(shared[number])
        number = before[number]
    return found[::-1]


def _gap(left: Sequence[Call], right: Sequence[Call], budget: int) -> tuple[Pairs, int]:
    """Align what lies between anchors: optimally where the budget of cells allows, else by tool alone."""
    if (cells := len(left) * len(right)) <= budget:
        return _optimal(left, right), cells
    shorter = min(len(left), len(right))
    start = 0
    while start < shorter and left[start][0] == right[start][0]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end][0] == right[-1 - end][0]:
        end += 1
    inner = left[start : len(left) - end], right[start : len(right) - end]
    cells = len(inner[0]) * len(inner[1])
    if cells <= budget:
        found = _optimal(*inner)
    else:
        runs = list(_runs(inner[0])), list(_runs(inner[1]))
        cells = len(runs[0]) * len(runs[1])
        pair = _optimal if cells <= budget else _nearest
        found = max(list(_by_runs(*runs, pair)), _nearest(*inner), key=len)
    return [
        *((place, place) for place in range(start)),
        *((before + start, now + start) for before, now in found),
        *((len(left) - place, len(right) - place) for place in range(end, 0, -1)),
    ], cells if cells <= budget else 0


def _runs(calls: Sequence[Call]) -> Iterator[tuple[str, int, int]]:
    """Calls of one tool in a row: the tool, the position of the first, how many."""
    place = 0
    for tool, group in groupby(calls, key=lambda call: call[0]):
        times = sum(1 for _ in group)
        yield tool, place, times
        place += times


def _by_runs(
    left: Sequence[tuple[str, int, int]],
    right: Sequence[tuple[str, int, int]],
    pair: Callable[[Sequence[Call], Sequence[Call]], Pairs],
) -> Iterator[tuple[int, int]]:
    """Pair runs as if each was a call; within two that belong together, call by call from the first."""
    for before, now in pair([(run[0], "") for run in left], [(run[0], "") for run in right]):
        for step in range(min(left[before][2], right[now][2])):
            yield left[before][1] + step, right[now][1] + step


def _nearest(left: Sequence[Call], right: Sequence[Call]) -> Pairs:
    """From the front, each call with the next one of its tool, where that is at most `AHEAD` away."""
    pairs = []
    here = there = 0
    while here < len(left) and there < len(right):
        for skip, over in _SKIPS:
            before, now = here + skip, there + over
            if before < len(left) and now < len(right) and left[before][0] == right[now][0]:
                pairs.append((before, now))
                here, there = before, now
                break
        here, there = here + 1, there + 1
    return pairs


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

"""Alignment of two lists of tool calls, so that one extra call does not make every later call differ."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Call = tuple[str, str]
"""Tool and digest of the arguments."""

Kind = Literal["same", "added", "removed", "moved", "arguments"]

OPTIMAL_CELLS = 40_000
"""Number of pairs of differing calls up to which the alignment is optimal; beyond it, it is coarse.

The limit keeps the time close to linear in the number of calls: some milliseconds.
"""

AHEAD = 8
_SKIPS = sorted(
    ((before, now) for before in range(AHEAD + 1) for now in range(AHEAD + 1 - before)),
    key=lambda skip: (sum(skip), abs(skip[0] - skip[1])),
)

Pairs = list[tuple[int, int]]
"""Positions of calls of the same tool in both lists, ascending in both."""


@dataclass(frozen=True, slots=True)
class Step:
    """Step of an alignment, with the positions of the call in both lists; None where a list has no such call.

    Example:
        >>> align([], [("refund", "77b0")]).steps
        [Step(kind='added', tool='refund', baseline=None, candidate=0)]
    """

    kind: Kind
    tool: str
    baseline: int | None
    candidate: int | None


@dataclass(frozen=True, slots=True)
class Alignment:
    """Result of `align`.

    Attributes:
        steps: Steps that turn the baseline's calls into the candidate's.
        coarse: Whether there were too many differing calls to find the fewest steps. The steps are correct,
            but fewer might have been enough.

    Example:
        >>> aligned = align([("lookup", "3f2a")], [("lookup", "3f2a"), ("refund", "77b0")])
        >>> [(step.kind, step.tool) for step in aligned.steps]
        [('same', 'lookup'), ('added', 'refund')]
    """

    steps: list[Step]
    coarse: bool


def align(baseline: Sequence[Call], candidate: Sequence[Call]) -> Alignment:
    """Align two lists of calls.

    As many calls as possible keep their place by tool, and among such alignments as many as possible by
    arguments too (a longest common subsequence, Wagner and Fischer 1974). A call that is not aligned
    although the other list has it too, with the same arguments, has `moved`; its step is at its new place.

    Invariants: the steps that are not `removed` are the candidate's calls in order; the steps that are not
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
    """Pair the calls that keep their place, and tell whether the pairing is coarse."""
    start = 0
    shorter = min(len(baseline), len(candidate))
    while start < shorter and baseline[start] == candidate[start]:
        start += 1
    end = 0
    while end < shorter - start and baseline[-1 - end] == candidate[-1 - end]:
        end += 1
    old = baseline[start : len(baseline) - end]
    new = candidate[start : len(candidate) - end]
    optimal = len(old) * len(new) <= OPTIMAL_CELLS
    inner = _optimal(old, new) if optimal else _coarse(old, new)
    matches = [
        *((place, place) for place in range(start)),
        *((before + start, now + start) for before, now in inner),
        *((len(baseline) - place, len(candidate) - place) for place in range(end, 0, -1)),
    ]
    return matches, not optimal and len(inner) < min(len(old), len(new))


def _optimal(baseline: Sequence[Call], candidate: Sequence[Call]) -> Pairs:
    # A tool match outweighs any number of argument matches.
    tool_weight = min(len(baseline), len(candidate)) + 1
    rows = [[0] * (len(candidate) + 1)]
    for before in reversed(baseline):
        below = rows[-1]
        row = [0] * (len(candidate) + 1)
        for place in range(len(candidate) - 1, -1, -1):
            now = candidate[place]
            best = max(below[place], row[place + 1])
            if now[0] == before[0]:
                best = max(best, below[place + 1] + tool_weight + (now[1] == before[1]))
            row[place] = best
        rows.append(row)
    rows.reverse()
    pairs = []
    here = there = 0
    while here < len(baseline) and there < len(candidate):
        gain = tool_weight + (baseline[here][1] == candidate[there][1])
        if baseline[here][0] == candidate[there][0] and rows[here][there] == rows[here + 1][there + 1] + gain:
            pairs.append((here, there))
            here, there = here + 1, there + 1
        elif rows[here][there] == rows[here + 1][there]:
            here += 1
        else:
            there += 1
    return pairs


def _coarse(baseline: Sequence[Call], candidate: Sequence[Call]) -> Pairs:
    """Pair calls in time that is close to linear: the best pairing of those with and without anchors.

    Where both lists have the same calls in another order, equal calls are paired.
    """
    if Counter(baseline) == Counter(candidate):
        return _reordered(baseline, candidate)
    pairings = [_between([], baseline, candidate)]
    if anchors := _anchors(baseline, candidate):
        pairings.append(_between(anchors, baseline, candidate))
    return max(
        pairings, key=lambda pairs: (len(pairs), sum(baseline[here] == candidate[now] for here, now in pairs))
    )


def _between(anchors: Pairs, baseline: Sequence[Call], candidate: Sequence[Call]) -> Pairs:
    """Pair the anchors, and align the calls between two of them separately (patience diff, B. Cohen)."""
    pairs: Pairs = []
    budget = OPTIMAL_CELLS
    here = there = 0
    for before, now in [*anchors, (len(baseline), len(candidate))]:
        gap = baseline[here:before], candidate[there:now]
        inner, spent = _gap(*gap, budget)
        budget -= spent
        pairs += ((here + first, there + second) for first, second in inner)
        if before < len(baseline):
            pairs.append((before, now))
        here, there = before + 1, now + 1
    return pairs


def _reordered(baseline: Sequence[Call], candidate: Sequence[Call]) -> Pairs:
    """Pair equal calls, the first with the first; keep as many pairs as are in order."""
    places: defaultdict[Call, deque[int]] = defaultdict(deque)
    for place, call in enumerate(candidate):
        places[call].append(place)
    return _rising([(place, places[call].popleft()) for place, call in enumerate(baseline)])


def _anchors(baseline: Sequence[Call], candidate: Sequence[Call]) -> Pairs:
    """Pair the calls that are unique in both lists; keep as many pairs as are in order."""
    counts = Counter(baseline), Counter(candidate)
    places = {call: place for place, call in enumerate(candidate) if counts[1][call] == 1}
    return _rising(
        [
            (place, places[call])
            for place, call in enumerate(baseline)
            if counts[0][call] == 1 and call in places
        ]
    )


def _rising(shared: Pairs) -> Pairs:
    """Select a longest subsequence of pairs whose second positions ascend; the first ones already do."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, now) in enumerate(shared):
        length = bisect_left(ends, now)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [now]
        last[length : length + 1] = [number]
    selected = []
    number = last[-1] if last else -1
    while number >= 0:
        selected.append(shared[number])
        number = before[number]
    return selected[::-1]


def _gap(baseline: Sequence[Call], candidate: Sequence[Call], budget: int) -> tuple[Pairs, int]:
    """Align the calls between two anchors: optimally within the budget of cells, else by tool alone."""
    if (cells := len(baseline) * len(candidate)) <= budget:
        return _optimal(baseline, candidate), cells
    shorter = min(len(baseline), len(candidate))
    start = 0
    while start < shorter and baseline[start][0] == candidate[start][0]:
        start += 1
    end = 0
    while end < shorter - start and baseline[-1 - end][0] == candidate[-1 - end][0]:
        end += 1
    inner = baseline[start : len(baseline) - end], candidate[start : len(candidate) - end]
    cells = len(inner[0]) * len(inner[1])
    if cells <= budget:
        pairs = _optimal(*inner)
    else:
        runs = list(_runs(inner[0])), list(_runs(inner[1]))
        cells = len(runs[0]) * len(runs[1])
        pair = _optimal if cells <= budget else _nearest
        pairs = max(list(_by_runs(*runs, pair)), _nearest(*inner), key=len)
    return [
        *((place, place) for place in range(start)),
        *((before + start, now + start) for before, now in pairs),
        *((len(baseline) - place, len(candidate) - place) for place in range(end, 0, -1)),
    ], cells if cells <= budget else 0


def _runs(calls: Sequence[Call]) -> Iterator[tuple[str, int, int]]:
    """Yield consecutive calls of one tool as (tool, position of the first, number of calls)."""
    place = 0
    for tool, group in groupby(calls, key=lambda call: call[0]):
        times = sum(1 for _ in group)
        yield tool, place, times
        place += times


def _by_runs(
    baseline: Sequence[tuple[str, int, int]],
    candidate: Sequence[tuple[str, int, int]],
    pair: Callable[[Sequence[Call], Sequence[Call]], Pairs],
) -> Iterator[tuple[int, int]]:
    """Pair runs as if each was a call; within a pair of runs, pair call by call from the first."""
    for before, now in pair([(run[0], "") for run in baseline], [(run[0], "") for run in candidate]):
        for step in range(min(baseline[before][2], candidate[now][2])):
            yield baseline[before][1] + step, candidate[now][1] + step


def _nearest(baseline: Sequence[Call], candidate: Sequence[Call]) -> Pairs:
    """Pair each call, from the first, with the next call of its tool that is at most `AHEAD` away."""
    pairs = []
    here = there = 0
    while here < len(baseline) and there < len(candidate):
        for skip, over in _SKIPS:
            before, now = here + skip, there + over
            if before < len(baseline) and now < len(candidate) and baseline[before][0] == candidate[now][0]:
                pairs.append((before, now))
                here, there = before, now
                break
        here, there = here + 1, there + 1
    return pairs


def _moved(
    baseline: Sequence[Call], candidate: Sequence[Call], matches: Sequence[tuple[int, int]]
) -> dict[int, int]:
    """Map positions in the candidate to those in the baseline, for equal calls that were not aligned."""
    aligned_before = {before for before, _ in matches}
    aligned_now = {now for _, now in matches}
    unaligned: defaultdict[Call, deque[int]] = defaultdict(deque)
    for place, call in enumerate(baseline):
        if place not in aligned_before:
            unaligned[call].append(place)
    moved = {}
    for place, call in enumerate(candidate):
        if place not in aligned_now and unaligned.get(call):
            moved[place] = unaligned[call].popleft()
    return moved

"""Alignment of two lists of tool calls, so that one extra call does not make every later call differ."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

Call = tuple[str, str]
"""Tool and digest of the arguments."""

Kind = Literal["same", "added", "removed", "moved", "arguments"]

MOST_CELLS = 250_000
"""Pairs of alike calls up to which lists are aligned; of more, each is paired with what is at its place."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step, with the positions of the call in both lists; None where a list has no such call."""

    kind: Kind
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


def align(baseline: Sequence[Call], candidate: Sequence[Call]) -> Alignment:
    """Align two lists of calls: equal calls first, then between them calls of the same tool.

    A call that is not aligned although the other list has it too, with the same arguments, has `moved`; its
    step is at its new place. The steps that are not `removed` are the candidate's calls in order; the steps
    that are not `added` are the baseline's calls, in order but for those that moved.
    """
    shorter = min(len(baseline), len(candidate))
    start = next((k for k in range(shorter) if baseline[k] != candidate[k]), shorter)
    end = next((k for k in range(shorter - start) if baseline[-1 - k] != candidate[-1 - k]), shorter - start)
    old, new = baseline[start : len(baseline) - end], candidate[start : len(candidate) - end]
    pairs, coarse = _pairs(old, new)
    partner = {place: place for place in range(start)}
    partner |= {now + start: before + start for before, now in pairs}
    partner |= {len(candidate) - place: len(baseline) - place for place in range(end, 0, -1)}
    moved = _moved(baseline, candidate, partner)
    moved_from = set(moved.values())
    steps: list[Step] = []
    position = 0
    for now, call in enumerate([*candidate, None]):
        before = len(baseline) if call is None else partner.get(now)
        if before is not None:
            steps += [
                Step("removed", baseline[place][0], place, None)
                for place in range(position, before)
                if place not in moved_from
            ]
            position = before + 1
        if call is None:
            break
        if before is not None:
            steps.append(Step("same" if baseline[before] == call else "arguments", call[0], before, now))
        else:
            steps.append(Step("moved" if now in moved else "added", call[0], moved.get(now), now))
    return Alignment(steps, coarse)


def _pairs(baseline: Sequence[Call], candidate: Sequence[Call]) -> tuple[list[tuple[int, int]], bool]:
    """Pair the calls that keep their place, ascending in both lists; say whether that is coarse."""
    pairs: list[tuple[int, int]] = []
    equal, coarse = _equal(baseline, candidate)
    here = there = 0
    for before, now in [*equal, (len(baseline), len(candidate))]:
        if here < before and there < now:
            tools = [[tool for tool, _ in side] for side in (baseline[here:before], candidate[there:now])]
            inner, is_coarse = _equal(*tools)
            pairs += ((here + first, there + second) for first, second in inner)
            coarse = coarse or is_coarse
        pairs.append((before, now))
        here, there = before + 1, now + 1
    return pairs[:-1], coarse


def _equal(before: Sequence[Hashable], now: Sequence[Hashable]) -> tuple[list[tuple[int, int]], bool]:
    """Pair what is equal in both lists; where that would take long, only what is at the same place."""
    counts = Counter(before), Counter(now)
    if sum(number * counts[1][item] for item, number in counts[0].items()) > MOST_CELLS:
        return [
            (place, place) for place, pair in enumerate(zip(before, now, strict=False)) if len(set(pair)) == 1
        ], True
    matcher = SequenceMatcher(None, before, now, autojunk=False)
    blocks = matcher.get_matching_blocks()
    return [(block.a + k, block.b + k) for block in blocks for k in range(block.size)], False


def _moved(baseline: Sequence[Call], candidate: Sequence[Call], partner: dict[int, int]) -> dict[int, int]:
    """Map positions in the candidate to those in the baseline, for equal calls that were not aligned."""
    aligned = set(partner.values())
    unaligned: defaultdict[Call, deque[int]] = defaultdict(deque)
    for place, call in enumerate(baseline):
        if place not in aligned:
            unaligned[call].append(place)
    return {
        place: unaligned[call].popleft()
        for place, call in enumerate(candidate)
        if place not in partner and unaligned.get(call)
    }

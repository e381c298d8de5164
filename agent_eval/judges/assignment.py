"""Which actual call stands for which expected one: each used once, as many as possible."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Fits = Callable[[int, int], bool]
"""Whether expected call number i could be actual call number j."""


def in_any_order(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """A largest set of pairs, whatever their order, as {expected: actual}.

    Maximum bipartite matching by shortest augmenting paths (Hopcroft and Karp 1973 use many at a time;
    traces are short, so one at a time will do). A greedy choice can miss a pair that this finds: one
    actual call may fit two expected ones, of which only one has an alternative.
    """
    options = [[j for j in range(actual) if fits(i, j)] for i in range(expected)]
    taken_by: dict[int, int] = {}
    for start in range(expected):
        _augment(start, options, taken_by)
    return {i: j for j, i in sorted(taken_by.items(), key=lambda pair: pair[1])}


def _augment(start: int, options: list[list[int]], taken_by: dict[int, int]) -> None:
    """Give `start` a partner, moving others to their alternatives where that frees one."""
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        i = waiting.popleft()
        for j in options[i]:
            if j in came_from:
                continue
            came_from[j] = i
            if j not in taken_by:
                _reassign(j, came_from, taken_by)
                return
            waiting.append(taken_by[j])


def _reassign(free: int, came_from: dict[int, int], taken_by: dict[int, int]) -> None:
    partner_of = {i: j for j, i in taken_by.items()}
    j: int | None = free
    while j is not None:
        i = came_from[j]
        j_before = partner_of.get(i)
        taken_by[j] = i
        j = j_before


def in_order(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """A largest set of pairs that keeps the order of both sides, as {expected: actual}.

    The longest common subsequence with `fits` for equality, by dynamic programming.
    """
    fit = [[fits(i, j) for j in range(actual)] for i in range(expected)]
    best = [[0] * (actual + 1) for _ in range(expected + 1)]
    for i in range(expected - 1, -1, -1):
        for j in range(actual - 1, -1, -1):
            taken = best[i + 1][j + 1] + 1 if fit[i][j] else 0
            best[i][j] = max(taken, best[i + 1][j], best[i][j + 1])
    pairs: dict[int, int] = {}
    i = j = 0
    while i < expected and j < actual:
        if fit[i][j] and best[i][j] == best[i + 1][j + 1] + 1:
            pairs[i] = j
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def in_place(expected: int, actual: int, fits: Fits) -> dict[int, int]:
    """The pairs at the same position on both sides, as {expected: actual}."""
    return {i: i for i in range(min(expected, actual)) if fits(i, i)}

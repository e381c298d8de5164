"""The cases and agents that the simulations draw: how often each case passes, before and after a change.

A suite is drawn from three kinds of cases: those that pass half of the time, those that pass nine times of
ten, and those that always pass or never do. Their shares follow from how many cases differ between two single
runs of an unchanged agent, its discordance, of which either kind of flaky case brings half.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

Counts = list[tuple[int, int]]
"""One run: passed trials and all trials of each case."""
Kind = Literal["spread", "broken", "case", "topic"]
"""How an agent gets worse: all cases by the same share of their rate; some, drawn at random, that never pass
again; one that always passed; or the first ten cases, which are a topic, by the same share."""
TOPIC = 10
"""Cases of a topic."""

COIN, MOSTLY = 0.5, 0.9
NEVER = 0.10
"""Share of the cases that never pass."""


def flips(rate: float) -> float:
    """Compute the chance that two single trials of a case differ.

    Example:
        >>> flips(0.5)
        0.5
    """
    return 2 * rate * (1 - rate)


def shares(discordant: float) -> tuple[float, float]:
    """Compute which share of the cases pass half of the time, and which nine times of ten.

    Half of the discordance each, unless that takes more cases than there are: then more of the first kind.

    Example:
        >>> coin, mostly = shares(0.2)
        >>> round(coin * flips(COIN) + mostly * flips(MOSTLY), 12)
        0.2
    """
    mostly = discordant / 2 / flips(MOSTLY)
    coin = discordant / 2 / flips(COIN)
    most = 1 - NEVER
    if coin + mostly > most:
        coin = (discordant - most * flips(MOSTLY)) / (flips(COIN) - flips(MOSTLY))
        mostly = most - coin
    return coin, mostly


def mean_rate(discordant: float) -> float:
    """Compute the mean pass rate of the cases."""
    coin, mostly = shares(discordant)
    return coin * COIN + mostly * MOSTLY + (1 - coin - mostly - NEVER)


def suite(source: Random, cases: int, discordant: float) -> list[float]:
    """Draw how often each case passes.

    Args:
        source: Of randomness.
        cases: How many.
        discordant: Share of cases that differ between two single runs, in the long run.
    """
    coin, mostly = shares(discordant)
    return [_rate(source.random(), coin, mostly) for _ in range(cases)]


def _rate(chance: float, coin: float, mostly: float) -> float:
    if chance < coin:
        return COIN
    if chance < coin + mostly:
        return MOSTLY
    return 0.0 if chance >= 1 - NEVER else 1.0


def worse(source: Random, rates: Sequence[float], lost: float, kind: Kind) -> list[float]:
    """Draw how often each case passes after a change that costs a share of the pass rate.

    Args:
        source: Of randomness.
        rates: Before the change.
        lost: The share of all passes that is lost: the drop over the mean rate. Of one case, or of the first
            topic, the share of its passes.
        kind: Where it is lost.
    """
    if not lost:
        return list(rates)
    if kind == "broken":
        return [0.0 if source.random() < lost else rate for rate in rates]
    if kind == "case":
        steady = [place for place, rate in enumerate(rates) if rate == 1.0]
        hit = {source.choice(steady)} if steady else set()
    else:
        hit = set(range(len(rates) if kind == "spread" else TOPIC))
    return [rate * (1 - lost) if place in hit else rate for place, rate in enumerate(rates)]


def uneven(source: Random, cases: int, drop: float) -> list[tuple[float, float]]:
    """Draw how likely each case passes before and now: half always do, a tenth never, the rest are flaky.

    The rate of a flaky case is anything between 0 and 1. With a `drop` of the mean, some of those that always
    pass never do now: each with the same chance.
    """
    always, never = cases // 2, cases // 10
    before = [1.0] * always + [0.0] * never + [source.random() for _ in range(cases - always - never)]
    broken = drop * cases / always
    now = [0.0 if place < always and source.random() < broken else one for place, one in enumerate(before)]
    return list(zip(before, now, strict=True))


def run(source: Random, rates: Sequence[float], trials: int, shift: float = 0.0) -> Counts:
    """Draw the trials of one run.

    Args:
        source: Of randomness.
        rates: How often each case passes.
        trials: Of each case.
        shift: Added to the rate of every flaky case: what a whole run shares, such as the day.
    """
    draw = source.random
    counts = []
    for rate in rates:
        if 0.0 < rate < 1.0:
            moved = rate + shift
            passed = sum(draw() < moved for _ in range(trials))
        else:
            passed = trials if rate else 0
        counts.append((passed, trials))
    return counts


def joined(first: Counts, second: Counts) -> Counts:
    """Add the trials of a later look to those of an earlier one."""
    return [(a + c, b + d) for (a, b), (c, d) in zip(first, second, strict=True)]

"""Closed forms for shares: intervals and how much trials agree. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log2, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval."""

    low: float
    high: float


def wilson(successes: int | Fraction, total: int, confidence: float = 0.95) -> Interval:
    """Compute the score interval of a share.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22
    (1927) 209-212. Without an observation the interval is 0 to 1.
    """
    if total == 0:
        return Interval(0.0, 1.0)
    z = z_two_sided(confidence)
    share = float(successes / total)
    scale = 1 + z * z / total
    centre = (share + z * z / (2 * total)) / scale
    half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / scale
    # At the ends the formula gives 0 and 1 exactly; floats miss them by a rounding error.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return Interval(low, high)


def entropy(passed: int, trials: int) -> float:
    """Compute the Shannon entropy of pass and fail in bits: 0 when all trials agree, 1 when half pass."""
    bits = 0.0
    for count in (passed, trials - passed):
        if count:
            bits -= count / trials * log2(count / trials)
    return bits


def z_two_sided(confidence: float) -> float:
    """Compute the standard normal quantile that leaves `1 - confidence` in both tails together."""
    return _NORMAL.inv_cdf((1 + confidence) / 2)

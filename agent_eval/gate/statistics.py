"""The gate's statistics, each with the source of its formula. Standard library only."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from math import atan, comb, cos, exp, floor, fsum, inf, lgamma, log, log1p, pi, sin, sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeVar

EXACT_TRIALS = 500
"""Trials up to which a binomial tail is a sum of whole numbers, divided once."""
LEAST_VARIANCE = 0.25
"""Variance of a run's total below which it is not believed: that of one case that passes half of the time."""

CONFIDENCE = 0.95
"""Of every two-sided interval."""
NORMAL_QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Count:
    """Trials that passed, and trials that were judged."""

    passed: int
    trials: int

    @property
    def share(self) -> Fraction | None:
        """The share that passed; None without a trial."""
        return Fraction(self.passed, self.trials) if self.trials else None

    def __iter__(self) -> Iterator[int]:
        return iter((self.passed, self.trials))

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.trials + other.trials)

    def __str__(self) -> str:
        return f"{self.passed:,} of {self.trials:,}"


NONE = Count(0, 0)


class Interval(NamedTuple):
    """A two-sided confidence interval."""

    low: float
    high: float


@cache
def fisher(x: int, a: int, y: int, b: int) -> float:
    """The chance that x or fewer of the x + y passes fall on the a trials of the change.

    One-sided exact test of Fisher (hypergeometric tail) for x of a against y of b passes.
    """
    return sum(comb(a, k) * comb(b, x + y - k) for k in range(max(0, x + y - b), x + 1)) / comb(a + b, x + y)


def holm(p_values: Mapping[Name, float], alpha: float) -> set[Name]:
    """Names whose hypothesis is rejected at a family-wise level (Holm 1979)."""
    rejected: set[Name] = set()
    for place, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        if p_values[name] > alpha / (len(p_values) - place):
            break
        rejected.add(name)
    return rejected


def tarone(counts: Mapping[Name, tuple[Count, Count]], alpha: float) -> set[Name]:
    """Names that pass less now than before: Holm over those alone whose totals can reach the level.

    Tarone (1990): a test whose best p value cannot reach the corrected level costs the others nothing.
    Each count, now and before, has at least one trial.
    """
    best = {name: fisher(max(0, x + y - b), a, min(b, x + y), b) for name, ((x, a), (y, b)) in counts.items()}
    share = next(k for k in range(1, len(counts) + 2) if sum(p <= alpha / k for p in best.values()) <= k)
    tests = {name: fisher(*now, *then) for name, (now, then) in counts.items() if best[name] <= alpha / share}
    return holm(tests, alpha)


def sign_flip(falls: Iterable[int]) -> float:
    """The chance of at least this fall in all, if each case fell or rose by chance.

    Exact sign-flip (permutation) test; where each case falls by at most one, that of McNemar.
    """
    falls = [fall for fall in falls if fall]
    ways = {0: 1}
    for size in map(abs, falls):
        more: dict[int, int] = {}
        for total, number in ways.items():
            for step in (size, -size):
                more[total + step] = more.get(total + step, 0) + number
        ways = more
    return sum(number for total, number in ways.items() if total >= sum(falls)) / sum(ways.values())


def at_most_by_chance(passed: int, trials: int, rate: Fraction) -> float:
    """The chance that an agent with this pass rate passes so few trials or fewer (binomial).

    Exact up to `EXACT_TRIALS`; beyond, summed in logarithms to a relative error below 1e-9.
    """
    if not 0 < rate < 1:
        return float(passed >= trials or rate == 0)
    if trials <= EXACT_TRIALS:
        p, q = rate.numerator, rate.denominator - rate.numerator
        ways = sum(comb(trials, k) * p**k * q ** (trials - k) for k in range(passed + 1))
        return float(ways / rate.denominator**trials)
    of_pass, of_miss, all_ = log(rate), log1p(-rate), lgamma(trials + 1)
    terms = (
        all_ - lgamma(k + 1) - lgamma(trials - k + 1) + k * of_pass + (trials - k) * of_miss
        for k in range(passed + 1)
    )
    return min(1.0, fsum(map(exp, terms)))


def wilson(successes: int | Fraction, total: int) -> Interval:
    """Compute the score interval of a share; 0 to 1 without an observation.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22
    (1927) 209-212.
    """
    if total == 0:
        return Interval(0.0, 1.0)
    z = NORMAL_QUANTILE
    share = float(successes / total)
    scale = 1 + z * z / total
    centre = (share + z * z / (2 * total)) / scale
    half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / scale
    # At the ends the formula gives 0 and 1 exactly; floats miss them by a rounding error.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    return Interval(low, 1.0 if successes == total else min(1.0, centre + half))


def student_cdf(t: float, freedom: int) -> float:
    """Compute the distribution function of Student's t for whole degrees of freedom, in closed form.

    Source: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = atan(t / sqrt(freedom))
    cosine, is_odd, total = cos(angle), freedom % 2, 0.0
    term = cosine if is_odd else 1.0
    for step in range(2 + is_odd, freedom + 1, 2):
        total += term
        term *= cosine * cosine * (step - 1) / step
    within = 2 / pi * (angle + sin(angle) * total) if is_odd else sin(angle) * total
    return (1 + within) / 2


@lru_cache(maxsize=256)
def student_quantile(confidence: float, freedom: int) -> float:
    """Compute the t below which a share `confidence`, at least a half, of Student's distribution is."""
    low, high = 0.0, 1.0
    while student_cdf(high, freedom) < confidence and high < inf:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def mean_and_variance(figures: Sequence[float]) -> tuple[float, float]:
    """Compute the mean of at least two figures, and the unbiased variance of one of them."""
    mean = fsum(figures) / len(figures)
    return mean, fsum((figure - mean) ** 2 for figure in figures) / (len(figures) - 1)


def p_of_rise(rises: Sequence[float]) -> float:
    """Compute the one-sided p value of Student's t test that the mean of two or more rises is above 0.

    Where all rises are equal, their spread is 0 and they say it by themselves.
    """
    mean, variance = mean_and_variance(rises)
    if not variance:
        return 0.0 if mean > 0 else 1.0
    return 1 - student_cdf(mean / sqrt(variance / len(rises)), len(rises) - 1)


def welch(before: Sequence[float], now: Sequence[float]) -> float:
    """Compute the one-sided p value that the mean of the totals of runs fell.

    Source: B. L. Welch, The generalization of Student's problem when several different population variances
    are involved, Biometrika 34 (1947) 28-35; degrees of freedom by F. E. Satterthwaite (1946), rounded down.
    """
    (mean_before, of_before), (mean_now, of_now) = mean_and_variance(before), mean_and_variance(now)
    share_before = max(of_before, LEAST_VARIANCE) / len(before)
    share_now = max(of_now, LEAST_VARIANCE) / len(now)
    variance = share_before + share_now
    freedom = variance**2 / (share_before**2 / (len(before) - 1) + share_now**2 / (len(now) - 1))
    return 1 - student_cdf((mean_before - mean_now) / sqrt(variance), max(1, floor(freedom)))


def tango_interval(regressed: int, fixed: int, total: int) -> Interval:
    """Compute the score interval of the fall (regressed - fixed) / total, of two paired shares.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, Statistics in Medicine 17 (1998) 891-908; the closed form of the restricted
    estimate is his equation 13. Both ends are found by bisection of his score statistic, which falls as
    the supposed fall grows.
    """
    estimate, z = (regressed - fixed) / total, NORMAL_QUANTILE

    def end(low: float, high: float, at: float) -> float:
        for _ in range(200):
            middle = (low + high) / 2
            above = tango_score(regressed, fixed, total, middle) > at
            low, high = (middle, high) if above else (low, middle)
        return (low + high) / 2

    return Interval(end(-1.0, estimate, z), end(estimate, 1.0, -z))


def tango_score(regressed: int, fixed: int, total: int, fall: float) -> float:
    """Compute Tango's standard normal statistic for the hypothesis that the true fall is `fall`."""
    a = 2 * total
    b = -regressed - fixed + (2 * total - regressed + fixed) * fall
    c = -fixed * fall * (1 - fall)
    restricted = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = total * (2 * restricted + fall * (1 - fall))
    excess = regressed - fixed - total * fall
    if variance <= 0:
        return inf if excess > 0 else -inf if excess < 0 else 0.0
    return excess / sqrt(variance)

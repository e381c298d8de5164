"""Closed forms for paired pass/fail data, standard library only.

Terms used throughout: two runs judged the same `total` cases. `regressed` cases passed before and do not
now, `fixed` cases the reverse; together they are the discordant pairs. The drop is
`(regressed - fixed) / total`: positive when the candidate is worse.

How many cases a test needs is in `power`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, exp, fsum, inf, log2, sqrt
from statistics import NormalDist

from agent_eval.gate.binomial import at_most, drawn_at_most, log_at_most, log_point

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval.

    Example:
        >>> wilson(successes=0, total=0)
        Interval(low=0.0, high=1.0)
    """

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


EXACT_PAIRS = 1_000
"""Discordant pairs up to which sums of binomial coefficients are exact integers, divided once."""

EXACT_TRIALS = 200
"""Trials of both sides up to which Fisher's test counts in exact integers."""

MOST_FLIPPED = 10_000
"""Changed cases up to which signs are flipped at random; the normal distribution fits more of them."""


def mcnemar(regressed: int, fixed: int) -> float:
    """Compute the exact one-sided p value of McNemar's test: a pair is as likely to regress as to be fixed.

    The alternative is that regressing is likelier than being fixed. Without discordant pairs p is 1. Beyond
    EXACT_PAIRS pairs the same sum is taken in floats, with a relative error below 1e-12.

    Source: Q. McNemar, Psychometrika 12 (1947) 153-157.

    Example:
        >>> mcnemar(regressed=5, fixed=0)
        0.03125
    """
    discordant = regressed + fixed
    if discordant > EXACT_PAIRS:
        return at_most(fixed, discordant)
    return float(Fraction(_binomial_sum(fixed, discordant), 2**discordant))


def tango_interval(regressed: int, fixed: int, total: int, confidence: float = 0.95) -> Interval:
    """Compute the score interval of the drop, the difference of two paired shares.

    Source: T. Tango, Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, Statistics in Medicine 17 (1998) 891-908; the closed form of the restricted
    estimate is his equation 13. Both ends are found by bisection of his score statistic, which falls as
    the supposed drop grows. Without a case the interval is -1 to 1.
    """
    if total == 0:
        return Interval(-1.0, 1.0)
    z = z_two_sided(confidence)
    estimate = (regressed - fixed) / total
    low = _bisect(lambda drop: tango_score(regressed, fixed, total, drop) > z, -1.0, estimate)
    high = _bisect(lambda drop: tango_score(regressed, fixed, total, drop) > -z, estimate, 1.0)
    return Interval(low, high)


def tango_score(regressed: int, fixed: int, total: int, drop: float) -> float:
    """Compute Tango's standard normal statistic for the hypothesis that the true drop is `drop`."""
    a = 2 * total
    b = -regressed - fixed + (2 * total - regressed + fixed) * drop
    c = -fixed * drop * (1 - drop)
    restricted = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = total * (2 * restricted + drop * (1 - drop))
    excess = regressed - fixed - total * drop
    if variance <= 0:
        return inf if excess > 0 else -inf if excess < 0 else 0.0
    return excess / sqrt(variance)


@lru_cache(maxsize=1 << 14)
def fisher(candidate_passed: int, candidate_trials: int, base_passed: int, base_trials: int) -> float:
    """Compute Fisher's one-sided exact p value that the candidate passes less often than the base.

    Without a trial it is 1. Beyond EXACT_TRIALS trials the same sum is taken in floats, with a relative error
    below 1e-9.

    Source: R. A. Fisher, The logic of inductive inference, JRSS 98 (1935) 39-82.

    Example:
        >>> fisher(0, 6, 6, 6) == 1 / 924
        True
    """
    passed, total = candidate_passed + base_passed, candidate_trials + base_trials
    if total > EXACT_TRIALS:
        return drawn_at_most(candidate_passed, drawn=candidate_trials, hits=passed, total=total)
    tail = sum(
        comb(candidate_trials, low) * comb(base_trials, passed - low)
        for low in range(max(0, passed - base_trials), candidate_passed + 1)
    )
    return tail / comb(total, passed)


def holm_discrete(p_values: Sequence[float], attainable: Sequence[float], alpha: float = 0.05) -> list[bool]:
    """Tell which hypotheses are rejected with a family-wise error of at most `alpha`.

    S. Holm's procedure (A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6 (1979) 65-70), without the hypotheses whose data could never have rejected them.

    Args:
        p_values: P value of each hypothesis.
        attainable: The smallest p value each could have had, given its number of discordant pairs.
        alpha: Family-wise error.

    A judge with two discordant pairs cannot reach p < 0.25 and need not cost the other judges power.
    Source: R. E. Tarone, A modified Bonferroni method for discrete data, Biometrics 46 (1990) 515-522,
    applied step by step: his divisor never grows as hypotheses are taken away, so the error stays bounded.
    """
    rejected = [False] * len(p_values)
    divisors = _Divisors(attainable, alpha)
    # The divisor never grows as hypotheses are taken away, so those with the smallest p values come first.
    for place in sorted(range(len(p_values)), key=lambda place: p_values[place]):
        if p_values[place] > alpha / divisors.least:
            break
        rejected[place] = True
        divisors.take_away(place)
    return rejected


class _Divisors:
    """The smallest divisor that Tarone's procedure allows, as hypotheses are taken away.

    A divisor is allowed where at most so many of the hypotheses that are left could reach `alpha` over it.
    """

    def __init__(self, attainable: Sequence[float], alpha: float) -> None:
        self._largest = [_largest_divisor(least, alpha, len(attainable)) for least in attainable]
        """For each hypothesis, the largest divisor by which it can reach its share of `alpha`."""
        self._at = Counter(self._largest)
        self.least = len(attainable) or 1
        self._reaching = self._at[self.least]
        self._fall()

    def take_away(self, place: int) -> None:
        """Take a hypothesis away that was rejected."""
        self._at[self._largest[place]] -= 1
        self._reaching -= self._largest[place] >= self.least
        self._fall()

    def _fall(self) -> None:
        while self.least > 1 and self._reaching + self._at[self.least - 1] <= self.least - 1:
            self.least -= 1
            self._reaching += self._at[self.least]


def _largest_divisor(attainable: float, alpha: float, most: int) -> int:
    """Find the largest divisor up to `most` with `attainable <= alpha / divisor`; 0 where there is none."""
    if attainable <= alpha / max(1, most):
        return most
    divisor = min(most, int(alpha / attainable) + 1)
    while divisor and attainable > alpha / divisor:
        divisor -= 1
    return divisor


def pass_hat_k(passed: int, trials: int, k: int) -> float:
    """Estimate the chance that k trials of a case all pass: C(passed, k) / C(trials, k).

    Source: S. Yao et al., tau-bench (2024), section 3. The figure of a suite is the mean over its cases.
    """
    return comb(passed, k) / comb(trials, k)


def pass_at_k(passed: int, trials: int, k: int) -> float:
    """Estimate the chance that one of k trials passes: 1 - C(trials - passed, k) / C(trials, k).

    Source: M. Chen et al., Evaluating large language models trained on code (2021), equation 1.
    """
    return float(1 - Fraction(comb(trials - passed, k), comb(trials, k)))


def e_value(regressed: int, fixed: int) -> float:
    """Compute the evidence that regressing is likelier than being fixed, valid however often it is computed.

    The likelihood ratio of a regression share drawn uniformly from 1/2 to 1 against 1/2, over discordant
    pairs: 2^(n+1) B(b+1, c+1) P(Bin(n+1, 1/2) <= b) with b regressed, c fixed, n = b + c. Stop and call it
    a regression when it reaches 1/alpha: by Ville's inequality that happens with a chance of at most alpha
    when nothing changed. Source: A. Ramdas et al., Game-theoretic statistics and safe anytime-valid
    inference, Statistical Science 38 (2023) 576-601.
    """
    discordant = regressed + fixed
    if discordant <= EXACT_PAIRS:
        return _quotient(
            _binomial_sum(regressed, discordant + 1), (discordant + 1) * comb(discordant, regressed)
        )
    log_evidence = log_at_most(regressed, discordant + 1) - log_point(regressed, discordant)
    try:
        return 2 * exp(log_evidence) / (discordant + 1)
    except OverflowError:
        return inf


def _quotient(dividend: int, divisor: int) -> float:
    try:
        return dividend / divisor
    except OverflowError:
        return inf


def clustered_standard_error(groups: Sequence[Sequence[float]]) -> float:
    """Compute the standard error of the mean of all scores when scores within a group are not independent.

    Args:
        groups: The scores of each cluster: the trials of a case, or the cases of a topic.

    Source: E. Miller, Adding error bars to evals (2024), section 2.2.
    """
    scores = [score for group in groups for score in group]
    if not scores:
        return 0.0
    mean = fsum(scores) / len(scores)
    return sqrt(fsum(fsum(score - mean for score in group) ** 2 for group in groups)) / len(scores)


def clustered_interval(drops: Sequence[float], total: int, confidence: float = 0.95) -> Interval:
    """Compute the interval of the mean drop of cases with several trials; a case is a cluster.

    Args:
        drops: Drop of every case whose pass rate moved: rate before minus rate now, from -1 to 1.
        total: All cases; those not in `drops` did not move.
        confidence: Two-sided.

    The wider of two, end by end, both on the clustered standard error:

    - Wald's after adding a case that fell from always to never and one that rose as far: D. G. Bonett, R. M.
      Price, Adjusted Wald confidence interval for a difference of binomial proportions based on paired data,
      Journal of Educational and Behavioral Statistics 37 (2012) 479-488, who add them to single trials. They
      keep the interval of a small suite wide: cases that hardly moved prove little.
    - A score interval: the variance is the observed one, and half of what a larger drop would add if its
      cases broke altogether. Wald's interval ends too early then, since a run that happens to break few cases
      shows too little variance as well.

    Neither alone keeps its level for every suite; `benchmarks/levels_simulation.py` measures both together.
    Without a case the interval is -1 to 1.
    """
    unmoved = [[0.0]] * (total - len(drops))
    return grouped_interval([[drop] for drop in drops] + unmoved, confidence)


def grouped_interval(groups: Sequence[Sequence[float]], confidence: float = 0.95) -> Interval:
    """Compute the interval of `clustered_interval` where several cases are one cluster, such as a topic.

    Args:
        groups: Drops of the cases of each cluster, from -1 to 1; 0 of a case that did not move.
        confidence: Two-sided.
    """
    total = sum(map(len, groups))
    if total == 0:
        return Interval(-1.0, 1.0)
    z = z_two_sided(confidence)
    summed = fsum(drop for group in groups for drop in group)
    added = clustered_standard_error([*groups, [1.0], [-1.0]])
    adjusted = summed / (total + 2)
    centre = summed / total
    unseen = z * z / (2 * total)
    half = (unseen + sqrt(unseen * unseen + (2 * z * clustered_standard_error(groups)) ** 2)) / 2
    return Interval(
        max(-1.0, min(adjusted - z * added, centre - half)),
        min(1.0, max(adjusted + z * added, centre + half)),
    )


def sign_flip_test(drops: Sequence[float], *, seed: int = 0, rounds: int = 10_000) -> float:
    """Compute the one-sided p value of the mean drop of independent clusters, by flipping their signs.

    Args:
        drops: Drop of every case (or topic): mean score before minus mean score now.
        seed: The same seed gives the same p value.
        rounds: Random flips; up to 2^12 sign patterns are tried exhaustively instead, and beyond MOST_FLIPPED
            drops the sum is taken as normal, less the smallest drop: the half of a step that the sums make.

    Source: R. A. Fisher, The design of experiments (1935), section 21; the `+ 1` keeps a random p value
    valid (B. Phipson, G. K. Smyth, 2010).
    """
    moved = [drop for drop in drops if drop]
    if not moved:
        return 1.0
    observed = fsum(moved)
    slack = 1e-12 * fsum(abs(drop) for drop in moved)
    if len(moved) <= 12:
        patterns = 1 << len(moved)
        reached = sum(
            fsum(-drop if pattern >> place & 1 else drop for place, drop in enumerate(moved))
            >= observed - slack
            for pattern in range(patterns)
        )
        return reached / patterns
    if len(moved) > MOST_FLIPPED:
        spread = sqrt(fsum(drop * drop for drop in moved))
        return _NORMAL.cdf((min(map(abs, moved)) - observed) / spread)
    source = random.Random(seed)
    reached = 0
    # Drops of equal size share a draw, of how many of them have their sign flipped.
    sizes = sorted(Counter(abs(drop) for drop in moved).items())
    for _ in range(rounds):
        total = fsum(size * (times - 2 * source.getrandbits(times).bit_count()) for size, times in sizes)
        reached += total >= observed - slack
    return (reached + 1) / (rounds + 1)


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


def _binomial_sum(last: int, total: int) -> int:
    """C(total, 0) + ... + C(total, last)."""
    if last >= total:
        return 1 << total
    term = summed = 1
    for place in range(1, last + 1):
        term = term * (total - place + 1) // place
        summed += term
    return summed


def _bisect(is_left: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if is_left(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2

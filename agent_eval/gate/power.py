"""Power: how many cases a test needs, and what drop so many cases show. Terms as in `statistics`."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, comb, exp, fsum, lgamma, log, sqrt
from statistics import NormalDist

from agent_eval.gate.statistics import z_two_sided

EXACT_TOTAL = 200
"""Cases up to which power is summed exactly."""

_NORMAL = NormalDist()


def paired_power(drop: float, discordant: float, total: int, alpha: float = 0.05) -> float:
    """Compute the chance that the exact one-sided McNemar test detects a true drop.

    Args:
        drop: The true drop, above 0 and at most 1.
        discordant: Share of cases that differ between the runs; at least `drop` is assumed.
        total: Cases.
        alpha: One-sided level.

    Up to EXACT_TOTAL cases the sum over all outcomes; beyond it the normal approximation of R. J. Connor,
    Sample size for testing differences in proportions for the paired-sample design, Biometrics 43 (1987)
    207-211.
    """
    discordant = min(1.0, max(discordant, drop))
    if total <= EXACT_TOTAL:
        return _exact_power(drop, discordant, total, alpha)
    spread = sqrt(max(discordant - drop * drop, 0.0))
    lead = drop * sqrt(total) - _NORMAL.inv_cdf(1 - alpha) * sqrt(discordant)
    if spread == 0:
        return 1.0 if lead >= 0 else 0.0
    return _NORMAL.cdf(lead / spread)


def _exact_power(drop: float, discordant: float, total: int, alpha: float) -> float:
    regressing = (discordant + drop) / (2 * discordant)
    chance = 0.0
    for pairs in range(1, total + 1):
        needed = critical_regressions(pairs, alpha)
        if needed is not None:
            detected = fsum(_binomial(count, pairs, regressing) for count in range(needed, pairs + 1))
            chance += _binomial(pairs, total, discordant) * detected
    return min(1.0, chance)


@lru_cache(maxsize=4096)
def critical_regressions(discordant: int, alpha: float = 0.05) -> int | None:
    """Find the fewest regressed of `discordant` pairs with a one-sided exact p of at most `alpha`.

    None where even all of them are too few.
    """
    tail = 0
    fewest = None
    for count in range(discordant, -1, -1):
        tail += comb(discordant, count)
        if Fraction(tail, 2**discordant) > alpha:
            break
        fewest = count
    return fewest


def _binomial(count: int, total: int, share: float) -> float:
    if share in (0.0, 1.0):
        return 1.0 if count == total * share else 0.0
    log_chance = lgamma(total + 1) - lgamma(count + 1) - lgamma(total - count + 1)
    return exp(log_chance + count * log(share) + (total - count) * log(1 - share))


def paired_cases_needed(drop: float, discordant: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Compute how many cases a one-sided paired test needs to detect a true drop (Connor 1987)."""
    discordant = max(discordant, drop)
    z_alpha, z_power = _NORMAL.inv_cdf(1 - alpha), _NORMAL.inv_cdf(power)
    spread = sqrt(max(discordant - drop * drop, 0.0))
    return ceil(((z_alpha * sqrt(discordant) + z_power * spread) / drop) ** 2)


def non_inferiority_cases(
    margin: float, discordant: float, confidence: float = 0.95, power: float = 0.8
) -> int:
    """Compute how many cases put the interval's upper end below `margin` when in truth nothing changed.

    Source: J. M. Nam, Establishing equivalence of two treatments and sample size requirements in
    matched-pairs design, Biometrics 53 (1997) 1422-1430, in its large-sample form.
    """
    z = z_two_sided(confidence) + _NORMAL.inv_cdf(power)
    return max(1, ceil(z * z * discordant / (margin * margin)))


def mean_power(drop: float, spread: float, total: int, alpha: float = 0.05) -> float:
    """Compute the chance that a one-sided test of the mean detects a true drop of the mean pass rate.

    Args:
        drop: The true drop.
        spread: Standard deviation between cases of the change of their pass rate.
        total: Cases.
        alpha: One-sided level.

    The normal approximation; E. Miller, Adding error bars to evals (2024), section 5.
    """
    return _NORMAL.cdf(drop * sqrt(total) / spread - _NORMAL.inv_cdf(1 - alpha)) if spread else 1.0


def mean_cases_needed(drop: float, spread: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Compute how many cases the test of `mean_power` needs to detect the drop."""
    z = _NORMAL.inv_cdf(1 - alpha) + _NORMAL.inv_cdf(power)
    return max(1, ceil((z * spread / drop) ** 2))


def mean_non_inferiority_cases(
    margin: float, spread: float, confidence: float = 0.95, power: float = 0.8
) -> int:
    """Compute how many cases end the interval of the mean drop below `margin` when nothing changed."""
    z = z_two_sided(confidence) + _NORMAL.inv_cdf(power)
    return max(1, ceil((z * spread / margin) ** 2))


def cases_needed(
    difference: float,
    variance: float = 1 / 9,
    *,
    trial_variance: tuple[float, float] = (0.0, 0.0),
    trials: tuple[int, int] = (1, 1),
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Compute how many cases a two-sided paired comparison of mean scores needs to detect a difference.

    Args:
        difference: True difference of the means.
        variance: Variance between cases of the difference of their expected scores.
        trial_variance: Variance between trials of one case, for either run.
        trials: Trials of each case, for either run.
        alpha: Two-sided level.
        power: Chance to detect it.

    Source: E. Miller, Adding error bars to evals (2024), equation 9.
    """
    z = _NORMAL.inv_cdf(1 - alpha / 2) + _NORMAL.inv_cdf(power)
    spread = variance + trial_variance[0] / trials[0] + trial_variance[1] / trials[1]
    return z * z * spread / (difference * difference)


def runs_to_see_flake(rate: float, confidence: float = 0.95) -> int:
    """Compute after how many runs a case that fails with chance `rate` has failed at least once.

    The smallest n with 1 - (1 - rate)^n >= confidence.

    Example:
        >>> runs_to_see_flake(0.05)
        59
    """
    return max(1, ceil(log(1 - confidence) / log(1 - rate)))

"""Power: how many cases a test needs, and what drop so many cases show. Terms as in `statistics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import ceil, exp, floor, fsum, log, sqrt
from statistics import NormalDist

from agent_eval.gate.binomial import at_most, log_point
from agent_eval.gate.statistics import mcnemar, tango_score, z_two_sided

MOST_PAIRS = 1_000
"""Expected discordant pairs up to which chances are summed over all outcomes; beyond, approximated."""

_SPREADS = 8.0
"""Standard deviations around the mean that a sum covers; the rest is below 1e-14."""

_NORMAL = NormalDist()


@lru_cache(maxsize=1 << 10)
def paired_power(drop: float, discordant: float, total: int, alpha: float = 0.05) -> float:
    """Compute the chance that the exact one-sided McNemar test detects a true drop.

    Args:
        drop: The true drop, above 0 and at most 1.
        discordant: Share of cases that differ between the runs; at least `drop` is assumed.
        total: Cases.
        alpha: One-sided level.

    The sum over all outcomes up to MOST_PAIRS expected pairs. Beyond it the normal approximation of R. J.
    Connor, Sample size for testing differences in proportions for the paired-sample design, Biometrics 43
    (1987) 207-211, less the half pair that an exact test gives away.
    """
    discordant = min(1.0, max(discordant, drop))
    regressing = (discordant + drop) / (2 * discordant)
    if total * discordant > MOST_PAIRS:
        spread = sqrt(max(discordant - drop * drop, 0.0))
        lead = drop * sqrt(total) - _NORMAL.inv_cdf(1 - alpha) * sqrt(discordant) - 1 / sqrt(total)
        if spread == 0:
            return 1.0 if lead >= 0 else 0.0
        return _NORMAL.cdf(lead / spread)

    def detected(pairs: int) -> float:
        needed = critical_regressions(pairs, alpha)
        return 0.0 if needed is None else _at_least(needed, pairs, regressing)

    return _mean_over_pairs(discordant, total, detected)


def _mean_over_pairs(discordant: float, total: int, chance: Callable[[int], float]) -> float:
    """Average a chance that depends on the discordant pairs; `discordant` is their expected share."""
    if discordant >= 1:
        return chance(total)
    return min(
        1.0,
        fsum(
            exp(log_point(pairs, total, discordant)) * chance(pairs) for pairs in _likely(discordant, total)
        ),
    )


def _likely(share: float, total: int) -> Iterator[int]:
    reach = _SPREADS * sqrt(total * share * (1 - share)) + _SPREADS
    return iter(range(max(0, floor(total * share - reach)), min(total, ceil(total * share + reach)) + 1))


def _at_least(count: int, total: int, share: float) -> float:
    if share >= 1:
        return float(count <= total)
    return at_most(total - count, total, 1 - share)


@lru_cache(maxsize=1 << 14)
def critical_regressions(discordant: int, alpha: float = 0.05) -> int | None:
    """Find the fewest regressed of `discordant` pairs with a one-sided exact p of at most `alpha`.

    None where even all of them are too few.
    """
    if mcnemar(discordant, 0) > alpha:
        return None
    guess = discordant / 2 + _NORMAL.inv_cdf(1 - alpha) * sqrt(discordant) / 2
    count = min(discordant, max(0, round(guess)))
    while mcnemar(count, discordant - count) > alpha:
        count += 1
    while count and mcnemar(count - 1, discordant - count + 1) <= alpha:
        count -= 1
    return count


@lru_cache(maxsize=1 << 10)
def paired_cases_needed(drop: float, discordant: float, alpha: float = 0.05, power: float = 0.8) -> int:
    """Compute how many cases the exact one-sided McNemar test needs to detect a true drop, by `paired_power`.

    One case more may detect it less often by a hair: whole numbers of pairs do not fit every level equally.
    """
    discordant = min(1.0, max(discordant, drop))
    z_alpha, z_power = _NORMAL.inv_cdf(1 - alpha), _NORMAL.inv_cdf(power)
    spread = sqrt(max(discordant - drop * drop, 0.0))
    guess = ceil(((z_alpha * sqrt(discordant) + z_power * spread) / drop) ** 2)
    return _fewest(guess, lambda total: paired_power(drop, discordant, total, alpha) >= power)


def _fewest(guess: int, suffices: Callable[[int], bool]) -> int:
    """Find the fewest cases that suffice, near a guess; it is fast if the guess is some percent off."""
    low, high = max(1, guess), max(1, guess)
    while not suffices(high):
        low, high = high, high + max(1, high // 16)
    while low > 1 and suffices(low):
        low, high = max(1, low - max(1, low // 16)), low
    if low == 1 and suffices(1):
        return 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def non_inferiority_power(margin: float, discordant: float, total: int, confidence: float = 0.95) -> float:
    """Compute the chance that Tango's interval ends below `margin` when in truth nothing changed.

    Args:
        margin: The drop to rule out.
        discordant: Share of cases that differ between the runs.
        total: Cases.
        confidence: Two-sided.

    The sum over all outcomes; beyond MOST_PAIRS expected pairs the large-sample form of J. M. Nam,
    Establishing equivalence of two treatments and sample size requirements in matched-pairs design,
    Biometrics 53 (1997) 1422-1430.
    """
    z = z_two_sided(confidence)
    if total * discordant > MOST_PAIRS:
        return _NORMAL.cdf(margin * sqrt(total / discordant) - z)

    def passes(pairs: int) -> float:
        regressed = _most(pairs, lambda count: tango_score(count, pairs - count, total, margin) < -z)
        return 0.0 if regressed is None else at_most(regressed, pairs)

    if not discordant:
        return passes(0)
    return _mean_over_pairs(discordant, total, passes)


def _most(last: int, holds: Callable[[int], bool]) -> int | None:
    """Find the largest number up to `last` for which something holds that holds for all smaller ones."""
    if not holds(0):
        return None
    low, high = 0, last + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@lru_cache(maxsize=1 << 10)
def non_inferiority_cases(
    margin: float, discordant: float, confidence: float = 0.95, power: float = 0.8
) -> int:
    """Compute how many cases put the interval's upper end below `margin` when in truth nothing changed.

    By `non_inferiority_power`.
    """
    z = z_two_sided(confidence) + _NORMAL.inv_cdf(power)
    guess = ceil(z * z * discordant / (margin * margin))
    return _fewest(guess, lambda total: non_inferiority_power(margin, discordant, total, confidence) >= power)


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


def mean_non_inferiority_power(margin: float, spread: float, total: int, confidence: float = 0.95) -> float:
    """Compute the chance that `statistics.clustered_interval` ends below `margin` when nothing changed.

    Args:
        margin: The drop to rule out.
        spread: Standard deviation between cases of the change of their pass rate.
        total: Cases.
        confidence: Two-sided.

    The mean change is taken as normal, and its variance as known: either end of that interval, Bonett and
    Price's and the score interval's, is then a fixed width above the mean.
    """
    z = z_two_sided(confidence)
    error = spread / sqrt(total)
    adjusted = (margin - z * sqrt(total * spread * spread + 2) / (total + 2)) * (total + 2) / total
    unseen = z * z / (2 * total)
    scored = margin - (unseen + sqrt(unseen * unseen + (2 * z * error) ** 2)) / 2
    room = min(adjusted, scored)
    if error == 0:
        return float(room > 0)
    return _NORMAL.cdf(room / error)


def mean_non_inferiority_cases(
    margin: float, spread: float, confidence: float = 0.95, power: float = 0.8
) -> int:
    """Compute how many cases end the interval of the mean drop below `margin` when nothing changed.

    By `mean_non_inferiority_power`.
    """
    z = z_two_sided(confidence) + _NORMAL.inv_cdf(power)
    guess = ceil((z * spread / margin) ** 2)
    return _fewest(
        guess, lambda total: mean_non_inferiority_power(margin, spread, total, confidence) >= power
    )


def runs_to_see_flake(rate: float, confidence: float = 0.95) -> int:
    """Compute after how many runs a case that fails with chance `rate` has failed at least once.

    The smallest n with 1 - (1 - rate)^n >= confidence.

    Example:
        >>> runs_to_see_flake(0.05)
        59
    """
    return max(1, ceil(log(1 - confidence) / log(1 - rate)))

"""The binomial distribution for any number of trials, in time that grows with its square root.

Point probabilities follow C. Loader, Fast and accurate computation of binomial probabilities (2000):
Stirling's error and the deviance are computed apart, so that nothing cancels, whatever the number of trials.
A tail is a point times a sum of ratios, which falls off within a few standard deviations.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, pi

_LOG_TWO_PI = log(2 * pi)


def log_point(count: int, total: int, share: float = 0.5) -> float:
    """Compute the logarithm of P(Bin(total, share) = count), with `0 < share < 1`; -inf outside 0 to `total`.

    Example:
        >>> round(exp(log_point(2, 4)), 12)
        0.375
    """
    if not 0 <= count <= total:
        return -inf
    if count == 0:
        return total * log1p(-share)
    if count == total:
        return total * log(share)
    rest = total - count
    errors = _stirling_error(total) - _stirling_error(count) - _stirling_error(rest)
    deviance = _deviance(count, total * share) + _deviance(rest, total * (1 - share))
    # Not log(count * rest / total): both factors may be large.
    return errors - deviance - 0.5 * (_LOG_TWO_PI + log(count) + log1p(-count / total))


def at_most(count: int, total: int, share: float = 0.5) -> float:
    """Compute P(Bin(total, share) <= count), with `0 < share < 1`. One that is too small for a float is 0.

    Example:
        >>> round(at_most(1, 5), 12)
        0.1875
    """
    return exp(log_at_most(count, total, share))


def log_at_most(count: int, total: int, share: float = 0.5) -> float:
    """Compute the logarithm of P(Bin(total, share) <= count), with `0 < share < 1`."""
    if count < 0:
        return -inf
    if count >= total:
        return 0.0
    if count <= total * share:
        return _log_tail(count, total, share)
    return log1p(-exp(_log_tail(total - count - 1, total, 1 - share)))


def _log_tail(count: int, total: int, share: float) -> float:
    """`log_at_most` for a count up to the mean: each further point is smaller by a falling ratio."""
    odds = (1 - share) / share
    summed = term = 1.0
    for place in range(count, 0, -1):
        term *= place / (total - place + 1) * odds
        summed += term
        if term < 1e-18 * summed:
            break
    return min(0.0, log_point(count, total, share) + log(summed))


@lru_cache(maxsize=4096)
def _stirling_error(number: int) -> float:
    """Compute log(n!) less Stirling's approximation of it."""
    if number < 16:
        return lgamma(number + 1) - (number + 0.5) * log(number) + number - 0.5 * _LOG_TWO_PI
    square = number * number
    series = 1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square
    return series / number


def _deviance(count: int, mean: float) -> float:
    """Compute count * log(count / mean) + mean - count, also where both are close."""
    difference = count - mean
    if abs(difference) >= 0.1 * (count + mean):
        return count * log(count / mean) - difference
    ratio = difference / (count + mean)
    summed = difference * ratio
    term, square = 2 * count * ratio, ratio * ratio
    for place in range(3, 1000, 2):
        term *= square
        if summed + term / place == summed:
            break
        summed += term / place
    return summed

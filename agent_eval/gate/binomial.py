"""The binomial and the hypergeometric distribution, in time that grows with the root of the trials.

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


def drawn_at_most(count: int, drawn: int, hits: int, total: int) -> float:
    """Compute the chance that at most `count` of those drawn from `total`, without replacement, are `hits`.

    The hypergeometric distribution, whose point is a quotient of three binomial ones (C. Loader, 2000).

    Example:
        >>> round(drawn_at_most(0, drawn=6, hits=6, total=12), 6) == round(1 / 924, 6)
        True
    """
    lowest, highest = max(0, drawn + hits - total), min(drawn, hits)
    if count < lowest:
        return 0.0
    if count >= highest:
        return 1.0
    if count <= drawn * hits / total:
        return _drawn_tail(count, drawn, hits, total)
    # As many misses or more: the same distribution from its other end.
    return 1 - _drawn_tail(drawn - count - 1, drawn, total - hits, total)


def _drawn_tail(count: int, drawn: int, hits: int, total: int) -> float:
    """`drawn_at_most` for a count up to the mean: each further point is smaller by a falling ratio."""
    share = drawn / total
    point = log_point(count, hits, share) + log_point(drawn - count, total - hits, share)
    summed = term = 1.0
    for place in range(count, max(0, drawn + hits - total), -1):
        term *= place * (total - hits - drawn + place) / ((hits - place + 1) * (drawn - place + 1))
        summed += term
        if term < 1e-18 * summed:
            break
    return min(1.0, exp(point - log_point(drawn, total, share)) * summed)


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

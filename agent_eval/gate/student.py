"""Student's distribution: for the mean of few figures whose spread is known from themselves alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import atan, cos, fsum, inf, pi, sin, sqrt


def student_cdf(t: float, freedom: int) -> float:
    """Compute the distribution function of Student's t for whole degrees of freedom, in closed form.

    Source: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    angle = atan(t / sqrt(freedom))
    cosine, term, total = cos(angle), 0.0, 0.0
    if freedom % 2:
        term = cosine
        for step in range(3, freedom + 1, 2):
            total += term
            term *= cosine * cosine * (step - 1) / step
        within = 2 / pi * (angle + sin(angle) * total)
    else:
        term = 1.0
        for step in range(2, freedom + 1, 2):
            total += term
            term *= cosine * cosine * (step - 1) / step
        within = sin(angle) * total
    return (1 + within) / 2


@lru_cache(maxsize=256)
def student_quantile(confidence: float, freedom: int) -> float:
    """Compute the t below which a share `confidence` of Student's distribution is, by bisection.

    Example:
        >>> round(student_quantile(0.95, 7), 4)
        1.8946
    """
    if confidence == 0.5:
        return 0.0
    if confidence < 0.5:
        return -student_quantile(1 - confidence, freedom)
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
    """Compute the one-sided p value of Student's t test that the mean of paired rises is above 0.

    Where all rises are equal, their spread is 0 and they say it by themselves.

    Args:
        rises: At least two.
    """
    mean, variance = mean_and_variance(rises)
    if not variance:
        return 0.0 if mean > 0 else 1.0
    return 1 - student_cdf(mean / sqrt(variance / len(rises)), len(rises) - 1)

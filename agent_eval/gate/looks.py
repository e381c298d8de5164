"""Looks: how often a run that stops as soon as it is decided may look at its trials, and at which level.

`trials: auto` runs every case once, looks, and runs every case again up to the next look while the decision
is undecided. A test that is made at each look at its full level finds a regression that is none more often
than its level says. So each look spends a share of it: the chance of an error at any look is at most the sum
of the chances at each (Bonferroni's inequality), however the looks depend on each other. The idea of spending
a level over looks: K. K. G. Lan, D. L. DeMets, Discrete sequential boundaries for clinical trials, Biometrika
70 (1983) 659-663.
"""

from __future__ import annotations

LOOKS = (1, 4, 12)
"""Trials of each case after which a run looks at what it has."""

SHARES = (0.2, 0.3, 0.5)
"""Share of a level that is spent at each look; together at most 1."""


def level_at(look: int, alpha: float) -> float:
    """Compute the level of the regression tests at a look, so that all looks together stay within `alpha`.

    Args:
        look: Trials of each case at the look; one of LOOKS.
        alpha: The chance of a false alarm over all looks.

    Raises:
        ValueError: There is no such look.

    Example:
        >>> [round(level_at(look, 0.05), 4) for look in LOOKS]
        [0.01, 0.015, 0.025]
    """
    return share_at(look) * alpha


def confidence_at(look: int, confidence: float) -> float:
    """Compute the confidence of the two-sided interval at a look.

    Either end misses at all looks together at most as often as one interval of `confidence` does.

    Args:
        look: Trials of each case at the look; one of LOOKS.
        confidence: That of all looks together, such as 0.95.

    Raises:
        ValueError: There is no such look.

    Example:
        >>> [round(confidence_at(look, 0.95), 4) for look in LOOKS]
        [0.99, 0.985, 0.975]
    """
    return 1 - share_at(look) * (1 - confidence)


def share_at(look: int) -> float:
    """Return the share of a level that is spent at a look, named by its trials of each case.

    Raises:
        ValueError: There is no such look.
    """
    if look not in LOOKS:
        raise ValueError(f"there is no look after {look} trials; looks are after {LOOKS}")
    return SHARES[LOOKS.index(look)]

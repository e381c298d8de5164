"""How well a judge agrees with people: the statistics of two verdicts on the same items.

Rows are the human's verdict, columns the judge's. All intervals are two-sided at 95 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from agent_eval.gate.statistics import Interval, wilson, z_two_sided

LABELS_PER_VERDICT = 30
MOST_WRONG = 3
"""A criterion may block once 30 items that were judged failed and 30 that were judged passed are labelled,
drawn at random within each verdict, with at most 3 of 30 wrong in each. A judge that is right in 95 % of
cases passes this with probability 0.94 for each verdict, one that is right in 80 % with 0.12."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of items by the human's and the judge's verdict.

    Attributes:
        both_passed: Passed by both.
        wrongly_failed: Passed by the human, failed by the judge.
        wrongly_passed: Failed by the human, passed by the judge.
        both_failed: Failed by both.

    Example:
        >>> Confusion(both_passed=30, wrongly_failed=2, wrongly_passed=0, both_failed=28).judged_failed
        30
    """

    both_passed: int = 0
    wrongly_failed: int = 0
    wrongly_passed: int = 0
    both_failed: int = 0

    @property
    def total(self) -> int:
        """All items."""
        return self.both_passed + self.wrongly_failed + self.wrongly_passed + self.both_failed

    @property
    def agreed(self) -> int:
        """Items with the same verdict."""
        return self.both_passed + self.both_failed

    @property
    def judged_failed(self) -> int:
        """Items that the judge failed."""
        return self.wrongly_failed + self.both_failed

    @property
    def judged_passed(self) -> int:
        """Items that the judge passed."""
        return self.both_passed + self.wrongly_passed

    @property
    def may_block(self) -> bool:
        """Whether enough is labelled of each verdict, with few enough errors."""
        enough = min(self.judged_failed, self.judged_passed) >= LABELS_PER_VERDICT
        return (
            enough
            and _few(self.wrongly_failed, self.judged_failed)
            and _few(self.wrongly_passed, self.judged_passed)
        )


def _few(wrong: int, labelled: int) -> bool:
    """Whether the share of errors is at most that of the rule, with more labels too."""
    return wrong * LABELS_PER_VERDICT <= MOST_WRONG * labelled


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; the figure is None where it cannot be estimated.

    Example:
        >>> Estimate(None, Interval(0.0, 1.0)).value is None
        True
    """

    value: float | None
    interval: Interval


def share(count: int, total: int) -> Estimate:
    """Estimate a share with Wilson's interval.

    Example:
        >>> estimate = share(28, 30)
        >>> round(estimate.value, 3), round(estimate.interval.low, 3)
        (0.933, 0.787)
    """
    return Estimate(count / total if total else None, wilson(count, total))


def kappa(confusion: Confusion) -> Estimate:
    """Compute Cohen's kappa, with an interval that covers from 20 items on.

    The standard error is that of J. L. Fleiss, J. Cohen and B. S. Everitt, Large sample standard errors of
    kappa and weighted kappa, Psychological Bulletin 72 (1969) 323-327. With few items it covers far too
    rarely; half an item more in each cell mends that. Where all verdicts are the same, there is no kappa.

    Example:
        >>> estimate = kappa(Confusion(both_passed=28, wrongly_failed=2, wrongly_passed=2, both_failed=28))
        >>> round(estimate.value, 3), round(estimate.interval.low, 2), round(estimate.interval.high, 2)
        (0.867, 0.7, 0.97)
    """
    cells = (
        (confusion.both_passed, confusion.wrongly_failed),
        (confusion.wrongly_passed, confusion.both_failed),
    )
    value = _kappa(cells)[0]
    smoothed, error = _kappa(tuple((a + 0.5, b + 0.5) for a, b in cells))
    assert smoothed is not None
    half = z_two_sided(0.95) * error
    return Estimate(value, Interval(max(-1.0, smoothed - half), min(1.0, smoothed + half)))


_Cells = tuple[tuple[float, float], ...]


def _kappa(cells: _Cells) -> tuple[float | None, float]:
    total = sum(map(sum, cells))
    if not total:
        return None, 1.0
    shares = [[cell / total for cell in row] for row in cells]
    rows = [sum(row) for row in shares]
    columns = [sum(column) for column in zip(*shares, strict=True)]
    observed = shares[0][0] + shares[1][1]
    expected = sum(row * column for row, column in zip(rows, columns, strict=True))
    if expected >= 1.0:
        return None, 1.0
    value = (observed - expected) / (1 - expected)
    of_agreed = sum(shares[i][i] * (1 - (rows[i] + columns[i]) * (1 - value)) ** 2 for i in (0, 1))
    of_others = (1 - value) ** 2 * sum(
        shares[i][j] * (columns[i] + rows[j]) ** 2 for i, j in ((0, 1), (1, 0))
    )
    by_chance = (value - expected * (1 - value)) ** 2
    variance = max(0.0, of_agreed + of_others - by_chance)
    return value, sqrt(variance) / ((1 - expected) * sqrt(total))


def pass_rate(confusion: Confusion, judged_passed: int, judged: int) -> Estimate:
    """Estimate the share of items that people would pass, from labels of each of the judge's verdicts.

    The share that people pass is measured among those that the judge passed and among those that it failed,
    and weighted by how often the judge gives each verdict. So labels may be drawn by verdict, as they are
    where failures are rare; the labels alone, or a correction by the judge's sensitivity, would be wrong.

    Args:
        confusion: The labelled items.
        judged_passed: Number of all items that the judge passed, labelled or not.
        judged: Number of all items that the judge passed or failed.

    Example:
        >>> round(pass_rate(Confusion(29, 6, 1, 24), judged_passed=160, judged=200).value, 3)
        0.794
    """
    if not judged:
        return Estimate(None, Interval(0.0, 1.0))
    rate = judged_passed / judged
    right, of_passed = confusion.both_passed, confusion.judged_passed
    wrong, of_failed = confusion.wrongly_failed, confusion.judged_failed
    # One success and one failure more in each, so that no variance is 0.
    in_passed, in_failed = (right + 1) / (of_passed + 2), (wrong + 1) / (of_failed + 2)
    value = rate * in_passed + (1 - rate) * in_failed
    variance = (
        rate**2 * in_passed * (1 - in_passed) / (of_passed + 2)
        + (1 - rate) ** 2 * in_failed * (1 - in_failed) / (of_failed + 2)
        + (in_passed - in_failed) ** 2 * rate * (1 - rate) / judged
    )
    half = z_two_sided(0.95) * sqrt(variance)
    return Estimate(value, Interval(max(0.0, value - half), min(1.0, value + half)))

"""How well a judge agrees with people. Each case counts once, however many of its trials are labelled.

Trials of a case are alike: counting each as independent makes intervals far too narrow. All intervals are
two-sided at 95 %, with as many observations as there are cases.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import sqrt
from typing import NamedTuple

from agent_eval.gate.statistics import Interval, wilson, z_two_sided

LABELS_PER_VERDICT = 30
MOST_WRONG = 3
"""A criterion may block once 30 cases that were judged failed and 30 that were judged passed are labelled,
drawn at random within each verdict, with at most 3 of 30 wrong in each. A judge that is right in 95 % of
cases passes this with probability 0.94 for each verdict, one that is right in 80 % with 0.12."""


class Labelled(NamedTuple):
    """Two verdicts, each `passed` or `failed`, on one trial of a case: a person's, and the judge's."""

    case_id: str
    human: str
    judge: str


@dataclass(frozen=True, slots=True)
class Confusion:
    """Number of cases by the human's and the judge's verdict; a case is divided over its labelled trials."""

    both_passed: Fraction
    wrongly_failed: Fraction
    wrongly_passed: Fraction
    both_failed: Fraction

    @property
    def cases(self) -> int:
        """All cases."""
        return int(self.both_passed + self.wrongly_failed + self.wrongly_passed + self.both_failed)

    @property
    def right(self) -> Fraction:
        """Cases with the same verdict."""
        return self.both_passed + self.both_failed

    @property
    def earned(self) -> bool:
        """Whether, of one verdict of the judge, enough cases are labelled and few enough wrong."""
        wrong = self.cases - self.right
        return self.cases >= LABELS_PER_VERDICT and wrong * LABELS_PER_VERDICT <= MOST_WRONG * self.cases


def confusion(labelled: Sequence[Labelled], judge: str | None = None) -> Confusion:
    """Count cases by their labelled trials, or by those with one verdict of the judge."""
    rows = [row for row in labelled if judge in (None, row.judge)]
    trials = Counter(row.case_id for row in rows)
    cells: defaultdict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    for row in rows:
        cells[row.human, row.judge] += Fraction(1, trials[row.case_id])
    return Confusion(*(cells[cell] for cell in product(("passed", "failed"), repeat=2)))


def may_block(labelled: Sequence[Labelled]) -> bool:
    """Tell whether enough cases are labelled of each verdict of the judge, with few enough errors."""
    return all(confusion(labelled, verdict).earned for verdict in ("failed", "passed"))


class Estimate(NamedTuple):
    """A figure with its interval; the figure is None where it cannot be estimated."""

    value: float | None
    interval: Interval


def share(right: Fraction, cases: int) -> Estimate:
    """Estimate the mean over cases of the share of right verdicts, with Wilson's interval over the cases."""
    return Estimate(float(right / cases) if cases else None, wilson(right, cases))


def kappa(cells: Confusion) -> float | None:
    """Compute Cohen's kappa; None where all verdicts are the same.

    Source: J. Cohen, A coefficient of agreement for nominal scales, Educational and Psychological Measurement
    20 (1960) 37-46.
    """
    human = (cells.both_passed + cells.wrongly_failed, cells.wrongly_passed + cells.both_failed)
    judge = (cells.both_passed + cells.wrongly_passed, cells.wrongly_failed + cells.both_failed)
    # Times the square of the cases.
    by_chance = human[0] * judge[0] + human[1] * judge[1]
    total = cells.cases**2
    return (
        float((cells.right * cells.cases - by_chance) / (total - by_chance)) if by_chance != total else None
    )


def pass_rate(labelled: Sequence[Labelled], judged_passed: Fraction, judged: int) -> Estimate:
    """Estimate the share of cases that people would pass, from labels of each of the judge's verdicts.

    The share that people pass is measured among those that the judge passed and among those that it failed,
    and weighted by how often the judge gives each verdict: `judged_passed` sums the shares of trials that it
    passed over all `judged` cases, labelled or not. So labels may be drawn by verdict, as they are where
    failures are rare; the labels alone, or a correction by the judge's sensitivity, would be wrong.
    """
    if not judged:
        return Estimate(None, Interval(0.0, 1.0))
    rate = float(judged_passed / judged)
    of_passed, of_failed = confusion(labelled, "passed"), confusion(labelled, "failed")
    # One success and one failure more in each, so that no variance is 0.
    in_passed = float(of_passed.both_passed + 1) / (of_passed.cases + 2)
    in_failed = float(of_failed.wrongly_failed + 1) / (of_failed.cases + 2)
    value = rate * in_passed + (1 - rate) * in_failed
    variance = (
        rate**2 * in_passed * (1 - in_passed) / (of_passed.cases + 2)
        + (1 - rate) ** 2 * in_failed * (1 - in_failed) / (of_failed.cases + 2)
        + (in_passed - in_failed) ** 2 * rate * (1 - rate) / judged
    )
    half = z_two_sided(0.95) * sqrt(variance)
    return Estimate(value, Interval(max(0.0, value - half), min(1.0, value + half)))

"""How well a judge agrees with people. Each case counts once, however many of its trials are labelled.

Trials of a case are alike: counting each as independent would make intervals far too narrow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import NamedTuple

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

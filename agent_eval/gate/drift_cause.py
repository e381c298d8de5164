"""The cause of a loss: what the released agent, run again night by night, shows of the model and the code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import floor, log2

from agent_eval.gate.drift import FELL_AT, Cause, Counted, together, what_moved

ENOUGH_TRIALS = 140
"""Trials of the released agent at which a fall of ten points is likely shown."""
EARLY_SHARE = 0.2
"""Share of the 5 % that is spent on fewer trials than these: they show a large fall."""
_QUESTIONS = 2
"""Did the model move, and did the code: both share the 5 %."""


@dataclass(frozen=True, slots=True)
class KnownLoss:
    """A loss that is not yet mended, with the trials that show whose doing it is.

    The released agent is tested whenever its trials have doubled, each time at a part of the 5 %
    (`level_at`). So at most 5 % of the losses are ever blamed on the wrong part, however long they last.

    Example:
        >>> loss = KnownLoss().with_night(Counted(142, 144), Counted(120, 144), cases="9be1f04c")
        >>> loss.tested(release=Counted(560, 576)).cause
        'code'

    Attributes:
        again: Trials of the released agent since the loss was shown.
        branch: Trials of the base branch in the same nights, but for the one that showed the loss: it was
            chosen for its misses.
        tested_at: Trials of the released agent at the last test; 0 before the first.
        cause: What was shown so far; it stays until the loss is mended.
        cases: Digest of the cases of which these are the trials.
    """

    again: Counted = field(default_factory=lambda: Counted(0, 0))
    branch: Counted = field(default_factory=lambda: Counted(0, 0))
    tested_at: int = 0
    cause: Cause = "unclear"
    cases: str = ""

    def with_night(self, again: Counted, branch: Counted, cases: str) -> KnownLoss:
        """Add a night's trials.

        Where the cases are others than before, their trials are dropped. What these have shown stays, and so
        does what they have spent of the 5 %.
        """
        if cases != self.cases:
            return replace(self, again=again, branch=branch, cases=cases)
        return replace(self, again=together([self.again, again]), branch=together([self.branch, branch]))

    def tested(self, release: Counted) -> KnownLoss:
        """Test what moved, where the trials have doubled since the last test.

        Args:
            release: Trials of the released agent, in the same cases, when it was released.
        """
        trials = self.again.scored
        if not trials or trials < 2 * self.tested_at:
            return self
        cause = what_moved(release, self.again, self.branch, level=level_at(trials))
        return replace(self, tested_at=trials, cause=_joined(self.cause, cause))


def level_at(trials: int) -> float:
    """Compute the level of each of the two tests at so many trials of the released agent, at least one.

    It depends on the number of trials alone: from 140 on it halves whenever they double, and below 140
    whenever they halve. So tests whose trials double spend 5 % together at most, whatever their numbers.

    Example:
        >>> [round(100 * level_at(trials), 3) for trials in (36, 72, 144, 288)]
        [0.125, 0.25, 1.0, 0.5]
    """
    doubled = floor(log2(trials / ENOUGH_TRIALS))
    spent = EARLY_SHARE * 2.0**doubled if doubled < 0 else (1 - EARLY_SHARE) / 2.0 ** (doubled + 1)
    return FELL_AT * spent / _QUESTIONS


def _joined(before: Cause, newest: Cause) -> Cause:
    if "unclear" in (before, newest):
        return before if newest == "unclear" else newest
    return newest if before == newest else "both"

"""What would settle a decision that is open: more cases, or more trials of the cases that there are.

More trials take away only what chance adds within a case. What differs between the cases stays, however often
each is run: where a change made some of them better and others worse, only more cases show whether it lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from agent_eval.contracts import GateDecision, GateEvidence, TrialChange, TrialComparison, TrialCount
from agent_eval.gate.looks import LOOKS
from agent_eval.gate.power import mean_non_inferiority_power, mean_power

MOST_TRIALS = 50
"""Trials of each case beyond which none are advised: cases are cheaper by then."""
POWER = 0.8
"""The chance that what is advised settles a decision, if the rates stay as they are."""


@dataclass(frozen=True)
class Spread:
    """The mean square of what cases fell by, in two parts that add up.

    Example:
        >>> Spread(between=0.0, within=0.04).after(4)
        0.1

    Attributes:
        between: What differs between the cases, which no number of trials takes away.
        within: What chance adds with one trial of each case in either run.
    """

    between: float
    within: float

    def after(self, trials: int) -> float:
        """Return the standard deviation between cases with so many trials of each in either run."""
        return sqrt(self.between + self.within / trials)


def trials_to_settle(trials: TrialComparison | None, decision: GateDecision) -> int | None:
    """Find the fewest trials of each case, in both runs, that settle an open decision; None where none do.

    None as well where it cannot be told: with one trial of each case nothing says what chance adds.

    Args:
        trials: The trials that were compared.
        decision: Inconclusive; its evidence says how many cases there are, the interval and the margin.
    """
    evidence = decision.evidence
    if evidence is None or evidence.trials is None or trials is None or not evidence.paired:
        return None
    if evidence.pooled is not None:
        return None
    spread = _spread(list(_changes(trials, decision)), evidence.paired)
    return next(
        (number for number in _numbers(evidence) if _settles(evidence, spread.after(number))),
        None,
    )


def may_trials_settle(evidence: GateEvidence) -> bool:
    """Tell whether more trials could settle a decision on one trial of each case.

    They could if all that differs were chance, which one trial does not tell.
    """
    if evidence.trials is not None or evidence.pooled is not None or not evidence.paired:
        return False
    within = (evidence.regressed + evidence.fixed) / evidence.paired
    return _settles(evidence, Spread(0.0, within).after(LOOKS[-1]))


def _numbers(evidence: GateEvidence) -> Sequence[int]:
    """List the numbers of trials beyond those that there are; a run that looks at them takes no others."""
    now = 0 if evidence.trials is None else evidence.trials.candidate_most
    if evidence.looks is not None:
        return [number for number in LOOKS if number > now]
    return range(now + 1, MOST_TRIALS + 1)


def _settles(evidence: GateEvidence, spread: float) -> bool:
    """Tell whether cases that fall as much as now, and differ so much, settle the decision."""
    alpha = 1 / evidence.stop_at
    if evidence.drop >= evidence.margin:
        return mean_power(evidence.drop, spread, evidence.paired, alpha) >= POWER
    to_rule_out = evidence.margin - max(evidence.drop, 0.0)
    return mean_non_inferiority_power(to_rule_out, spread, evidence.paired, evidence.confidence) >= POWER


def _changes(trials: TrialComparison, decision: GateDecision) -> Iterator[TrialChange]:
    """Yield what the tests count of the cases: no quarantined one, and no fall that a waiver covers."""
    for change in trials.changes:
        if change.judge_id is not None or change.case_id in decision.quarantined_case_ids:
            continue
        if not change.baseline.judged or not change.candidate.judged:
            continue
        if change.case_id not in decision.waived_case_ids or _drop(change) <= 0:
            yield change


def _drop(change: TrialChange) -> float:
    return change.baseline.passed / change.baseline.judged - change.candidate.passed / change.candidate.judged


def _spread(changes: Sequence[TrialChange], total: int) -> Spread:
    seen = fsum(_drop(change) ** 2 for change in changes) / total
    by_side = [_of_a_trial(change) for change in changes]
    noise = (
        fsum(
            before / change.baseline.judged + now / change.candidate.judged
            for change, (before, now) in zip(changes, by_side, strict=True)
        )
        / total
    )
    return Spread(max(0.0, seen - noise), fsum(before + now for before, now in by_side) / total)


def _of_a_trial(change: TrialChange) -> tuple[float, float]:
    """Estimate without bias how much one trial of a case varies, before and now.

    A side with one trial says nothing of that and takes what the other says; two of them count as none.
    """
    sides = (change.baseline, change.candidate)
    known = [_variance(side) for side in sides if side.judged > 1]
    if not known:
        return 0.0, 0.0
    before, now = (_variance(side) if side.judged > 1 else known[0] for side in sides)
    return before, now


def _variance(side: TrialCount) -> float:
    return side.passed * (side.judged - side.passed) / (side.judged * (side.judged - 1))

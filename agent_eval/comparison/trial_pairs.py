"""Several trials: how each case's pass rate moved, and what that shows. A case is a cluster of its trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, sqrt

from agent_eval.comparison.excuses import Excuses
from agent_eval.comparison.pairs import CASES, NOTABLE_DROP, Statistics, judge_key
from agent_eval.comparison.permutation import TrialPair, permutation_test
from agent_eval.comparison.power import mean_cases_needed, mean_non_inferiority_cases, mean_power
from agent_eval.comparison.statistics import clustered_interval, holm_discrete
from agent_eval.contracts import JudgeEvidence, TrialChange, TrialComparison
from agent_eval.contracts.policy import GatePolicy

Moved = Mapping[str, Mapping[str, TrialPair]]
"""Trials of what changed: `CASES` or a judge, then the case id."""


def moved_pairs(trials: TrialComparison, excuses: Excuses) -> Moved:
    """Trials before and now of every case, and of every judge's verdicts on it, that went otherwise.

    What is waived and fell counts as unchanged, what is in quarantine not at all. A judge that had nothing to
    judge on one side says nothing.
    """
    moved: dict[str, dict[str, TrialPair]] = {CASES: {}}
    for change in trials.changes:
        pair = _pair(change)
        if pair is None or change.case_id in excuses.quarantine:
            continue
        if pair.drop > 0 and is_waived(change, excuses):
            continue
        key = CASES if change.judge_id is None else judge_key(change.judge_id)
        moved.setdefault(key, {})[change.case_id] = pair
    return moved


def is_waived(change: TrialChange, excuses: Excuses) -> bool:
    """Whether somebody accepted that a case, or a judge's verdicts on it, pass less often."""
    if change.judge_id is None:
        return change.case_id in excuses.waived_rates
    return (change.case_id, change.judge_id) in excuses.judge_changes


def _pair(change: TrialChange) -> TrialPair | None:
    before, now = change.baseline, change.candidate
    if not before.judged or not now.judged:
        return None
    return TrialPair(before.passed, before.judged, now.passed, now.judged)


def trial_statistics(
    trials: TrialComparison, compared: int, excuses: Excuses, policy: GatePolicy
) -> Statistics:
    """Statistics over the pass rates of `compared` cases."""
    moved = moved_pairs(trials, excuses)
    apart = {change.case_id for change in trials.changes if change.case_id in excuses.quarantine}
    total = compared - len(apart)
    pairs = list(moved[CASES].values())
    drops = [float(pair.drop) for pair in pairs if pair.drop]
    spread = sqrt((fsum(drop * drop for drop in drops) + 2) / (total + 2))
    return Statistics(
        method="sign-flip-clustered" if all(pair.equal for pair in pairs) else "relabel-clustered",
        total=total,
        regressed=sum(drop > 0 for drop in drops),
        fixed=sum(drop < 0 for drop in drops),
        drop=float(sum(pair.drop for pair in pairs) / total) if total else 0.0,
        interval=clustered_interval(drops, total, policy.confidence),
        p_value=permutation_test(pairs).p_value,
        e_value=None,
        power_for_ten_points=mean_power(NOTABLE_DROP, spread, total, policy.alpha) if total else 0.0,
        cases_needed=_cases_needed(drops, total, policy),
        judges=_judges(moved, policy.alpha),
    )


def _judges(moved: Moved, alpha: float) -> list[JudgeEvidence]:
    """One hypothesis for the cases and one for each judge, but none twice; see `pairs`."""
    tested = {
        name: pairs
        for name, pairs in moved.items()
        # With another number of trials every count differs; only a rate that moved is worth a test.
        if name == CASES or (pairs != moved[CASES] and any(pair.drop for pair in pairs.values()))
    }
    names = sorted(tested, key=lambda name: (name != CASES, name))
    tests = [permutation_test(list(tested[name].values())) for name in names]
    significant = holm_discrete([test.p_value for test in tests], [test.attainable for test in tests], alpha)
    return [
        JudgeEvidence(
            judge_id=name,
            regressed=sum(pair.drop > 0 for pair in tested[name].values()),
            fixed=sum(pair.drop < 0 for pair in tested[name].values()),
            p_value=test.p_value,
            significant=found,
        )
        for name, test, found in zip(names, tests, significant, strict=True)
    ]


def _cases_needed(drops: Sequence[float], total: int, policy: GatePolicy) -> int | None:
    """Cases, with as many trials each, that would settle an inconclusive decision; see `pairs`."""
    if not drops:
        return None
    drop = fsum(drops) / total
    # As in the interval, but without the two cases added there, which weigh nothing among that many.
    spread = sqrt(fsum(change * change for change in drops) / total)
    if drop >= policy.effective_margin:
        needed = mean_cases_needed(drop, spread, policy.alpha, policy.power)
    else:
        needed = mean_non_inferiority_cases(policy.effective_margin, spread, policy.confidence, policy.power)
    return max(needed, total + 1)

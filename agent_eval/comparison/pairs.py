"""The statistics of one comparison: discordant pairs of cases and of each judge, and what they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from agent_eval.comparison.excuses import Excuses
from agent_eval.comparison.power import (
    non_inferiority_cases,
    paired_cases_needed,
    paired_power,
)
from agent_eval.comparison.rules import Measured
from agent_eval.comparison.statistics import e_value, holm_discrete, mcnemar, tango_interval
from agent_eval.contracts import Comparison, GateEvidence, JudgeEvidence, Outcome
from agent_eval.contracts.policy import GatePolicy

CASES = "cases"
"""Stands for the case results among the judges."""
NOTABLE_DROP = 0.10
"""The drop whose power is reported."""


@dataclass(frozen=True)
class Discordant:
    """Ids of cases that passed before and do not now, and the reverse."""

    regressed: frozenset[str]
    fixed: frozenset[str]


def discordant_pairs(comparison: Comparison, excuses: Excuses) -> dict[str, Discordant]:
    """Discordant pairs of the case results, under `CASES`, and of each judge that has any, by judge id.

    Waived regressions count as unchanged and quarantined cases not at all. A pair needs both verdicts: a
    judge that had nothing to judge on one side says nothing.
    """
    sides: dict[str, tuple[set[str], set[str]]] = {CASES: (set(), set())}
    for row in comparison.case_regressions:
        if row.case_id in excuses.quarantine:
            continue
        if row.baseline_passed != row.candidate_passed and row.case_id not in excuses.waived:
            sides[CASES][row.candidate_passed].add(row.case_id)
        for change in row.judges:
            before, now = change.baseline, change.candidate
            if None in (before, now) or Outcome.SKIPPED in (before, now):
                continue
            passed_now = now is Outcome.PASSED
            if (before is Outcome.PASSED) != passed_now:
                if (row.case_id, change.judge_id) in excuses.judge_changes:
                    continue
                # A judge may be called like the case results; it then counts under its own key.
                key = change.judge_id if change.judge_id != CASES else f"judge {CASES}"
                sides.setdefault(key, (set(), set()))[passed_now].add(row.case_id)
    return {name: Discordant(frozenset(down), frozenset(up)) for name, (down, up) in sides.items()}


def gate_evidence(
    comparison: Comparison, measured: Measured, excuses: Excuses, policy: GatePolicy
) -> GateEvidence:
    """What the statistical steps of a decision rest on."""
    pairs = discordant_pairs(comparison, excuses)
    regressed, fixed = len(pairs[CASES].regressed), len(pairs[CASES].fixed)
    changed_apart = sum(row.case_id in excuses.quarantine for row in comparison.case_regressions)
    total = measured.compared - changed_apart
    interval = tango_interval(regressed, fixed, total, policy.confidence)
    test = mcnemar(regressed, fixed)
    evidence = e_value(regressed, fixed)
    share = (regressed + fixed) / total if total else 0.0
    return GateEvidence(
        compared=measured.compared,
        paired=total,
        baseline_passed=measured.pair_passed[0],
        candidate_passed=measured.pair_passed[1],
        regressed=regressed,
        fixed=fixed,
        drop=(regressed - fixed) / total if total else 0.0,
        interval_low=interval.low,
        interval_high=interval.high,
        confidence=policy.confidence,
        margin=policy.effective_margin,
        p_value=test.one_sided,
        e_value=evidence if isfinite(evidence) else None,
        stop_at=1 / policy.alpha,
        power_for_ten_points=paired_power(NOTABLE_DROP, share, total, policy.alpha) if total else 0.0,
        cases_needed=_cases_needed(regressed, fixed, total, policy),
        judges=_judges(pairs, policy.alpha),
        errors=comparison.candidate.summary.error_cases,
        new_errors=len(new_error_cases(comparison, excuses)),
        flaky=comparison.candidate.summary.flaky_cases,
        unscored=comparison.candidate.summary.inconclusive_cases + comparison.candidate.summary.skipped_cases,
        waived=len(excuses.waived),
        quarantined=len(excuses.quarantined),
    )


def new_error_cases(comparison: Comparison, excuses: Excuses) -> list[str]:
    """Cases that could be judged in the baseline and cannot now, but for excused ones."""
    return [
        row.case_id
        for row in comparison.case_regressions
        if row.candidate_outcome is Outcome.ERROR
        and row.baseline_outcome is not Outcome.ERROR
        and row.case_id not in excuses.cases
        and row.case_id not in excuses.quarantine
    ]


def _judges(pairs: Mapping[str, Discordant], alpha: float) -> list[JudgeEvidence]:
    """One hypothesis for the cases and one for each judge, but none twice.

    A judge that alone decides the cases has the very same pairs as they; testing both would only halve the
    power.
    """
    tested = {name: pair for name, pair in pairs.items() if name == CASES or pair != pairs[CASES]}
    names = sorted(tested, key=lambda name: (name != CASES, name))
    p_values = [mcnemar(len(tested[name].regressed), len(tested[name].fixed)).one_sided for name in names]
    attainable = [0.5 ** (len(tested[name].regressed) + len(tested[name].fixed)) for name in names]
    significant = holm_discrete(p_values, attainable, alpha)
    return [
        JudgeEvidence(
            judge_id=name,
            regressed=len(tested[name].regressed),
            fixed=len(tested[name].fixed),
            p_value=p,
            significant=found,
        )
        for name, p, found in zip(names, p_values, significant, strict=True)
    ]


def _cases_needed(regressed: int, fixed: int, total: int, policy: GatePolicy) -> int | None:
    """Cases that would settle an inconclusive decision, with the policy's power; None when unknown.

    Where the drop seen is within the margin: to show that nothing changed, if nothing did. Where it is
    beyond: to show that it is real, if it is.
    """
    if not total or not regressed + fixed:
        return None
    share = (regressed + fixed) / total
    drop = (regressed - fixed) / total
    if drop >= policy.effective_margin:
        needed = paired_cases_needed(drop, share, policy.alpha, policy.power)
    else:
        needed = non_inferiority_cases(policy.effective_margin, share, policy.confidence, policy.power)
    return max(needed, total + 1)

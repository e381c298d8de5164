"""Single trials: discordant pairs of cases and of each judge, and what they show."""

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
from agent_eval.comparison.statistics import Interval, e_value, holm_discrete, mcnemar, tango_interval
from agent_eval.contracts import Comparison, JudgeEvidence, Outcome
from agent_eval.contracts.gate import Method
from agent_eval.contracts.policy import GatePolicy

CASES = "cases"
"""Stands for the case results among the judges."""
NOTABLE_DROP = 0.10
"""The drop whose power is reported."""


def judge_key(judge_id: str) -> str:
    """What a judge is listed as: one that is called like the case results gets a name of its own."""
    return judge_id if judge_id != CASES else f"judge {CASES}"


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
                key = judge_key(change.judge_id)
                sides.setdefault(key, (set(), set()))[passed_now].add(row.case_id)
    return {name: Discordant(frozenset(down), frozenset(up)) for name, (down, up) in sides.items()}


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What the cases that changed show; fields as in `GateEvidence`, where most of them end up."""

    method: Method
    total: int
    regressed: int
    fixed: int
    drop: float
    interval: Interval
    p_value: float
    e_value: float | None
    power_for_ten_points: float
    cases_needed: int | None
    judges: list[JudgeEvidence]


def paired_statistics(comparison: Comparison, excuses: Excuses, policy: GatePolicy) -> Statistics:
    """Statistics where each case has one trial on either side."""
    pairs = discordant_pairs(comparison, excuses)
    regressed, fixed = len(pairs[CASES].regressed), len(pairs[CASES].fixed)
    changed_apart = sum(row.case_id in excuses.quarantine for row in comparison.case_regressions)
    total = comparison.cases.compared - changed_apart
    evidence = e_value(regressed, fixed)
    share = (regressed + fixed) / total if total else 0.0
    return Statistics(
        method="mcnemar-tango",
        total=total,
        regressed=regressed,
        fixed=fixed,
        drop=(regressed - fixed) / total if total else 0.0,
        interval=tango_interval(regressed, fixed, total, policy.confidence),
        p_value=mcnemar(regressed, fixed).one_sided,
        e_value=evidence if isfinite(evidence) else None,
        power_for_ten_points=paired_power(NOTABLE_DROP, share, total, policy.alpha) if total else 0.0,
        cases_needed=_cases_needed(regressed, fixed, total, policy),
        judges=_judges(pairs, policy.alpha),
    )


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

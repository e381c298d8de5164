"""Decisions of the gate on drawn runs, through the gate's own steps: what the simulations count.

A comparison is built with the fields that the steps read, and nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

from agent_eval.contracts import (
    CaseRegression,
    ComparedTopic,
    Comparison,
    GateEvidence,
    Outcome,
    RunReference,
    RunSummary,
    TrialChange,
    TrialComparison,
)
from agent_eval.contracts.comparison import CaseSets, TrialCount, TrialSide
from agent_eval.contracts.confirmation import Confirmation, FreshResult, FreshTrials
from agent_eval.contracts.history import PooledCase, PooledRuns
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate import steps
from agent_eval.gate.confirmation import is_settled, judge_suspects, regressed_cases
from agent_eval.gate.confirmation_step import confirmation_step
from agent_eval.gate.decide import status_of
from agent_eval.gate.pooled import pooled_evidence
from agent_eval.gate.rules import Measured
from agent_eval.gate.waivers import Excuses
from benchmarks.population import Counts

PAIRS, MOST_CONFIRMED = 6, 8
"""The defaults of `confirm-pairs` and `max-confirm-cases`."""
ADMITTED, HISTORY = 18, 20
"""A case that passed fewer of its last trials is tracked."""
NO_EXCUSES = Excuses()
Answer = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True)
class Confirmed:
    """What fresh trials said: the step of the decision, and how many trials were spent."""

    answer: Answer
    trials: int


@cache
def case_id(place: int) -> str:
    """Return the id of a case by its place; ids sort by place."""
    return f"{place:04}"


def comparison(
    before: Counts,
    now: Counts,
    *,
    cases: tuple[Counts, Counts] | None = None,
    topics: Sequence[ComparedTopic] = (),
) -> Comparison:
    """Build the comparison of two runs; a case passes where all of its trials do.

    Args:
        before: The baseline.
        now: The candidate.
        cases: The trials of both that the case results are of, where these are not all.
        topics: Topics of the cases.
    """
    several = max(before[0][1], now[0][1]) > 1
    fields = {
        "cases": _NO_CASES.model_copy(update={"compared": len(before)}),
        "case_regressions": changed(*(cases or (before, now))),
        "trials": _trials(before, now) if several else None,
        "topics": list(topics),
    }
    return _EMPTY.model_copy(update=fields)


def changed(before: Counts, now: Counts, *, by_majority: bool = False) -> list[CaseRegression]:
    """List the cases whose result changed: a case passes where all of its trials do, or more than half."""
    rows = (
        _row(place, _passes(*was, by_majority=by_majority), _passes(*is_now, by_majority=by_majority))
        for place, (was, is_now) in enumerate(zip(before, now, strict=True))
    )
    return [row for row in rows if row]


def _passes(passed: int, trials: int, *, by_majority: bool) -> bool:
    return 2 * passed > trials if by_majority else passed == trials


_NO_CASES = CaseSets.model_construct(compared=0)
_NO_ERRORS = RunSummary.model_construct(
    error_cases=0, inconclusive_cases=0, skipped_cases=0, flaky_cases=None
)
_EMPTY = Comparison.model_construct(
    cases=_NO_CASES, candidate=RunReference.model_construct(summary=_NO_ERRORS), failures_apart={}
)
"""A comparison with the fields that the steps read, to be copied: building one takes far longer."""


@cache
def _row(place: int, passed_before: bool, passes_now: bool) -> CaseRegression | None:
    if passed_before == passes_now:
        return None
    return CaseRegression.model_construct(
        case_id=case_id(place),
        baseline_outcome=Outcome.PASSED if passed_before else Outcome.FAILED,
        candidate_outcome=Outcome.PASSED if passes_now else Outcome.FAILED,
        baseline_passed=passed_before,
        candidate_passed=passes_now,
        regressed=passed_before,
        improved=passes_now,
        judges=[],
    )


def _trials(before: Counts, now: Counts) -> TrialComparison:
    pairs = enumerate(zip(before, now, strict=True))
    changes = [_change(place, was, is_now) for place, (was, is_now) in pairs if was != is_now]
    return TrialComparison.model_construct(baseline=_side(before), candidate=_side(now), changes=changes)


@cache
def _change(place: int, was: tuple[int, int], is_now: tuple[int, int]) -> TrialChange:
    return TrialChange.model_construct(
        case_id=case_id(place), judge_id=None, baseline=_count(*was), candidate=_count(*is_now)
    )


def _count(passed: int, trials: int) -> TrialCount:
    return TrialCount.model_construct(passed=passed, failed=trials - passed, judged=trials)


def _side(counts: Counts) -> TrialSide:
    passed, trials = (sum(part) for part in zip(*counts, strict=True))
    rate = sum(a / b for a, b in counts) / len(counts)
    each = counts[0][1]
    counted = {"fewest": each, "most": each, "passed": passed, "total": trials, "pass_rate": rate}
    return _NO_TRIALS.model_copy(update=counted)


_NO_TRIALS = TrialSide.model_construct(fewest=0, most=0, passed=0, errors=0, total=0, pass_rate=0.0)


def evidence(compared: Comparison, policy: GatePolicy) -> GateEvidence:
    """Compute the statistics of a comparison with one run."""
    measured = Measured(
        summary=compared.candidate.summary,
        has_baseline=True,
        compared=compared.cases.compared,
        pair_passed=(0, 0),
    )
    return steps.gate_evidence(compared, measured, NO_EXCUSES, policy)


def answer(
    found: GateEvidence, policy: GatePolicy, pool: PooledRuns | None = None, *, is_any_worse: bool = False
) -> Answer:
    """Decide by the suite, against pooled runs where there are some: regression, then non-inferiority."""
    held = pooled_evidence(found, pool, NO_EXCUSES, policy)
    decided = status_of(
        [steps.regression(held, policy), steps.non_inferiority(held, policy, is_any_worse=is_any_worse)]
    )
    return _as_answer(decided.value)


def _as_answer(status: str) -> Answer:
    for known in ("passed", "failed", "inconclusive"):
        if status == known:
            return known
    raise AssertionError(status)


def pooled(runs: Sequence[Counts], own: Counts) -> PooledRuns:
    """Build the pool of some runs of the base branch, with what a new run has of each case."""
    cases = {
        case_id(place): PooledCase(runs=tuple(each), own=own[place])
        for place, each in enumerate(zip(*runs, strict=True))
    }
    return PooledRuns(run_ids=tuple(f"run-{number}" for number in range(len(runs))), cases=cases)


def confirm(
    source: Random,
    compared: Comparison,
    rates: tuple[Sequence[float], Sequence[float]],
    policy: GatePolicy,
    history: Sequence[int] | None = None,
) -> Confirmed:
    """Run the suspects of a comparison again by both agents, until each is settled, and decide on them.

    Args:
        source: Of randomness.
        compared: The first run, compared with the baseline.
        rates: How often each case passes today, by the candidate and by the merge base's agent.
        policy: Of the gate.
        history: Of the last HISTORY trials of each case, how many passed; the policy then tracks each case
            with fewer than ADMITTED, which is no suspect. None where there is no history.
    """
    flaky = (place for place, passed in enumerate(history or ()) if passed < ADMITTED)
    excuses = Excuses(tracked=frozenset(map(case_id, flaky)))
    asked = regressed_cases(compared, excuses, policy)
    run = [
        fresh(source, one, rates[0][int(one)], rates[1][int(one)], policy) for one in asked[:MOST_CONFIRMED]
    ]
    if history is not None:
        counted = [{"history_passed": history[int(one)], "history_scored": HISTORY} for one in asked]
        run = [one.model_copy(update=seen) for one, seen in zip(run, counted, strict=False)]
    record = Confirmation(pairs=PAIRS, max_cases=MOST_CONFIRMED, cases=run)
    step = confirmation_step(judge_suspects(asked, record, policy.alpha), record)
    spent = sum(len(trials.candidate) + len(trials.base) for trials in run)
    return Confirmed("passed" if step.status == "not-applied" else _as_answer(step.status), spent)


def fresh(source: Random, one: str, now: float, before: float, policy: GatePolicy) -> FreshTrials:
    """Run a case again in pairs until it is settled."""
    trials = FreshTrials(case_id=one)
    while not is_settled(trials, PAIRS, policy.alpha):
        for side, rate in ((trials.candidate, now), (trials.base, before)):
            result: FreshResult = "passed" if source.random() < rate else "failed"
            side.append(result)
            failing = [] if result == "passed" else ["judge"]
            (trials.candidate_failing if side is trials.candidate else trials.base_failing).append(failing)
    return trials

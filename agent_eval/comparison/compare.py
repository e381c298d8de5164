"""Compare a candidate run with a baseline run."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.comparison.behaviour import (
    Differences,
    Traces,
    behaviour_change,
    changed_cases,
    differences,
)
from agent_eval.comparison.clusters import failure_clusters, triage
from agent_eval.comparison.compatibility import Changed, check, partition, select
from agent_eval.comparison.deltas import (
    Pair,
    case_metrics,
    judge_metrics,
    regression_sentences,
    top_regressed_judges,
)
from agent_eval.comparison.facts import run_facts
from agent_eval.comparison.impact import Balance, Risk, release_impact, risk_level
from agent_eval.comparison.regressions import case_regressions, new_hard_fail
from agent_eval.comparison.shifts import run_behaviour
from agent_eval.comparison.view import RunView
from agent_eval.contracts import BehaviourChange, CaseRegression, Comparison, FailureClusters, Overview
from agent_eval.errors import NothingMeasured


def compare(
    baseline: RunView,
    candidate: RunView,
    *,
    changed: Changed,
    generated_at: str,
    traces: Traces | None = None,
    detail_limit: int = 200,
) -> Comparison:
    """Everything that changed from `baseline` to `candidate`.

    Args:
        baseline: The earlier run.
        candidate: The run to be judged.
        changed: What to do when the runs did not evaluate the same cases; see `Changed`. A different
            dataset is compared with `include` only.
        generated_at: ISO 8601 time that the comparison carries.
        traces: Looks up both sides' cases with their traces; called only for cases whose result changed.
        detail_limit: Cases listed in `behaviour_changes`; totals in `behaviour` count all of them.

    Raises:
        IncompatibleRuns: An enforced condition does not hold.
        InvalidInput: A stored result or summary contradicts the verdicts.
        NothingMeasured: A run has no case, or nothing is shared with `include`.

    With `exclude` there may be no case to compare; the gate's relative rules cannot hold then.
    """
    for side, run in (("baseline", baseline), ("candidate", candidate)):
        if not run.results:
            raise NothingMeasured(
                f"the {side} run {run.config.run_id!r} has no case",
                remedy="Evaluate a suite with at least one case.",
            )
    before, now = run_facts(baseline), run_facts(candidate)
    parts = partition(baseline, candidate)
    compatibility = check(baseline, candidate, parts, changed)
    compared, case_sets = select(compatibility, parts, before, changed)
    pairs: dict[str, Pair] = {case_id: (before.cases[case_id], now.cases[case_id]) for case_id in compared}
    rows = case_regressions(pairs, baseline.results, candidate.results)
    metrics = case_metrics(pairs.values())
    judges = judge_metrics(pairs.values())
    clusters = _clusters(pairs, baseline, candidate)
    found = differences(baseline, candidate, compared)
    balance = _balance(pairs, rows)
    overview = _overview(pairs, rows, risk_level(balance), baseline, candidate)
    return Comparison(
        generated_at=generated_at,
        baseline_run_id=baseline.config.run_id,
        candidate_run_id=candidate.config.run_id,
        dataset_id=candidate.config.dataset_id,
        baseline=baseline.reference(),
        candidate=candidate.reference(),
        compatibility=compatibility,
        cases=case_sets,
        metrics=metrics,
        judge_metrics=judges,
        overview=overview,
        case_regressions=rows,
        regressions=regression_sentences(metrics, judges),
        top_regressed_judges=top_regressed_judges(judges),
        new_hard_fail_case_ids=[case_id for case_id, pair in pairs.items() if new_hard_fail(*pair)],
        resolved_hard_fail_case_ids=[
            case_id for case_id, pair in pairs.items() if new_hard_fail(pair[1], pair[0])
        ],
        failure_clusters=clusters,
        triage=triage(clusters),
        release_impact=release_impact(balance),
        behaviour=run_behaviour(baseline, candidate, compared, found, compatibility),
        behaviour_changes=_behaviour_changes(baseline, candidate, found, rows, traces, detail_limit),
    )


def _clusters(pairs: dict[str, Pair], baseline: RunView, candidate: RunView) -> FailureClusters:
    return failure_clusters(
        [case_id for case_id, pair in pairs.items() if pair[0].failing],
        [case_id for case_id, pair in pairs.items() if pair[1].failing],
        baseline.results,
        candidate.results,
    )


def _overview(
    pairs: dict[str, Pair],
    rows: Sequence[CaseRegression],
    risk: Risk,
    baseline: RunView,
    candidate: RunView,
) -> Overview:
    return Overview(
        total_baseline_cases=len(baseline.results),
        total_candidate_cases=len(candidate.results),
        compared_cases=len(pairs),
        regressed_cases=sum(row.regressed for row in rows),
        improved_cases=sum(row.improved for row in rows),
        new_hard_fail_cases=sum(new_hard_fail(*pair) for pair in pairs.values()),
        resolved_hard_fail_cases=sum(new_hard_fail(pair[1], pair[0]) for pair in pairs.values()),
        risk_level=risk,
    )


def _balance(pairs: dict[str, Pair], rows: Sequence[CaseRegression]) -> Balance:
    return Balance(
        compared=len(pairs),
        regressed=sum(row.regressed for row in rows),
        fewer_passed=sum(before.passed - now.passed for before, now in pairs.values()),
        more_hard_failed=sum(now.hard_failed - before.hard_failed for before, now in pairs.values()),
    )


def _behaviour_changes(
    baseline: RunView,
    candidate: RunView,
    found: Differences,
    rows: Sequence[CaseRegression],
    traces: Traces | None,
    detail_limit: int,
) -> list[BehaviourChange]:
    in_full = {row.case_id for row in rows}
    ordered = changed_cases(found, [row.case_id for row in rows])
    return [
        behaviour_change(
            baseline.index[case_id],
            candidate.index[case_id],
            traces(case_id) if traces is not None and case_id in in_full else None,
        )
        for case_id in ordered[:detail_limit]
    ]

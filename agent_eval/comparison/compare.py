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
from agent_eval.comparison.trial_rates import compare_trials
from agent_eval.comparison.view import RunView
from agent_eval.contracts import BehaviourChange, CaseRegression, Comparison, FailureClusters, Overview
from agent_eval.errors import NothingMeasured

DETAIL_LIMIT = 200
"""Cases of which a comparison says how the behaviour changed. Those whose result changed come first."""


def compare(
    baseline: RunView,
    candidate: RunView,
    *,
    changed: Changed,
    generated_at: str,
    traces: Traces | None = None,
    detail_limit: int = DETAIL_LIMIT,
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
    _refuse_empty(baseline, candidate)
    before, now = run_facts(baseline), run_facts(candidate)
    parts = partition(baseline, candidate)
    compatibility = check(baseline, candidate, parts, changed)
    compared, case_sets = select(compatibility, parts, before, changed)
    both = _Both(
        baseline, candidate, {case_id: (before.cases[case_id], now.cases[case_id]) for case_id in compared}
    )
    metrics, judges = case_metrics(both.pairs.values()), judge_metrics(both.pairs.values())
    found = differences(baseline, candidate, compared)
    clusters = both.clusters()
    balance = both.balance()
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
        overview=both.overview(risk_level(balance)),
        case_regressions=both.rows,
        regressions=regression_sentences(metrics, judges),
        top_regressed_judges=top_regressed_judges(judges),
        new_hard_fail_case_ids=both.new_hard_fails,
        resolved_hard_fail_case_ids=both.resolved_hard_fails,
        failure_clusters=clusters,
        triage=triage(clusters),
        release_impact=release_impact(balance),
        behaviour=run_behaviour(baseline, candidate, compared, found, compatibility),
        behaviour_changes=_behaviour_changes(baseline, candidate, found, both.rows, traces, detail_limit),
        trials=compare_trials(compared, baseline.results, candidate.results),
    )


def _refuse_empty(baseline: RunView, candidate: RunView) -> None:
    for side, run in (("baseline", baseline), ("candidate", candidate)):
        if not run.results:
            raise NothingMeasured(
                f"the {side} run {run.config.run_id!r} has no case",
                remedy="Evaluate a suite with at least one case.",
            )


class _Both:
    """The compared cases in both runs, and what follows from them.

    Attributes:
        pairs: Case id to its facts in the baseline and in the candidate, sorted by id.
        rows: The cases that changed.
    """

    def __init__(self, baseline: RunView, candidate: RunView, pairs: dict[str, Pair]) -> None:
        self.baseline, self.candidate, self.pairs = baseline, candidate, pairs
        self.rows = case_regressions(pairs, baseline.results, candidate.results)
        self.new_hard_fails = [case_id for case_id, pair in pairs.items() if new_hard_fail(*pair)]
        self.resolved_hard_fails = [
            case_id for case_id, (before, now) in pairs.items() if new_hard_fail(now, before)
        ]

    def clusters(self) -> FailureClusters:
        """Failures by judge and reason."""
        return failure_clusters(
            [case_id for case_id, pair in self.pairs.items() if pair[0].failing],
            [case_id for case_id, pair in self.pairs.items() if pair[1].failing],
            self.baseline.results,
            self.candidate.results,
        )

    def overview(self, risk: Risk) -> Overview:
        """The comparison in numbers of cases."""
        return Overview(
            total_baseline_cases=len(self.baseline.results),
            total_candidate_cases=len(self.candidate.results),
            compared_cases=len(self.pairs),
            regressed_cases=sum(row.regressed for row in self.rows),
            improved_cases=sum(row.improved for row in self.rows),
            new_hard_fail_cases=len(self.new_hard_fails),
            resolved_hard_fail_cases=len(self.resolved_hard_fails),
            risk_level=risk,
        )

    def balance(self) -> Balance:
        """What risk and impact are rated by."""
        return Balance(
            compared=len(self.pairs),
            regressed=sum(row.regressed for row in self.rows),
            fewer_passed=sum(before.passed - now.passed for before, now in self.pairs.values()),
            more_hard_failed=sum(now.hard_failed - before.hard_failed for before, now in self.pairs.values()),
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

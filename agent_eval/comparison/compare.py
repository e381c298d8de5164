"""The comparison of a candidate run with a baseline run."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.comparison.behaviour import (
    Differences,
    Traces,
    behaviour_change,
    changed_cases,
    differences,
    run_behaviour,
)
from agent_eval.comparison.changes import Pair, case_regressions, new_hard_fail
from agent_eval.comparison.clusters import failure_clusters, triage
from agent_eval.comparison.compatibility import Changed, check, is_helped, partition, select
from agent_eval.comparison.conversations import CONVERSATIONS_LIMIT, conversation_change
from agent_eval.comparison.facts import CaseOutcome, RunView, case_outcomes
from agent_eval.comparison.judged_twice import JudgedTwice
from agent_eval.comparison.metrics import (
    Balance,
    Risk,
    case_metrics,
    judge_metrics,
    regression_sentences,
    release_impact,
    risk_level,
    top_regressed_judges,
)
from agent_eval.comparison.trials import compare_trials
from agent_eval.contracts import (
    BehaviourChange,
    CaseRegression,
    Comparison,
    FailureClusters,
    NewCases,
    Overview,
    RunBehaviour,
)
from agent_eval.contracts.conversation_change import ConversationChange
from agent_eval.errors import NothingMeasured

DETAIL_LIMIT = 200
"""Maximum cases whose change of behaviour a comparison lists. Those whose result changed come first."""


def compare(
    baseline: RunView,
    candidate: RunView,
    *,
    changed: Changed,
    generated_at: str,
    traces: Traces | None = None,
    detail_limit: int = DETAIL_LIMIT,
    judged_twice: JudgedTwice | None = None,
) -> Comparison:
    """Compare two runs: list everything that changed from `baseline` to `candidate`.

    More than six parameters: most have a default, and each switches one thing.

    Args:
        baseline: The earlier run.
        candidate: The later run, on which the gate will decide.
        changed: What to do about cases that differ between the runs (`Changed`). Runs of different datasets
            are compared with `include` only.
        generated_at: ISO 8601 time of the comparison.
        traces: Function that returns a case with its trace in both runs; called only for cases whose result
            changed.
        detail_limit: Maximum cases in `behaviour_changes`; the totals in `behaviour` count all cases.
        judged_twice: Results by the other run's definitions and judges; None where nothing differs, or where
            a case that does is not to be compared.

    Raises:
        IncompatibleRuns: An enforced condition does not hold.
        InvalidInput: A stored result or summary contradicts the verdicts.
        NothingMeasured: A run has no case, or the runs share none with `include`.

    With `exclude` no case may remain to be compared; then the relative rules of the gate cannot hold.
    """
    _refuse_empty(baseline, candidate)
    before, now = case_outcomes(baseline), case_outcomes(candidate)
    parts = partition(baseline, candidate)
    compatibility = check(baseline, candidate, parts, changed)
    twice = judged_twice or JudgedTwice()
    compared, case_sets = select(compatibility, parts, before, changed, judged_twice=twice.baseline)
    todays = twice.outcomes(before, now)
    views = twice.todays(baseline, candidate)
    runs = _ComparedRuns(*views, {case_id: (todays[0][case_id], todays[1][case_id]) for case_id in compared})
    metrics, judges = case_metrics(runs.pairs.values()), judge_metrics(runs.pairs.values())
    differing_cases = differences(baseline, candidate, compared)
    clusters = runs.clusters()
    balance = runs.balance()
    behaviour, conversations = _changes_by_case(
        baseline, candidate, differing_cases, runs.rows, traces, detail_limit
    )
    trials = compare_trials(compared, views[0].results, views[1].results)
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
        overview=runs.overview(risk_level(balance)),
        case_regressions=runs.rows,
        regressions=regression_sentences(metrics, judges),
        top_regressed_judges=top_regressed_judges(judges),
        new_hard_fail_case_ids=runs.new_hard_fails,
        resolved_hard_fail_case_ids=runs.resolved_hard_fails,
        failure_clusters=clusters,
        triage=triage(clusters),
        release_impact=release_impact(balance),
        behaviour=_with_notices(
            run_behaviour(baseline, candidate, compared, differing_cases, compatibility), twice.notices()
        ),
        behaviour_changes=behaviour,
        conversations=conversations,
        trials=trials,
        new_expectations=twice.new_expectations(before, todays),
        more_help=is_helped(baseline.config, candidate.config),
        new_cases=_new_cases([now[case_id] for case_id in case_sets.new]),
    )


def _new_cases(outcomes: Sequence[CaseOutcome]) -> NewCases:
    return NewCases(
        cases=len(outcomes),
        passed=sum(outcome.passed for outcome in outcomes),
        hard_failed=sum(outcome.hard_failed for outcome in outcomes),
    )


def _with_notices(behaviour: RunBehaviour, notices: list[str]) -> RunBehaviour:
    return behaviour.model_copy(update={"notices": [*notices, *behaviour.notices]}) if notices else behaviour


def _refuse_empty(baseline: RunView, candidate: RunView) -> None:
    for side, run in (("baseline", baseline), ("candidate", candidate)):
        if not run.results:
            raise NothingMeasured(
                f"the {side} run {run.config.run_id!r} has no case",
                remedy="Evaluate a suite with at least one case.",
            )


class _ComparedRuns:
    """The compared cases of both runs, and the parts of a comparison that follow from them.

    Attributes:
        pairs: Outcomes in the baseline and in the candidate by case id, sorted by id.
        rows: Cases that changed.
    """

    def __init__(self, baseline: RunView, candidate: RunView, pairs: dict[str, Pair]) -> None:
        self.baseline, self.candidate, self.pairs = baseline, candidate, pairs
        self.rows = case_regressions(pairs, baseline.results, candidate.results)
        self.new_hard_fails = [case_id for case_id, pair in pairs.items() if new_hard_fail(*pair)]
        self.resolved_hard_fails = [
            case_id for case_id, (before, now) in pairs.items() if new_hard_fail(now, before)
        ]

    def clusters(self) -> FailureClusters:
        """Cluster the failures by judge and reason."""
        return failure_clusters(
            [case_id for case_id, pair in self.pairs.items() if pair[0].failing],
            [case_id for case_id, pair in self.pairs.items() if pair[1].failing],
            self.baseline.results,
            self.candidate.results,
        )

    def overview(self, risk: Risk) -> Overview:
        """Count the cases by how they changed."""
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
        """Count what `risk_level` and `release_impact` rate."""
        return Balance(
            compared=len(self.pairs),
            regressed=sum(row.regressed for row in self.rows),
            fewer_passed=sum(before.passed - now.passed for before, now in self.pairs.values()),
            more_hard_failed=sum(now.hard_failed - before.hard_failed for before, now in self.pairs.values()),
        )


def _changes_by_case(
    baseline: RunView,
    candidate: RunView,
    differing_cases: Differences,
    rows: Sequence[CaseRegression],
    traces: Traces | None,
    detail_limit: int,
) -> tuple[list[BehaviourChange], list[ConversationChange]]:
    """Describe how the behaviour of cases changed, and conversations whose result changed turn by turn."""
    with_traces = {row.case_id for row in rows}
    ordered = changed_cases(differing_cases, [row.case_id for row in rows])
    changes: list[BehaviourChange] = []
    conversations: list[ConversationChange] = []
    for case_id in ordered[:detail_limit]:
        cases = traces(case_id) if traces is not None and case_id in with_traces else None
        changes.append(behaviour_change(baseline.index[case_id], candidate.index[case_id], cases))
        if cases is not None and len(conversations) < CONVERSATIONS_LIMIT:
            change = conversation_change(cases, baseline.results[case_id], candidate.results[case_id])
            conversations += [change] if change is not None else []
    return changes, conversations

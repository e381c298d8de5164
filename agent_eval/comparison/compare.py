"""The comparison of a candidate run with a baseline run. Pure: no files, no clock."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_eval.comparison.behaviour import Differences, Traces, behaviour_change, run_behaviour
from agent_eval.comparison.clusters import failure_clusters, triage
from agent_eval.comparison.compatibility import check, is_helped, partition, select
from agent_eval.comparison.conversations import CONVERSATIONS_LIMIT, conversation_change
from agent_eval.comparison.facts import FAILURES, CaseOutcome, RunView, cut, outcomes_of
from agent_eval.comparison.results import (
    Balance,
    Pair,
    Results,
    case_metrics,
    case_regressions,
    compare_trials,
    judge_metrics,
    new_hard_fail,
    regression_sentences,
    release_impact,
    risk_level,
    top_regressed_judges,
)
from agent_eval.contracts import (
    CaseResultRow,
    CaseSets,
    Comparison,
    Compatibility,
    NewCases,
    Outcome,
    Overview,
)
from agent_eval.errors import NothingMeasured
from agent_eval.text.numbers import count, verb

DETAIL_LIMIT = 200
"""Maximum cases whose change of behaviour a comparison lists. Those whose result changed come first."""

IDS_NAMED = 3
"""Cases that a notice names."""

Outcomes = Mapping[str, CaseOutcome]
"""Outcomes by case id."""


@dataclass(frozen=True, kw_only=True)
class JudgedTwice:
    """Cases that both runs are judged on by the same definitions, judges and case policy.

    Attributes:
        baseline: Results of the baseline's trajectories by today's definitions and judges, by case id.
        candidate: Results of the candidate by the judges that could judge both runs, where these are fewer.
        by_baseline: Results of the candidate's trajectories by the baseline's definitions and judges.
        apart: Ids of the judges that cannot judge the stored trajectories, and are not compared.
    """

    baseline: Mapping[str, CaseResultRow] = field(default_factory=dict)
    candidate: Mapping[str, CaseResultRow] = field(default_factory=dict)
    by_baseline: Mapping[str, CaseResultRow] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()

    def notices(self) -> list[str]:
        """Say which results are not those that the runs stored, in sentences for the top of a report."""
        sentences = []
        if self.baseline:
            cases = count(len(self.baseline), "case")
            sentences.append(f"The baseline's results of {cases} are by today's definitions and judges.")
        if self.apart:
            names = ", ".join(sorted(self.apart))
            sentences.append(f"Not compared, as it cannot judge the baseline's stored trajectories: {names}.")
        return sentences

    def new_expectations(self, before: Outcomes, todays: tuple[Outcomes, Outcomes]) -> dict[str, list[str]]:
        """Find the judges by whose old expectation a case got worse, and by whose new one it did not.

        `before` is how the baseline was judged; `todays` is how both runs are judged today.
        """
        hidden = {}
        for case_id, now in outcomes_of(self.by_baseline).items():
            worse = _worse(before[case_id], now) - _worse(todays[0][case_id], todays[1][case_id])
            if worse:
                hidden[case_id] = sorted(worse)
        return hidden


def _worse(before: CaseOutcome, now: CaseOutcome) -> set[str]:
    """Collect the judges that passed a case and cannot tell now, or newly fail it."""
    unsure = Outcome.PASSED.value, Outcome.INCONCLUSIVE.value
    return {
        judge_id
        for judge_id, outcome in now.judges.items()
        if (was := before.judges.get(judge_id)) is not None
        and ((outcome in FAILURES and was not in FAILURES) or (was, outcome) == unsure)
    }


def compare(
    baseline: RunView,
    candidate: RunView,
    *,
    generated_at: str,
    allow_incompatible: bool = False,
    traces: Traces | None = None,
    detail_limit: int = DETAIL_LIMIT,
    judged_twice: JudgedTwice | None = None,
) -> Comparison:
    """Compare two runs: list everything that changed from `baseline` to `candidate`.

    More than six parameters: most have a default, and each switches one thing.

    Args:
        baseline: The earlier run.
        candidate: The later run, on which the gate will decide.
        generated_at: ISO 8601 time of the comparison.
        allow_incompatible: Whether to compare every case id that both runs have, also of different datasets.
            Otherwise cases that ask something else are listed and left out.
        traces: Called only for cases whose result changed; returns a case with its trace in both runs.
        detail_limit: Maximum cases in `behaviour_changes`; the totals in `behaviour` count all cases.
        judged_twice: Results by the other run's definitions and judges; None where nothing differs, or where
            a case that does is not to be compared.

    Raises:
        IncompatibleRuns: An enforced condition does not hold.
        NothingMeasured: A run has no case, or the runs share none and all were to be compared.

    No case may remain to be compared; then the relative rules of the gate cannot hold.
    """
    runs = baseline, candidate
    for side, run in zip(("baseline", "candidate"), runs, strict=True):
        if not run.results:
            raise NothingMeasured(
                f"the {side} run {run.config.run_id!r} has no case",
                remedy="Evaluate a suite with at least one case.",
            )
    before, now = outcomes_of(baseline.results), outcomes_of(candidate.results)
    parts = partition(*runs)
    compatibility = check(*runs, parts, allow_incompatible=allow_incompatible)
    twice = judged_twice or JudgedTwice()
    compared, case_sets = select(
        compatibility,
        parts,
        before,
        allow_incompatible=allow_incompatible,
        judged_twice=twice.baseline,
    )
    todays = before | outcomes_of(twice.baseline), now | outcomes_of(twice.candidate)
    pairs = {case_id: (todays[0][case_id], todays[1][case_id]) for case_id in compared}
    # Only read; a case that is judged twice is read as it is judged today.
    results: tuple[Results, Results] = (
        ChainMap(dict(twice.baseline), baseline.results),  # type: ignore[arg-type]
        ChainMap(dict(twice.candidate), candidate.results),  # type: ignore[arg-type]
    )
    comparison = _of_results(runs, results, pairs, (compatibility, case_sets), generated_at)
    differing = Differences.between(*runs, compared)
    notices = [*_other_ids(baseline.other_ids), *twice.notices()]
    comparison.behaviour = run_behaviour(runs, compared, differing, compatibility, notices)
    _add_details(comparison, runs, differing, traces, detail_limit)
    comparison.trials = compare_trials(compared, *results)
    comparison.new_expectations = twice.new_expectations(before, todays)
    comparison.more_help = is_helped(baseline.config, candidate.config)
    new = [now[case_id] for case_id in case_sets.new]
    passed, hard_failed = sum(case.passed for case in new), sum(case.hard_failed for case in new)
    comparison.new_cases = NewCases(cases=len(new), passed=passed, hard_failed=hard_failed)
    return comparison


def _other_ids(baseline: Mapping[str, str]) -> list[str]:
    """Say of which cases the baseline's are that have another id there."""
    if not baseline:
        return []
    cases = f"{count(len(baseline), 'case')} {verb(len(baseline), 'has', 'have')} another id in the baseline"
    listed = [f"{cut(now, 60)} was {cut(stored, 60)}" for now, stored in sorted(baseline.items())[:IDS_NAMED]]
    more = f" and {len(baseline) - IDS_NAMED:,} more" if len(baseline) > IDS_NAMED else ""
    return [f"{cases}, with the same input: {', '.join(listed)}{more}."]


def _add_details(
    comparison: Comparison,
    runs: tuple[RunView, RunView],
    differing: Differences,
    traces: Traces | None,
    most: int,
) -> None:
    """Add how single cases behave otherwise, and what was said otherwise where their result changed."""
    baseline, candidate = runs
    with_traces = {row.case_id: None for row in comparison.case_regressions}
    for case_id in differing.ordered(with_traces)[:most]:
        cases = traces(case_id) if traces is not None and case_id in with_traces else None
        change = behaviour_change(baseline.index[case_id], candidate.index[case_id], cases)
        comparison.behaviour_changes.append(change)
        if cases is not None and len(comparison.conversations) < CONVERSATIONS_LIMIT:
            spoken = conversation_change(cases, baseline.results[case_id], candidate.results[case_id])
            comparison.conversations += [spoken] if spoken is not None else []


def _of_results(
    runs: tuple[RunView, RunView],
    results: tuple[Results, Results],
    pairs: dict[str, Pair],
    conditions: tuple[Compatibility, CaseSets],
    generated_at: str,
) -> Comparison:
    """Make the comparison as far as it follows from outcomes and verdicts."""
    outcomes = [*pairs.values()]
    metrics, judges, balance = case_metrics(outcomes), judge_metrics(outcomes), Balance.of(outcomes)
    rows, clusters = case_regressions(pairs, *results), failure_clusters(pairs, *results)
    new_hard = [case_id for case_id, (was, is_now) in pairs.items() if new_hard_fail(was, is_now)]
    resolved = [case_id for case_id, (was, is_now) in pairs.items() if new_hard_fail(is_now, was)]
    baseline, candidate = runs
    return Comparison(
        generated_at=generated_at,
        baseline_run_id=baseline.config.run_id,
        candidate_run_id=candidate.config.run_id,
        dataset_id=candidate.config.dataset_id,
        baseline=baseline.reference(),
        candidate=candidate.reference(),
        compatibility=conditions[0],
        cases=conditions[1],
        metrics=metrics,
        judge_metrics=judges,
        overview=Overview(
            total_baseline_cases=len(baseline.results),
            total_candidate_cases=len(candidate.results),
            compared_cases=len(pairs),
            regressed_cases=balance.regressed,
            improved_cases=sum(row.improved for row in rows),
            new_hard_fail_cases=len(new_hard),
            resolved_hard_fail_cases=len(resolved),
            risk_level=risk_level(balance),
        ),
        case_regressions=rows,
        regressions=regression_sentences(metrics, judges),
        top_regressed_judges=top_regressed_judges(judges),
        new_hard_fail_case_ids=new_hard,
        resolved_hard_fail_case_ids=resolved,
        failure_clusters=clusters,
        triage=triage(clusters),
        release_impact=release_impact(balance),
    )

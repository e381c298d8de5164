"""The comparison of a candidate run with a baseline run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from agent_eval.comparison.behaviour import (
    Differences,
    Traces,
    behaviour_change,
    changed_cases,
    differences,
    run_behaviour,
)
from agent_eval.comparison.clusters import failure_clusters, triage
from agent_eval.comparison.compatibility import Changed, check, partition, select
from agent_eval.comparison.facts import FAILURES, CaseOutcome, RunView, case_outcomes, cut, regression_key
from agent_eval.comparison.trials import compare_trials
from agent_eval.contracts import (
    BehaviourChange,
    CaseRegression,
    CaseResultRow,
    Comparison,
    FailureClusters,
    JudgeChange,
    Metric,
    Outcome,
    Overview,
    ReleaseImpact,
    VerdictRow,
)
from agent_eval.errors import NothingMeasured
from agent_eval.text.numbers import differing, percent

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
) -> Comparison:
    """Compare two runs: list everything that changed from `baseline` to `candidate`.

    Args:
        baseline: The earlier run.
        candidate: The later run, on which the gate will decide.
        changed: What to do about cases that differ between the runs (`Changed`). Runs of different datasets
            are compared with `include` only.
        generated_at: ISO 8601 time of the comparison.
        traces: Function that returns a case with its trace in both runs; called only for cases whose result
            changed.
        detail_limit: Maximum cases in `behaviour_changes`; the totals in `behaviour` count all cases.

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
    compared, case_sets = select(compatibility, parts, before, changed)
    runs = _ComparedRuns(
        baseline, candidate, {case_id: (before[case_id], now[case_id]) for case_id in compared}
    )
    metrics, judges = case_metrics(runs.pairs.values()), judge_metrics(runs.pairs.values())
    differing_cases = differences(baseline, candidate, compared)
    clusters = runs.clusters()
    balance = runs.balance()
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
        behaviour=run_behaviour(baseline, candidate, compared, differing_cases, compatibility),
        behaviour_changes=_behaviour_changes(
            baseline, candidate, differing_cases, runs.rows, traces, detail_limit
        ),
        trials=compare_trials(compared, baseline.results, candidate.results),
    )


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


def _behaviour_changes(
    baseline: RunView,
    candidate: RunView,
    differing_cases: Differences,
    rows: Sequence[CaseRegression],
    traces: Traces | None,
    detail_limit: int,
) -> list[BehaviourChange]:
    with_traces = {row.case_id for row in rows}
    ordered = changed_cases(differing_cases, [row.case_id for row in rows])
    return [
        behaviour_change(
            baseline.index[case_id],
            candidate.index[case_id],
            traces(case_id) if traces is not None and case_id in with_traces else None,
        )
        for case_id in ordered[:detail_limit]
    ]


REASON_LIMIT = 1_000
"""Maximum characters of a judge's reason in a comparison; the pack has all of it."""


def new_hard_fail(before: CaseOutcome, now: CaseOutcome) -> bool:
    """Tell whether a case hard-fails now and did not before."""
    return now.hard_failed and not before.hard_failed


def is_regressed(before: CaseOutcome, now: CaseOutcome) -> bool:
    """Tell whether a case passed before and does not now, or is a new hard fail."""
    return (before.passed and not now.passed) or new_hard_fail(before, now)


def is_improved(before: CaseOutcome, now: CaseOutcome) -> bool:
    """Tell whether a case would be regressed in the other direction, and is not regressed."""
    return is_regressed(now, before) and not is_regressed(before, now)


def case_regressions(
    pairs: Mapping[str, Pair],
    baseline: Mapping[str, CaseResultRow],
    candidate: Mapping[str, CaseResultRow],
) -> list[CaseRegression]:
    """List every case whose result or whose judges' outcomes changed.

    Regressed cases come first, those with a new hard fail before the others; then improved cases; then cases
    that fail in another way than before. Each group is sorted by case id.
    """
    rows = [
        _row(case_id, pair, baseline[case_id], candidate[case_id])
        for case_id, pair in pairs.items()
        # Outcomes are shared objects, so the identity check already skips most unchanged cases.
        if pair[0] is not pair[1] and pair[0] != pair[1]
    ]
    return sorted(rows, key=_order)


def _order(row: CaseRegression) -> tuple[bool, bool, bool, str]:
    hard = row.candidate_hard_failed and not row.baseline_hard_failed
    return (not row.regressed, not hard, not row.improved, row.case_id)


def _row(case_id: str, pair: Pair, baseline: CaseResultRow, candidate: CaseResultRow) -> CaseRegression:
    before, now = pair
    return CaseRegression(
        case_id=case_id,
        baseline_outcome=Outcome(before.outcome),
        candidate_outcome=Outcome(now.outcome),
        baseline_passed=before.passed,
        candidate_passed=now.passed,
        baseline_hard_failed=before.hard_failed,
        candidate_hard_failed=now.hard_failed,
        regressed=is_regressed(before, now),
        improved=is_improved(before, now),
        judges=_judge_changes(before, now, baseline, candidate),
    )


def _judge_changes(
    before: CaseOutcome, now: CaseOutcome, baseline: CaseResultRow, candidate: CaseResultRow
) -> list[JudgeChange]:
    names = [
        name
        for name in before.judges.keys() | now.judges.keys()
        if before.judges.get(name) != now.judges.get(name)
    ]
    changes = [
        _judge_change(name, _verdict(baseline, name, before), _verdict(candidate, name, now))
        for name in names
    ]
    return sorted(changes, key=lambda change: (change.failure is None, change.judge_id))


def _verdict(row: CaseResultRow, judge_id: str, case: CaseOutcome) -> VerdictRow | None:
    for verdict in row["verdicts"]:
        if verdict["judge_id"] == judge_id and verdict["outcome"] == case.judges[judge_id]:
            return verdict
    return None


def _judge_change(judge_id: str, before: VerdictRow | None, now: VerdictRow | None) -> JudgeChange:
    return JudgeChange(
        judge_id=judge_id,
        baseline=Outcome(before["outcome"]) if before else None,
        candidate=Outcome(now["outcome"]) if now else None,
        baseline_score=before["score"] if before else None,
        candidate_score=now["score"] if now else None,
        reason=cut(now["reason"], REASON_LIMIT) if now else "",
        failure=now["failure"] if now and now["outcome"] in FAILURES else None,
        evidence_refs=list(now["evidence_refs"]) if now else [],
        regression_key=_key(now) if now else "",
    )


def _key(now: VerdictRow) -> str:
    if now["outcome"] == Outcome.PASSED.value:
        return ""
    return regression_key(now["case_id"], now["judge_id"], now["failure"], now["reason"])


Pair = tuple[CaseOutcome, CaseOutcome]
"""Outcomes of a case in the baseline and in the candidate."""

TOP_JUDGES = 10


def rate_metric(name: str, baseline: tuple[int, int], candidate: tuple[int, int]) -> Metric:
    """Build a metric from counts `(how many, of how many)`.

    The delta is the exact difference of the two shares, rounded once. The share of no cases is null.
    """
    before = Fraction(*baseline) if baseline[1] else None
    now = Fraction(*candidate) if candidate[1] else None
    return Metric(
        name=name,
        baseline=None if before is None else float(before),
        candidate=None if now is None else float(now),
        delta=None if before is None or now is None else float(now - before),
    )


def case_metrics(pairs: Iterable[Pair]) -> dict[str, Metric]:
    """Compute `pass_rate` and `hard_fail_rate` over pairs of cases; the denominator counts every case."""
    total = 0
    passed = [0, 0]
    hard = [0, 0]
    for before, now in pairs:
        total += 1
        passed[0] += before.passed
        passed[1] += now.passed
        hard[0] += before.hard_failed
        hard[1] += now.hard_failed
    return {
        "pass_rate": rate_metric("pass_rate", (passed[0], total), (passed[1], total)),
        "hard_fail_rate": rate_metric("hard_fail_rate", (hard[0], total), (hard[1], total)),
    }


def judge_metrics(pairs: Iterable[Pair]) -> dict[str, Metric]:
    """Compute each judge's share of passed verdicts among those that are not skipped, by judge id."""
    # Outcomes are shared between cases with the same verdicts, so counting them by identity is enough.
    counts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    by_identity: dict[int, CaseOutcome] = {}
    for pair in pairs:
        for side in (0, 1):
            identity = id(pair[side])
            by_identity[identity] = pair[side]
            counts[side][identity] += 1
    passed: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    judged: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    names = set()
    for side in (0, 1):
        for identity, count in counts[side].items():
            for judge_id, outcome in by_identity[identity].judges.items():
                names.add(judge_id)
                judged[side][judge_id] += count * (outcome != Outcome.SKIPPED.value)
                passed[side][judge_id] += count * (outcome == Outcome.PASSED.value)
    return {
        name: rate_metric(name, (passed[0][name], judged[0][name]), (passed[1][name], judged[1][name]))
        for name in sorted(names)
    }


def top_regressed_judges(metrics: dict[str, Metric]) -> list[Metric]:
    """List the judges whose pass rate fell, largest fall first."""
    fell = [metric for metric in metrics.values() if metric.delta is not None and metric.delta < 0]
    return sorted(fell, key=lambda metric: (metric.delta, metric.name))[:TOP_JUDGES]


def regression_sentences(metrics: dict[str, Metric], judges: dict[str, Metric]) -> list[str]:
    """Write a sentence for each rate that got worse."""
    sentences = []
    if _moved(metrics["pass_rate"]) < 0:
        sentences.append(f"pass rate decreased {_from_to(metrics['pass_rate'])}")
    if _moved(metrics["hard_fail_rate"]) > 0:
        sentences.append(f"hard fail rate increased {_from_to(metrics['hard_fail_rate'])}")
    sentences += [
        f"{name} pass rate decreased {_from_to(metric)}"
        for name, metric in judges.items()
        if _moved(metric) < 0
    ]
    return sentences


def _moved(metric: Metric) -> float:
    return metric.delta or 0.0


def _from_to(metric: Metric) -> str:
    before, now = metric.baseline or 0.0, metric.candidate or 0.0
    decimals = differing(before, now)
    return f"from {percent(before, decimals=decimals)} to {percent(now, decimals=decimals)}"


Risk = Literal["low", "medium", "high"]
Level = Literal["low", "medium", "high", "critical"]

CRITICAL_SCORE = 50.0
HIGH_SCORE = 20.0
HIGH_RISK_SHARE = 0.05
"""Share of cases by which fewer pass from which the risk is high, even without more hard fails."""

_RECOMMENDATIONS: dict[Level, str] = {
    "low": "Nothing got worse on the compared cases.",
    "medium": "Look at the regressed cases before releasing.",
    "high": "Do not release before the new hard fails and regressions are explained.",
    "critical": "Do not release: a large part of what worked before no longer does.",
}


@dataclass(frozen=True, slots=True)
class Balance:
    """Numbers of cases: compared, regressed, fewer passed than before, more hard-failed than before.

    Example:
        >>> risk_level(Balance(compared=100, regressed=2, fewer_passed=1, more_hard_failed=0))
        'medium'
    """

    compared: int
    regressed: int
    fewer_passed: int
    more_hard_failed: int


def risk_level(balance: Balance) -> Risk:
    """Rate the risk: high when more cases hard-fail or 5 % fewer pass, medium with any regression, else low.

    Without compared cases the risk is high, because it is unknown.
    """
    if not balance.compared or balance.more_hard_failed > 0:
        return "high"
    if balance.fewer_passed >= HIGH_RISK_SHARE * balance.compared:
        return "high"
    return "medium" if balance.regressed else "low"


def release_impact(balance: Balance) -> ReleaseImpact:
    """Rate the losses with a score from 0 to 100.

    The score is 250 points times the share of cases by which passes fell and hard fails rose (20 % fewer that
    all hard-fail score 100), plus 50 points times the share that regressed, whatever else improved. More hard
    fails than before are at least `high`, any regression is at least `medium`, however large the suite.
    """
    if not balance.compared:
        return ReleaseImpact(
            impact_score=100.0,
            impact_level="critical",
            recommendation="Nothing could be compared with the baseline; the effect is unknown.",
        )
    lost = max(0, balance.fewer_passed) + max(0, balance.more_hard_failed)
    score = min(100.0, round((250.0 * lost + 50.0 * balance.regressed) / balance.compared, 1))
    level: Level = "low"
    if score >= CRITICAL_SCORE:
        level = "critical"
    elif score >= HIGH_SCORE or balance.more_hard_failed > 0:
        level = "high"
    elif balance.regressed:
        level = "medium"
    return ReleaseImpact(impact_score=score, impact_level=level, recommendation=_RECOMMENDATIONS[level])

"""Changes of results: cases and their judges, rates, trials, and what they amount to in words and levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Literal

from agent_eval.comparison.facts import (
    FAILURES,
    POLICIES_NAMED,
    CaseOutcome,
    case_policies,
    regression_key,
    trials_of,
)
from agent_eval.contracts import (
    CaseRegression,
    CaseResultRow,
    JudgeChange,
    Metric,
    Outcome,
    ReleaseImpact,
    TrialChange,
    TrialComparison,
    TrialCount,
    TrialSide,
    VerdictRow,
)
from agent_eval.contracts.verdict import count_trials
from agent_eval.text.escape import cut
from agent_eval.text.numbers import differing, percent

Pair = tuple[CaseOutcome, CaseOutcome]
"""Outcomes of a case in the baseline and in the candidate."""
Results = Mapping[str, CaseResultRow]
"""Results by case id."""

REASON_LIMIT = 1_000
"""Maximum characters of a judge's reason in a comparison; the pack has all of it."""
TOP_JUDGES = 10
HIGH_RISK_SHARE = 0.05
"""Share of cases by which fewer pass from which the risk is high, even without more hard fails."""
CRITICAL_SCORE = 50.0
HIGH_SCORE = 20.0

_CASE = ""
"""Key of the results of the trials themselves among the judges; no judge has an empty name."""
_NOTHING = {"passed": 0, "failed": 0, "judged": 0}
_RECOMMENDATIONS: dict[Literal["low", "medium", "high", "critical"], str] = {
    "low": "Nothing got worse on the compared cases.",
    "medium": "Look at the regressed cases before releasing.",
    "high": "Do not release before the new hard fails and regressions are explained.",
    "critical": "Do not release: a large part of what worked before no longer does.",
}


def new_hard_fail(before: CaseOutcome, now: CaseOutcome) -> bool:
    """Tell whether a case hard-fails now and did not before."""
    return now.hard_failed and not before.hard_failed


def is_regressed(before: CaseOutcome, now: CaseOutcome) -> bool:
    """Tell whether a case passed before and does not now, or is a new hard fail."""
    return (before.passed and not now.passed) or new_hard_fail(before, now)


def case_regressions(
    pairs: Mapping[str, Pair], baseline: Results, candidate: Results
) -> list[CaseRegression]:
    """List every case whose result or whose judges' outcomes changed.

    Regressed cases come first, those with a new hard fail before the others; then improved cases; then cases
    that fail in another way than before. Each group is sorted by case id.
    """
    rows = [
        CaseRegression(
            case_id=case_id,
            baseline_outcome=Outcome(before.outcome),
            candidate_outcome=Outcome(now.outcome),
            baseline_passed=before.passed,
            candidate_passed=now.passed,
            baseline_hard_failed=before.hard_failed,
            candidate_hard_failed=now.hard_failed,
            regressed=is_regressed(before, now),
            improved=is_regressed(now, before) and not is_regressed(before, now),
            judges=_judge_changes(before, now, baseline[case_id], candidate[case_id]),
        )
        for case_id, (before, now) in pairs.items()
        # Outcomes are shared objects, so the identity check already skips most unchanged cases.
        if before is not now and before != now
    ]

    def order(row: CaseRegression) -> tuple[bool, bool, bool, str]:
        hard = row.candidate_hard_failed and not row.baseline_hard_failed
        return (not row.regressed, not hard, not row.improved, row.case_id)

    return sorted(rows, key=order)


def _judge_changes(
    before: CaseOutcome, now: CaseOutcome, baseline: CaseResultRow, candidate: CaseResultRow
) -> list[JudgeChange]:
    changes = []
    for judge_id in before.judges.keys() | now.judges.keys():
        if before.judges.get(judge_id) == now.judges.get(judge_id):
            continue
        old, new = _verdict(baseline, judge_id, before), _verdict(candidate, judge_id, now)
        change = JudgeChange(
            judge_id=judge_id,
            baseline=Outcome(old["outcome"]) if old else None,
            candidate=Outcome(new["outcome"]) if new else None,
            baseline_score=old["score"] if old else None,
            candidate_score=new["score"] if new else None,
        )
        if new:
            change.reason = cut(new["reason"], REASON_LIMIT)
            change.failure = new["failure"] if new["outcome"] in FAILURES else None
            change.evidence_refs = list(new["evidence_refs"])
            if new["outcome"] != Outcome.PASSED.value:
                facts = new["case_id"], judge_id, new["failure"], new["reason"]
                change.regression_key = regression_key(*facts)
        changes.append(change)
    return sorted(changes, key=lambda change: (change.failure is None, change.judge_id))


def _verdict(row: CaseResultRow, judge_id: str, case: CaseOutcome) -> VerdictRow | None:
    for verdict in row["verdicts"]:
        if verdict["judge_id"] == judge_id and verdict["outcome"] == case.judges[judge_id]:
            return verdict
    return None


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


def case_metrics(pairs: Sequence[Pair]) -> dict[str, Metric]:
    """Compute `pass_rate` and `hard_fail_rate` over pairs of cases; the denominator counts every case."""
    rates = {}
    for name, fact in (("pass_rate", "passed"), ("hard_fail_rate", "hard_failed")):
        before, now = (sum(getattr(pair[side], fact) for pair in pairs) for side in (0, 1))
        rates[name] = rate_metric(name, (before, len(pairs)), (now, len(pairs)))
    return rates


def judge_metrics(pairs: Sequence[Pair]) -> dict[str, Metric]:
    """Compute each judge's share of passed verdicts among those that are not skipped, by judge id."""
    sides: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
    for side, rates in enumerate(sides):
        outcomes = Counter(chain.from_iterable(pair[side].judges.items() for pair in pairs))
        for (judge_id, outcome), number in outcomes.items():
            # Passed, and judged at all.
            rate = rates.setdefault(judge_id, [0, 0])
            rate[0] += number * (outcome == Outcome.PASSED.value)
            rate[1] += number * (outcome != Outcome.SKIPPED.value)
    before, now = ({name: (rate[0], rate[1]) for name, rate in rates.items()} for rates in sides)
    return {
        name: rate_metric(name, before.get(name, (0, 0)), now.get(name, (0, 0)))
        for name in sorted(before.keys() | now.keys())
    }


def top_regressed_judges(metrics: dict[str, Metric]) -> list[Metric]:
    """List the judges whose pass rate fell, largest fall first."""
    fell = [metric for metric in metrics.values() if metric.delta is not None and metric.delta < 0]
    return sorted(fell, key=lambda metric: (metric.delta, metric.name))[:TOP_JUDGES]


def regression_sentences(metrics: dict[str, Metric], judges: dict[str, Metric]) -> list[str]:
    """Write a sentence for each rate that got worse."""
    rates = [("pass rate decreased", metrics["pass_rate"], -1)]
    rates += [("hard fail rate increased", metrics["hard_fail_rate"], 1)]
    rates += [(f"{name} pass rate decreased", metric, -1) for name, metric in judges.items()]
    sentences = []
    for words, metric, worse in rates:
        if worse * (metric.delta or 0.0) > 0:
            before, now = metric.baseline or 0.0, metric.candidate or 0.0
            decimals = differing(before, now)
            figures = f"from {percent(before, decimals=decimals)} to {percent(now, decimals=decimals)}"
            sentences.append(f"{words} {figures}")
    return sentences


@dataclass(frozen=True, slots=True)
class Balance:
    """Numbers of cases: compared, regressed, fewer passed than before, more hard-failed than before."""

    compared: int
    regressed: int
    fewer_passed: int
    more_hard_failed: int

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Balance:
        """Count the pairs."""
        return cls(
            compared=len(pairs),
            regressed=sum(is_regressed(*pair) for pair in pairs),
            fewer_passed=sum(before.passed - now.passed for before, now in pairs),
            more_hard_failed=sum(now.hard_failed - before.hard_failed for before, now in pairs),
        )


def risk_level(balance: Balance) -> Literal["low", "medium", "high"]:
    """Rate the risk: high when more cases hard-fail or 5 % fewer pass, medium with any regression, else low.

    Without compared cases the risk is high, because it is unknown.
    """
    if balance.more_hard_failed > 0 or balance.fewer_passed >= HIGH_RISK_SHARE * balance.compared:
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
    level: Literal["low", "medium", "high", "critical"] = "medium" if balance.regressed else "low"
    if score >= CRITICAL_SCORE:
        level = "critical"
    elif score >= HIGH_SCORE or balance.more_hard_failed > 0:
        level = "high"
    return ReleaseImpact(impact_score=score, impact_level=level, recommendation=_RECOMMENDATIONS[level])


def compare_trials(compared: Sequence[str], baseline: Results, candidate: Results) -> TrialComparison:
    """Compare the trials of the compared cases, of which there is at least one."""
    changes = []
    for case_id in compared:
        was, is_now = _trial_counts(baseline[case_id]), _trial_counts(candidate[case_id])
        changes += [
            TrialChange(
                case_id=case_id,
                judge_id=name or None,
                baseline=TrialCount.model_validate(was.get(name, _NOTHING)),
                candidate=TrialCount.model_validate(is_now.get(name, _NOTHING)),
            )
            for name in sorted(was.keys() | is_now.keys())
            if was.get(name) != is_now.get(name)
        ]
    return TrialComparison(
        baseline=_side([baseline[case_id] for case_id in compared]),
        candidate=_side([candidate[case_id] for case_id in compared]),
        changes=changes,
    )


def _trial_counts(row: CaseResultRow) -> dict[str, dict[str, int]]:
    by_name: dict[str, list[str]] = {}
    for trial in trials_of(row):
        by_name.setdefault(_CASE, []).append(trial["outcome"])
        for verdict in trial["verdicts"]:
            by_name.setdefault(verdict["judge_id"], []).append(verdict["outcome"])
    counts = {}
    for name, outcomes in by_name.items():
        passed, judged = count_trials(outcomes)
        if name != _CASE:
            # A judge that skips a trial does not count; a case that is never judged still did not pass.
            judged = len(outcomes) - outcomes.count(Outcome.SKIPPED.value)
        failed = sum(outcome in FAILURES for outcome in outcomes)
        counts[name] = {"passed": passed, "failed": failed, "judged": judged}
    return counts


def _side(rows: Iterable[CaseResultRow]) -> TrialSide:
    counted = []
    errors = 0
    policies: set[str] = set()
    for row in rows:
        outcomes = [trial["outcome"] for trial in trials_of(row)]
        counted.append(count_trials(outcomes))
        errors += outcomes.count(Outcome.ERROR.value)
        policies.update(case_policies([row]))
    numbers = [judged for _, judged in counted]
    return TrialSide(
        fewest=min(numbers),
        most=max(numbers),
        passed=sum(passed for passed, _ in counted),
        errors=errors,
        total=sum(numbers),
        pass_rate=float(sum(Fraction(*counts) for counts in counted) / len(numbers)),
        case_policies=sorted(policies)[:POLICIES_NAMED],
    )

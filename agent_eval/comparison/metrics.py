"""Rates of a comparison, and what they amount to in words and levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from agent_eval.comparison.changes import Pair
from agent_eval.comparison.facts import CaseOutcome
from agent_eval.contracts import Metric, Outcome, ReleaseImpact
from agent_eval.text.numbers import differing, percent

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
    """Numbers of cases: compared, regressed, fewer passed than before, more hard-failed than before."""

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

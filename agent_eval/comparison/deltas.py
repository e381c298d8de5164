"""Rates of both runs over the compared cases, recomputed from verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from agent_eval.comparison.facts import CaseFacts
from agent_eval.contracts import Metric, Outcome
from agent_eval.text.shares import differing, percent

Pair = tuple[CaseFacts, CaseFacts]
"""A case in the baseline and in the candidate."""

TOP_JUDGES = 10


def rate_metric(name: str, baseline: tuple[int, int], candidate: tuple[int, int]) -> Metric:
    """A metric from counts `(how many, of how many)`.

    The delta is the exact difference of the two shares, rounded once. A share of nothing is null.
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
    """`pass_rate` and `hard_fail_rate` over pairs of cases; every case counts in the denominator."""
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
    """Each judge's share of passed verdicts among those that are not skipped, by judge id."""
    # Facts are shared between cases with the same verdicts, so counting them by identity is enough.
    counts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    by_identity: dict[int, CaseFacts] = {}
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
    """Judges whose pass rate fell, the largest fall first."""
    fell = [metric for metric in metrics.values() if metric.delta is not None and metric.delta < 0]
    return sorted(fell, key=lambda metric: (metric.delta, metric.name))[:TOP_JUDGES]


def regression_sentences(metrics: dict[str, Metric], judges: dict[str, Metric]) -> list[str]:
    """One sentence for each rate that got worse."""
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

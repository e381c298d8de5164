"""What changed over the whole run and is said once: the model, tokens, cost and latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from statistics import median

from agent_eval.comparison.behaviour import (
    FIGURES,
    MODELS_LIMIT,
    Differences,
    figure,
)
from agent_eval.comparison.reasons import cut
from agent_eval.comparison.view import RunView
from agent_eval.contracts import Compatibility, Metric, RunBehaviour

MIN_CASES = 5
"""Cases that both runs must know a figure of before a shift is worth a sentence."""
NOTABLE = {"input_tokens": 0.10, "output_tokens": 0.10, "cost_usd": 0.10, "latency_ms": 0.20}
"""Relative change of the total that is said. Latency is noisier than tokens and cost."""
WIDESPREAD = 0.05
"""A median case that moved less than this, or the other way, means that few cases cause the shift."""
NAME_LIMIT = 100

_NAMES = {
    "input_tokens": ("Input tokens", ",.0f", ""),
    "output_tokens": ("Output tokens", ",.0f", ""),
    "cost_usd": ("Cost", ",.4f", " USD"),
    "latency_ms": ("Latency", ",.0f", " ms"),
}


@dataclass(frozen=True)
class _Shift:
    """Totals over the cases that both runs know, and the median case's relative change."""

    metric: Metric
    cases: int
    median_change: float | None


def run_behaviour(
    baseline: RunView,
    candidate: RunView,
    compared: Sequence[str],
    found: Differences,
    compatibility: Compatibility,
) -> RunBehaviour:
    """Behaviour over all compared cases, with a sentence for everything that moved enough to say."""
    before, now = _models(baseline, candidate, compared)
    shifts = [shift for name in FIGURES if (shift := _shift(name, baseline, candidate, compared))]
    model_changed = bool(before and now) and before != now
    notices = _failed_checks(compatibility, "case_policy_match", "trial_count_match")
    notices += [f"The model changed from {', '.join(before)} to {', '.join(now)}."] if model_changed else []
    notices += [sentence for shift in shifts if (sentence := _sentence(shift))]
    notices += _failed_checks(compatibility, "judges_match", "judge_config_match")
    return RunBehaviour(
        cases_with_changed_calls=len(found.calls),
        cases_with_changed_output=len(found.output),
        baseline_models=before,
        candidate_models=now,
        model_changed=model_changed,
        shifts=[shift.metric for shift in shifts],
        notices=notices,
    )


def _failed_checks(compatibility: Compatibility, *names: str) -> list[str]:
    """What two runs differ in that were compared all the same, each as a sentence."""
    return [
        f"{one.message[:1].upper()}{one.message[1:]}." for one in compatibility.failures if one.name in names
    ]


def _models(baseline: RunView, candidate: RunView, compared: Sequence[str]) -> tuple[list[str], list[str]]:
    """Models that the traces name; where one side names none, what both runs were configured with.

    A name from a trace is never held against a name somebody typed: `gpt-4o` and
    `gpt-4o-2024-08-06` may be the same model.
    """
    before, now = _traced(baseline, compared), _traced(candidate, compared)
    if before and now:
        return before, now
    return _configured(baseline), _configured(candidate)


def _traced(run: RunView, compared: Sequence[str]) -> list[str]:
    found: set[str] = set()
    for case_id in compared:
        found.update(run.index[case_id]["models"])
    return sorted(cut(name, NAME_LIMIT) for name in found)[:MODELS_LIMIT]


def _configured(run: RunView) -> list[str]:
    return [] if run.config.model == "unknown" else [cut(run.config.model, NAME_LIMIT)]


def _shift(name: str, baseline: RunView, candidate: RunView, compared: Sequence[str]) -> _Shift | None:
    was: list[float] = []
    is_now: list[float] = []
    for case_id in compared:
        one, other = baseline.index[case_id].get(name), candidate.index[case_id].get(name)
        if one is not None and other is not None:
            # Row types are validated where packs are read; here the key is only known at run time.
            was.append(one)  # type: ignore[arg-type]
            is_now.append(other)  # type: ignore[arg-type]
    if not was:
        return None
    try:
        before, now = fsum(was), fsum(is_now)
    except OverflowError:
        return None
    if not isfinite(now - before):
        return None
    changes = [after / start - 1 for start, after in zip(was, is_now, strict=True) if start > 0]
    return _Shift(
        metric=figure(name, before, now),
        cases=len(was),
        median_change=median(changes) if changes else None,
    )


def _sentence(shift: _Shift) -> str | None:
    metric = shift.metric
    before, now = metric.baseline or 0.0, metric.candidate or 0.0
    if shift.cases < MIN_CASES or before <= 0 or shift.median_change is None:
        return None
    change = now / before - 1
    if not abs(change) >= NOTABLE[metric.name]:
        return None
    title, form, unit = _NAMES[metric.name]
    said = (
        f"{title} {'rose' if change > 0 else 'fell'} by {abs(change):.0%} in total: "
        f"{before:{form}}{unit} became {now:{form}}{unit} over {shift.cases} cases"
    )
    if shift.median_change * change <= 0 or abs(shift.median_change) < WIDESPREAD:
        return f"{said}; a few cases cause it, the median case moved by {shift.median_change:+.0%}."
    return f"{said}."

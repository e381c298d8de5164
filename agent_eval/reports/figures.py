"""Figures in words: shares as per cent, differences as points, counts with their noun."""

from __future__ import annotations

from agent_eval.contracts import Metric
from agent_eval.text.plurals import count, of_all, verb
from agent_eval.text.shares import allowed, apart, differing, distance, percent

__all__ = [
    "AMOUNTS",
    "allowed",
    "amount",
    "apart",
    "count",
    "differing",
    "distance",
    "drop",
    "of_all",
    "pair",
    "percent",
    "plain_figure",
    "points",
    "verb",
    "whole",
]


def points(difference: float | None) -> str:
    """A difference of two shares in percentage points: `−4.5 pts`, `±0 pts`, `–` when unknown."""
    if difference is None:
        return "–"
    if difference == 0:
        return "±0 pts"
    return f"{'+' if difference > 0 else '−'}{distance(difference)} pts"


def drop(difference: float) -> str:
    """A difference where only one direction is bad: `4.5 pts`, negative for the better."""
    return f"{'−' if difference < 0 else ''}{distance(difference) if difference else '0'} pts"


def whole(number: float) -> str:
    """A number of things."""
    return f"{number:,.0f}"


def plain_figure(number: float) -> str:
    """A figure of unknown kind."""
    return f"{number:.6g}"


def pair(metric: Metric) -> tuple[str, str, str]:
    """A rate in both runs and its difference; two rates that differ never look the same."""
    baseline, candidate = metric.baseline, metric.candidate
    decimals = differing(baseline, candidate)
    return percent(baseline, decimals=decimals), percent(candidate, decimals=decimals), points(metric.delta)


def amount(name: str, value: float | None) -> str:
    """A token count, a cost or a duration with its unit, by the name of its metric."""
    if value is None:
        return "unknown"
    if name.endswith("cost_usd"):
        return f"{value:,.2f} USD" if abs(value) >= 1 or value == 0 else f"{value:.3g} USD"
    if name.endswith("latency_ms"):
        return f"{value / 1000:,.1f} s" if abs(value) >= 1000 else f"{value:,.0f} ms"
    return f"{value:,.0f}"


AMOUNTS = {
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "cost_usd": "cost",
    "latency_ms": "latency",
}
"""What the metrics beyond verdicts are called in a sentence."""

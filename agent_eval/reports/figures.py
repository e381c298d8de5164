"""Figures in words: shares as per cent, differences as points, counts with their noun."""

from __future__ import annotations

from agent_eval.contracts import Metric

_MAX_DECIMALS = 4


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 case`, `3 cases`, `12,000 cases`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def verb(number: int, singular: str, plural: str) -> str:
    """The verb that goes with `number`."""
    return singular if number == 1 else plural


def percent(share: float | None, *, decimals: int = 1) -> str:
    """A share from 0 to 1 as `87.5%`. Only exactly all is `100%` and only exactly none `0%`."""
    if share is None:
        return "–"
    if share in (0.0, 1.0):
        return f"{share * 100:.0f}%"
    while decimals < _MAX_DECIMALS and float(f"{share * 100:.{decimals}f}") in (0.0, 100.0):
        decimals += 1
    shown = f"{share * 100:.{decimals}f}%"
    return {"0.0000%": "under 0.0001%", "100.0000%": "over 99.9999%"}.get(shown, shown)


def allowed(share: float) -> str:
    """A threshold as the user wrote it, in per cent: `90%`, `2.5%`."""
    return f"{share * 100:.6g}%"


def points(difference: float | None) -> str:
    """A difference of two shares in percentage points: `−4.5 pts`, `±0 pts`, `–` when unknown."""
    if difference is None:
        return "–"
    if difference == 0:
        return "±0 pts"
    return f"{'+' if difference > 0 else '−'}{distance(difference)} pts"


def apart(value: float, limit: float) -> int:
    """Decimals with which a measured share in per cent does not look like a limit it is not equal to."""
    decimals = 1
    while (
        decimals < _MAX_DECIMALS and value != limit and round(value * 100, decimals) == round(limit * 100, 9)
    ):
        decimals += 1
    return decimals


def distance(difference: float, *, decimals: int = 1) -> str:
    """The size of a difference of two shares in points, without its sign: `4.5`."""
    size = abs(difference) * 100
    while decimals < _MAX_DECIMALS and float(f"{size:.{decimals}f}") == 0:
        decimals += 1
    return f"{size:.{decimals}f}"


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
    decimals = 1
    while (
        decimals < _MAX_DECIMALS
        and baseline != candidate
        and percent(baseline, decimals=decimals) == percent(candidate, decimals=decimals)
    ):
        decimals += 1
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

"""Blocks of markdown that other blocks are put together from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.contracts import Metric
from agent_eval.text.escape import code_span
from agent_eval.text.numbers import allowed, apart, beside, differing, distance, percent


def document(blocks: Iterable[str]) -> str:
    """Blocks with an empty line between them, empty ones left out, a line break at the end."""
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(header: Sequence[str], align: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Every cell is a literal or the result of a function in `text.escape`.

    Args:
        header: Words at the top of the columns.
        align: `:--`, `--:` or `:-:` for each column.
        rows: Cells.
    """
    lines = [header, align, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def bullets(items: Iterable[str]) -> str:
    """A list, one item a line."""
    return "\n".join(f"- {item}" for item in items)


def folded(title: str, blocks: Iterable[str]) -> str:
    """Blocks that open on a click; nothing when there are none.

    Args:
        title: A literal with figures at most: markup in it is not escaped.
        blocks: What is folded away.
    """
    inside = [block for block in blocks if block]
    if not inside:
        return ""
    return "\n\n".join([f"<details>\n<summary>{title}</summary>", *inside, "</details>"])


def names(identifiers: Sequence[str], *, shown: int, limit: int) -> str:
    """Identifiers as code, `and N more` when there are more than `shown`."""
    listed = [code_span(name, limit=limit) for name in identifiers[:shown]]
    hidden = len(identifiers) - len(listed)
    if hidden:
        listed.append(f"and {hidden:,} more" if listed else f"{hidden:,}")
    return ", ".join(listed)


def points(difference: float | None) -> str:
    """A difference of two shares in percentage points: `−4.5 pts`, `±0 pts`, `–` when unknown."""
    if difference is None:
        return "–"
    if difference == 0:
        return "±0 pts"
    return f"{'+' if difference > 0 else '−'}{distance(difference)} pts"


def whole(number: float) -> str:
    """A number of things."""
    return f"{number:,.0f}"


def share_and_limit(value: float, limit: float) -> tuple[str, str]:
    """A share and what is allowed of it, in per cent: on which side of it the share lies can be read."""
    return percent(value, decimals=apart(value, limit)), allowed(limit)


def difference_and_limit(value: float, limit: float) -> tuple[str, str]:
    """A difference of which only one direction is bad, negative for the better, and what is allowed of it."""
    shown = beside(value, limit).replace("-", "−") if value else "0"
    return f"{shown} pts", f"{allowed(limit).removesuffix('%')} pts"


def whole_and_limit(value: float, limit: float) -> tuple[str, str]:
    """Two numbers of things."""
    return whole(value), whole(limit)


def figure_and_limit(value: float, limit: float) -> tuple[str, str]:
    """Two figures of unknown kind."""
    return f"{value:.12g}", f"{limit:.12g}"


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

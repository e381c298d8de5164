"""Names, tables and figures, as every renderer writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.contracts import Metric
from agent_eval.text.escape import code_span, one_line
from agent_eval.text.numbers import differing, distance, percent

NAMED = 3
"""Most cases that a sentence names."""
CRITERIA_SHOWN = 4
"""Criteria of a judge that a case shows."""
_NAME_LIMIT = 120


def code(name: str, *, limit: int = _NAME_LIMIT) -> str:
    """Set a name in backticks, whatever it holds, for a sentence that is escaped where it is shown.

    Example:
        >>> code("a`b"), code("")
        ('`a´b`', '`∅`')
    """
    return f"`{one_line(name, limit=limit).replace('`', '´').strip() or '∅'}`"


def named(case_ids: Sequence[str], *, most: int = NAMED) -> str:
    """List the first ids as code and the number of the others.

    Example:
        >>> named(["a", "b"]), named(["a", "b", "c", "d"], most=2)
        ('`a` and `b`', '`a`, `b` and 2 more')
    """
    more = len(case_ids) - most
    names = [code(case_id) for case_id in case_ids[:most]]
    if more > 0:
        return f"{', '.join(names)} and {more:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def table(header: Sequence[str], align: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table. Every cell is a literal or the result of a function in `text.escape`.

    `align` has `:--`, `--:` or `:-:` for each column.
    """
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, align, *rows))


def bullets(items: Iterable[str]) -> str:
    """Write a list, one item a line."""
    return "\n".join(f"- {item}" for item in items)


def folded(title: str, blocks: Iterable[str]) -> str:
    """Fold blocks away until a reader clicks; nothing when there are none.

    `title` is a literal with figures at most: markup in it is not escaped.
    """
    inside = [block for block in blocks if block]
    if not inside:
        return ""
    return "\n\n".join([f"<details>\n<summary>{title}</summary>", *inside, "</details>"])


def names(identifiers: Sequence[str], *, most: int, limit: int) -> str:
    """List identifiers as code, `and N more` when there are more than `most`."""
    listed = [code_span(name, limit=limit) for name in identifiers[:most]]
    hidden = len(identifiers) - len(listed)
    if hidden:
        listed.append(f"and {hidden:,} more" if listed else f"{hidden:,}")
    return ", ".join(listed)


def points(difference: float | None) -> str:
    """Write a difference of two shares in percentage points: `−4.5 pts`, `±0 pts`, `–` when unknown."""
    if difference is None:
        return "–"
    if difference == 0:
        return "±0 pts"
    return f"{'+' if difference > 0 else '−'}{distance(difference)} pts"


def pair(metric: Metric) -> tuple[str, str, str]:
    """Write a rate in both runs and its difference. Two rates that differ never look the same."""
    baseline, candidate = metric.baseline, metric.candidate
    decimals = differing(baseline, candidate)
    return percent(baseline, decimals=decimals), percent(candidate, decimals=decimals), points(metric.delta)


def amount(name: str, value: float | None) -> str:
    """Write a token count, a cost or a duration with its unit, by the name of its metric."""
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
"""Names of the metrics beyond verdicts in a sentence."""

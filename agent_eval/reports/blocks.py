"""Build blocks of markdown: tables, lists, figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from agent_eval.contracts import Metric
from agent_eval.text.escape import code_span
from agent_eval.text.numbers import differing, distance, percent


def document(blocks: Iterable[str]) -> str:
    """Join blocks with an empty line between them and a line break at the end. Empty blocks are left out."""
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(header: Sequence[str], align: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table. Every cell is a literal or the result of a function in `text.escape`.

    `align` has `:--`, `--:` or `:-:` for each column.
    """
    lines = [header, align, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


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


Alert = Literal["NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"]


def alert(kind: Alert, paragraphs: Iterable[str], *, boxes: bool) -> str:
    """Set paragraphs in a coloured alert box; as a plain quote where the platform has none.

    Paragraphs are markdown without a fence. Empty ones are left out; of nothing there is no box.
    """
    inside = [paragraph for paragraph in paragraphs if paragraph]
    if not inside:
        return ""
    first = [f"[!{kind}]\n{inside[0]}"] if boxes else inside[:1]
    lines = "\n\n".join([*first, *inside[1:]]).splitlines()
    return "\n".join(f"> {line}".rstrip() for line in lines)


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


def whole(number: float) -> str:
    """Write a number of things."""
    return f"{number:,.0f}"


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

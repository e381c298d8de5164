"""Several trials of a case: how often it passes, before and now."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from agent_eval.contracts import Comparison, RunSummary, TrialChange, TrialCount
from agent_eval.reports.blocks import bullets, folded, table
from agent_eval.reports.detail import Detail
from agent_eval.reports.figures import count, percent, verb
from agent_eval.text.markdown import code_span

_POINTS_SHOWN = 8


def fallen(comparison: Comparison | None) -> list[TrialChange]:
    """Cases of which fewer trials pass than before, the largest fall first; they may still pass."""
    if comparison is None or comparison.trials is None:
        return []
    rows = [(_fall(row), row) for row in comparison.trials.changes if row.judge_id is None]
    return [row for drop, row in sorted(rows, key=lambda one: (-one[0], one[1].case_id)) if drop > 0]


def rates(row: TrialChange) -> str:
    """`4 of 4 → 3 of 5`."""
    return f"{_rate(row.baseline)} → {_rate(row.candidate)}"


def _rate(trials: TrialCount) -> str:
    return f"{trials.passed} of {trials.judged}"


def _fall(row: TrialChange) -> Fraction:
    return _share(row.baseline) - _share(row.candidate)


def _share(trials: TrialCount) -> Fraction:
    return Fraction(trials.passed, trials.judged) if trials.judged else Fraction(0)


def less_often(comparison: Comparison | None, detail: Detail) -> str:
    """The cases that pass less often, each with its trials, folded."""
    rows = fallen(comparison)
    shown = detail.cases + detail.listed
    if not rows or not shown:
        return ""
    lines = [f"{code_span(row.case_id, limit=detail.name)}: {rates(row)} trials" for row in rows[:shown]]
    if len(rows) > len(lines):
        lines.append(f"and {len(rows) - len(lines):,} more")
    title = f"{count(len(rows), 'case')} {verb(len(rows), 'passes', 'pass')} less often"
    return folded(title, [bullets(lines)])


def curve(summary: RunSummary) -> str:
    """How often all of k trials of a case pass, and how often one of them does; empty with single trials."""
    if summary.flaky_cases is None:
        return ""
    rows: Sequence[tuple[str, ...]] = [
        (f"{point.k}", percent(point.pass_hat_k), percent(point.pass_at_k))
        for point in summary.pass_curve[:_POINTS_SHOWN]
    ]
    header = ("k", "All pass", "One passes")
    flaky = f"{count(summary.flaky_cases, 'case')} gave different results in different trials."
    return "\n\n".join(filter(None, [flaky, table(header, ("--:", "--:", "--:"), rows) if rows else ""]))

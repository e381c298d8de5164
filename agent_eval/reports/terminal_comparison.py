"""Render a comparison for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from agent_eval.reports.blocks import pair
from agent_eval.reports.counts import fallen, rates
from agent_eval.reports.terminal import CASES_SHOWN, GREEN, RED, WIDTH, joined, painted, shown_name, wrapped
from agent_eval.reports.turns import conversation_lines
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from agent_eval.contracts import Comparison, Metric

_IDS_SHOWN = 5


def compare_text(comparison: Comparison, path: str, *, colour: bool = False) -> str:
    """Render the result of `compare`: what moved, which cases regressed, where the comparison is."""
    overview = comparison.overview
    lines = [
        painted(
            f"{count(overview.compared_cases, 'case')} compared: {overview.regressed_cases:,} regressed, "
            f"{overview.improved_cases:,} improved.",
            RED if overview.regressed_cases else GREEN,
            colour,
        ),
        *wrapped(clean(notice) for notice in comparison.behaviour.notices),
        *moved_rates(comparison),
        *case_set(comparison),
        *regressed(comparison, CASES_SHOWN),
        *less_often(comparison, CASES_SHOWN),
        f"Comparison: {shown_name(path, 1000)}",
    ]
    return joined(lines)


def moved_rates(comparison: Comparison) -> list[str]:
    """List the rates of the run, and those of the judges that moved."""
    named = [("Pass rate", "pass_rate"), ("Hard-fail rate", "hard_fail_rate")]
    rows = [(label, comparison.metrics[key]) for label, key in named if key in comparison.metrics]
    moved: list[Metric] = [metric for metric in comparison.judge_metrics.values() if metric.delta]
    moved.sort(key=lambda metric: (metric.delta or 0.0, metric.name))
    rows += [(shown_name(metric.name, 24), metric) for metric in moved[:CASES_SHOWN]]
    width = max((len(label) for label, _ in rows), default=0)
    lines = []
    for label, metric in rows:
        before, now, difference = pair(metric)
        lines.append(f"  {label:<{width}}  {before} → {now} ({difference})")
    return lines


def case_set(comparison: Comparison) -> list[str]:
    """List the cases that were not compared, by reason."""
    sets = comparison.cases
    kinds: Sequence[tuple[str, Sequence[str]]] = (
        ("new", sets.new),
        ("changed", sets.changed),
        ("removed", sorted(set(sets.removed) - set(sets.removed_failing))),
        ("removed that failed in the baseline", sets.removed_failing),
    )
    lines = []
    for word, ids in kinds:
        if ids:
            listed = ", ".join(shown_name(case_id, 30) for case_id in ids[:_IDS_SHOWN])
            more = f" and {len(ids) - _IDS_SHOWN:,} more" if len(ids) > _IDS_SHOWN else ""
            lines += wrapped([f"Not compared, {len(ids):,} {word}: {listed}{more}"], rest="  ")
    return lines


def regressed(comparison: Comparison, most: int) -> list[str]:
    """List the cases that regressed, each with the first judge that objects."""
    rows = [row for row in comparison.case_regressions if row.regressed]
    conversations = {change.case_id: change for change in comparison.conversations}
    lines = []
    for row in rows[:most]:
        reason = f"{row.baseline_outcome.value} → {row.candidate_outcome.value}"
        if row.judges:
            reason = f"{shown_name(row.judges[0].judge_id, 40)}: {clean(row.judges[0].reason, limit=200)}"
        lines.append(f"  {shown_name(row.case_id, 70)}")
        lines += wrapped([reason], first="    ", rest="    ", width=WIDTH - 2)
        conversation = conversations.pop(row.case_id, None)
        # One conversation is enough for a screen; all of them are in the comparison.
        if conversation is not None:
            lines += conversation_lines(conversation)
            conversations.clear()
    if len(rows) > most:
        lines.append(f"  and {len(rows) - most:,} more")
    return ["Regressed:", *lines] if lines else []


def first_conversation(comparison: Comparison) -> list[str]:
    """Show the first conversation that regressed: its criteria, and the first turn that differs."""
    worse = set(comparison.regressed_case_ids)
    change = next((each for each in comparison.conversations if each.case_id in worse), None)
    return [] if change is None else [f"  {shown_name(change.case_id, 70)}", *conversation_lines(change)]


def less_often(comparison: Comparison, most: int, excused: Collection[str] = ()) -> list[str]:
    """List the cases that pass less often than before, but for those that are excused."""
    rows = [row for row in fallen(comparison) if row.case_id not in excused]
    lines = [f"  {shown_name(row.case_id, 40)}: {rates(row)} trials" for row in rows[:most]]
    if len(rows) > most:
        lines.append(f"  and {len(rows) - most:,} more")
    return ["Pass less often:", *lines] if lines else []

"""Render a comparison, and the gate's decision on one, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts import Comparison, GateDecision, Metric, RunReference, Tally
from agent_eval.reports.blocks import pair
from agent_eval.reports.counts import fallen, rates
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.story import CaseRow, State, Story, story_of
from agent_eval.reports.terminal import (
    CASES_SHOWN,
    GREEN,
    RED,
    WIDTH,
    YELLOW,
    joined,
    painted,
    shown_name,
    wrapped,
)
from agent_eval.reports.turns import conversation_lines
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

_IDS_SHOWN = 5
_NOTES_SHOWN = 20
_COLOURS: dict[State, str] = {
    "passed": GREEN,
    "failed": RED,
    "error": RED,
    "inconclusive": YELLOW,
    "skipped": YELLOW,
}
_MARKS: dict[State, str] = {
    "passed": "ok",
    "failed": "NO",
    "error": "NO",
    "inconclusive": "??",
    "skipped": "--",
}


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
        *_moved_rates(comparison),
        *_case_set(comparison),
        *_regressed(comparison),
        *_less_often(comparison),
        f"Comparison: {shown_name(path, 1000)}",
    ]
    return joined(lines)


def _moved_rates(comparison: Comparison) -> list[str]:
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


def _case_set(comparison: Comparison) -> list[str]:
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


def _regressed(comparison: Comparison) -> list[str]:
    """List the cases that regressed, each with the first judge that objects."""
    rows = [row for row in comparison.case_regressions if row.regressed]
    conversations = {change.case_id: change for change in comparison.conversations}
    lines = []
    for row in rows[:CASES_SHOWN]:
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
    if len(rows) > CASES_SHOWN:
        lines.append(f"  and {len(rows) - CASES_SHOWN:,} more")
    return ["Regressed:", *lines] if lines else []


def _less_often(comparison: Comparison) -> list[str]:
    rows = fallen(comparison)
    lines = [f"  {shown_name(row.case_id, 40)}: {rates(row)} trials" for row in rows[:CASES_SHOWN]]
    if len(rows) > CASES_SHOWN:
        lines.append(f"  and {len(rows) - CASES_SHOWN:,} more")
    return ["Pass less often:", *lines] if lines else []


def gate_text(
    decision: GateDecision, path: str, *, comparison: Comparison | None = None, colour: bool = False
) -> str:
    """Render the result of `gate`: how it ended, cases, findings, limits, and a regressed conversation.

    `comparison` is the one that it was made on; None for a run alone.
    """
    # Of a run of which the decision alone is at hand, nothing is shown.
    run_id = decision.candidate_run_id
    run = RunReference(run_id=run_id, dataset_id="", summary=Tally().summary(run_id, ""))
    if comparison is not None:
        run = comparison.candidate
    suite = SuiteReport(slug="", suite_path="", decision=decision, candidate=run, comparison=comparison)
    story = story_of(suite, is_evaluated=not decision.not_evaluated)
    first = wrapped([clean(f"{story.sign} {story.sentence}")], rest="  ")
    lines = [painted(line, _COLOURS[story.state], colour) for line in first] + _story(story)
    reasons = {story.sentence, *(finding.text for finding in story.findings)}
    for rule in (rule for rule in story.rules if rule.state != "failed" or rule.text not in reasons):
        lines += wrapped([clean(rule.text, limit=300)], first=f"  {_MARKS[rule.state]} ", rest="     ")
    if not decision.passed and comparison is not None:
        worse = set(comparison.regressed_case_ids)
        change = next((each for each in comparison.conversations if each.case_id in worse), None)
        if change is not None:
            lines += [f"  {shown_name(change.case_id, 70)}", *conversation_lines(change)]
    return joined([*lines, f"Decision: {shown_name(path, 1000)}"])


def _story(story: Story) -> list[str]:
    """Write what follows the first sentence: why, what to do, the cases, what was found, the notes."""
    to_do = f"To do: {story.to_do}" if story.to_do else ""
    lines = wrapped(map(clean, filter(None, [story.why, to_do])), first="  ", rest="  ")
    lines += _cases(story.cases, story.sentence)
    for finding in story.findings:
        lines += wrapped([clean(finding.text, limit=600)], first=f"  {_MARKS[finding.state]} ", rest="     ")
    notes = [clean(note, limit=600) for note in [*story.notes, *story.set_aside][:_NOTES_SHOWN]]
    return lines + wrapped(filter(None, notes), first="  -- ", rest="     ")


def _cases(rows: Sequence[CaseRow], sentence: str) -> list[str]:
    """List the cases that newly fail, those that block with why, each with its counts."""
    lines = []
    for row in rows[:CASES_SHOWN]:
        again = f"; run again: base {row.base}, change {row.change}" if row.change != "–" else ""
        counts = f"main {row.main}, first run {row.first}{again}"
        text = f"{shown_name(row.case_id, 60)}, {row.words}: {counts}"
        lines += wrapped([text], first=f"  {_MARKS[row.state]} ", rest="     ")
        if row.answer == "open" and row.reason != sentence:
            lines += wrapped([clean(row.reason, limit=300)], first="     ", rest="     ")
    if len(rows) > CASES_SHOWN:
        lines.append(f"  and {len(rows) - CASES_SHOWN:,} more")
    return lines

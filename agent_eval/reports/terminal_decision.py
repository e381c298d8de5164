"""Render the gate's decisions for a terminal, and what a whole evaluation came to."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts import Comparison, GateDecision, RunReference, Tally
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.story import SIGNS, CaseRow, State, Story, overall, state_of, story_of
from agent_eval.reports.terminal import CASES_SHOWN, GREEN, RED, YELLOW, joined, painted, shown_name, wrapped
from agent_eval.reports.terminal_comparison import (
    case_set,
    first_conversation,
    less_often,
    moved_rates,
    regressed,
)
from agent_eval.text.escape import clean

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


def gate_text(
    decision: GateDecision, path: str, *, comparison: Comparison | None = None, colour: bool = False
) -> str:
    """Render the result of `gate`: how it ended, cases, findings, limits, and a regressed conversation.

    Args:
        comparison: The comparison that it was made on; None for a run alone.
    """
    run = comparison.candidate if comparison is not None else _run_of(decision)
    suite = SuiteReport(slug="", suite_path="", decision=decision, candidate=run, comparison=comparison)
    story = story_of(suite, is_evaluated=not decision.not_evaluated)
    lines = _first(f"{story.sign} {story.sentence}", story.state, colour)
    lines += _story(story)
    for rule in story.rules:
        lines += wrapped([clean(rule.text, limit=300)], first=f"  {_MARKS[rule.state]} ", rest="     ")
    if not decision.passed and comparison is not None:
        lines += first_conversation(comparison)
    return joined([*lines, f"Decision: {shown_name(path, 1000)}"])


def _run_of(decision: GateDecision) -> RunReference:
    """Stand in for a run of which the decision alone is at hand: of its results nothing is shown."""
    name = decision.candidate_run_id
    return RunReference(run_id=name, dataset_id="", summary=Tally().summary(name, ""))


def evaluation_text(report: EvaluationReport, *, colour: bool = False) -> str:
    """Render a report: how each suite ended and why, what regressed, where the evidence is."""
    lines: list[str] = []
    if report.not_evaluated or len(report.suites) > 1:
        lines += [*_first(f"{SIGNS[state_of(report)]} {overall(report)}", state_of(report), colour), ""]
    if report.rule_changes.sentences:
        lines += [*wrapped(map(clean, report.rule_changes.sentences), rest="  "), ""]
    for suite in report.worst_first:
        lines += [*_suite(suite, colour, is_evaluated=report.is_evaluated(suite)), ""]
    lines += wrapped((f"warning: {clean(warning)}" for warning in report.warnings), rest="  ")
    if report.evidence_name:
        lines.append(f"Evidence: {shown_name(report.evidence_name, 1000)}")
    return joined(lines)


def _first(sentence: str, state: State, colour: bool) -> list[str]:
    return [painted(line, _COLOURS[state], colour) for line in wrapped([clean(sentence)], rest="  ")]


def _suite(suite: SuiteReport, colour: bool, *, is_evaluated: bool) -> list[str]:
    story = story_of(suite, is_evaluated=is_evaluated)
    name = shown_name(suite.slug, 60)
    lines = _first(f"{story.sign} {name}: {story.sentence}", story.state, colour)
    lines += _story(story)
    lines += wrapped([clean(suite.baseline_note)] if suite.baseline_note else [], first="  ", rest="  ")
    comparison = suite.comparison
    if comparison is None or not is_evaluated:
        return lines + _failing(suite)
    if suite.nothing_shared:
        return lines + [f"  {line}" for line in case_set(comparison)] + _failing(suite)
    inside = [
        *wrapped(clean(notice) for notice in comparison.behaviour.notices),
        *moved_rates(comparison),
        *case_set(comparison),
        *regressed(comparison, CASES_SHOWN),
        *less_often(comparison, CASES_SHOWN, suite.excused),
    ]
    return lines + [f"  {line}" for line in inside]


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


def _failing(suite: SuiteReport) -> list[str]:
    lines = []
    for row in suite.failing[:CASES_SHOWN]:
        lines.append(f"    {shown_name(row['case_id'], 70)}")
        objections = [verdict for verdict in row["verdicts"] if verdict["outcome"] == row["outcome"]]
        reasons = [
            f"{shown_name(verdict['judge_id'], 40)}: {clean(verdict['reason'], limit=200)}"
            for verdict in objections[:1]
        ]
        lines += wrapped(reasons, first="      ", rest="      ")
    if len(suite.failing) > CASES_SHOWN:
        lines.append(f"    and {len(suite.failing) - CASES_SHOWN:,} more")
    return ["  Not passed:", *lines] if lines else []

"""Render a comparison, and the gate's decision on one, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts import CaseRegression, Comparison, GateDecision, Metric, RunReference, Tally
from agent_eval.reports.blocks import CRITERIA_SHOWN, pair
from agent_eval.reports.counts import fallen, rates
from agent_eval.reports.model import SIGNS, Finding, State, SuiteReport, undecided
from agent_eval.reports.story import story_of
from agent_eval.reports.suite import case_sets
from agent_eval.reports.terminal import (
    CASES_SHOWN,
    GREEN,
    RED,
    WIDTH,
    YELLOW,
    painted,
    shown_name,
    wrapped,
)
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
    overview, run = comparison.overview, comparison.candidate
    first = (
        f"{count(overview.compared_cases, 'case')} compared: {overview.regressed_cases:,} regressed, "
        f"{overview.improved_cases:,} improved."
    )
    lines = [painted(first, RED if overview.regressed_cases else GREEN, colour)]
    lines += wrapped(clean(notice) for notice in comparison.behaviour.notices)

    # The rates of the run, and those of the judges that moved.
    named = [("Pass rate", "pass_rate"), ("Hard-fail rate", "hard_fail_rate")]
    rows = [(label, comparison.metrics[key]) for label, key in named if key in comparison.metrics]
    moved: list[Metric] = [metric for metric in comparison.judge_metrics.values() if metric.delta]
    moved.sort(key=lambda metric: (metric.delta or 0.0, metric.name))
    rows += [(shown_name(metric.name, 24), metric) for metric in moved[:CASES_SHOWN]]
    width = max((len(label) for label, _ in rows), default=0)
    for label, metric in rows:
        before, now, difference = pair(metric)
        lines.append(f"  {label:<{width}}  {before} → {now} ({difference})")

    suite = SuiteReport(slug="", suite_path="", decision=undecided(run), candidate=run, comparison=comparison)
    lines += wrapped((clean(text) for _, text in case_sets(suite)), rest="  ")
    if regressed := [row for row in comparison.case_regressions if row.regressed]:
        lines += ["Regressed:", *_regressed(regressed, comparison)]
    if less_often := [f"  {shown_name(row.case_id, 40)}: {rates(row)} trials" for row in fallen(comparison)]:
        lines += ["Pass less often:", *less_often[:CASES_SHOWN], *_more(less_often)]
    return "\n".join([*lines, f"Comparison: {shown_name(path, 1000)}"])


def _more(listed: Sequence[object], what: str = "") -> list[str]:
    more = len(listed) - CASES_SHOWN
    return [f"  and {more:,} more{what}"] if more > 0 else []


def _regressed(rows: Sequence[CaseRegression], comparison: Comparison) -> list[str]:
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
            judges = dict.fromkeys(each.judge_id for each in conversation.criteria)
            worse = [each for judge_id in judges for each in conversation.worse(judge_id)]
            for each in worse[:CRITERIA_SHOWN]:
                words = f"{shown_name(each.criterion, 120)}: {clean(each.reason, limit=200)}"
                lines += wrapped([words], first="    - ", rest="      ")
            conversations.clear()
    return lines + _more(rows)


def gate_text(
    decision: GateDecision,
    path: str,
    *,
    comparison: Comparison | None = None,
    colour: bool = False,
    verbose: bool = False,
) -> str:
    """Render the result of `gate` as the comment has it: how it ended, why, what to do, the cases.

    `comparison` is the one that it was made on; None for a run alone. With `verbose`, the counts and limits
    that it rests on.
    """
    # Of a run of which the decision alone is at hand, nothing is shown.
    run_id = decision.candidate_run_id
    run = RunReference(run_id=run_id, dataset_id="", summary=Tally().summary(run_id, ""))
    if comparison is not None:
        run = comparison.candidate
    suite = SuiteReport(slug="", suite_path="", decision=decision, candidate=run, comparison=comparison)
    story = story_of(suite, is_evaluated=not decision.not_evaluated)
    first = wrapped([clean(f"{SIGNS[story.state]} {story.headline}")], rest="  ")
    to_do = f"To do: {story.to_do}" if story.to_do else ""
    paragraphs = map(clean, filter(None, [story.lead, story.why, to_do]))
    lines = [painted(line, _COLOURS[story.state], colour) for line in first]
    lines += wrapped(paragraphs, first="  ", rest="  ")
    for group in story.groups[:CASES_SHOWN]:
        text = f"{_ids(group.case_ids)}: {clean(group.why, limit=300)} (now {group.now}, main {group.main})"
        lines += wrapped([text], first=f"  {_MARKS[group.state]} ", rest="     ")
    lines += _more(story.groups, " kinds of failure")
    lines += _findings([*story.findings, *(Finding("skipped", note) for note in story.notes[:_NOTES_SHOWN])])
    lines += _findings([Finding("skipped", text) for text in story.set_aside[:_NOTES_SHOWN]])
    if verbose:
        # The counts of the cases that newly fail, and the limits.
        counts = [
            f"{_ids(case_ids)}, {row.words}: main {row.main}, first run {row.first}, run again: "
            f"main {row.base}, here {row.change}"
            for _, case_ids, row in story.by_counts[:CASES_SHOWN]
        ]
        lines += wrapped(counts, first="  -- ", rest="     ")
        lines += _findings([Finding(rule.state, rule.text) for rule in story.rules if rule.state != "failed"])
    return "\n".join([*lines, f"Decision: {shown_name(path, 1000)}"])


def _ids(case_ids: Sequence[str]) -> str:
    names = ", ".join(shown_name(case_id, 60) for case_id in case_ids[:_IDS_SHOWN])
    more = len(case_ids) - _IDS_SHOWN
    return f"{names} and {more:,} more" if more > 0 else names


def _findings(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        lines += wrapped([clean(finding.text, limit=600)], first=f"  {_MARKS[finding.state]} ", rest="     ")
    return lines

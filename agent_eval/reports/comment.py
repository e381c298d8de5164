"""Render the comment on a change: what happened, what to do, a line of numbers, cases, the rest folded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from agent_eval.contracts import GateStatus
from agent_eval.reports import cases, decision
from agent_eval.reports import suite as suite_section
from agent_eval.reports.blocks import alert, bullets, document, folded
from agent_eval.reports.counts import judging_words, not_judged, passing
from agent_eval.reports.detail import COMMENT, FULL, Detail, characters, fit, utf8_bytes
from agent_eval.reports.history import placed
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.replay import differing_replay
from agent_eval.reports.story import NOT_EVALUATED, SIGNS, Story, overall, state_of, story_of
from agent_eval.text.escape import code_span, fence, link, plain, prose
from agent_eval.text.numbers import count


def render_comment(report: EvaluationReport, marker: str, *, limit: int) -> str:
    """Render the comment as markdown, `marker` first. Every text in the report may be hostile.

    Args:
        marker: An HTML comment that identifies the comment, `<!-- … -->`; it is not escaped.
        limit: Characters that the platform accepts. Detail is dropped to keep to it; below some 2,000
            characters the shortest version may be longer.
    """

    def render(detail: Detail) -> str:
        if report.run_url is not None:
            there = f"see the {report.full_report}"
            detail = replace(detail, elsewhere=there, cases_elsewhere=there)
        pointers = _pointers(report, detail)
        if len(report.suites) == 1 and is_calm(report, report.suites[0]):
            return document([marker, *_calm(report, pointers, detail)])
        blocks = [*evaluation(report, replace(detail, calm=True), ""), pointers, _placed(report, detail)]
        return document([marker, *blocks])

    regressed = cases.most_regressed(suite.comparison for suite in report.suites)
    return fit(render, COMMENT, limit=limit, size=characters, regressed=regressed)


def _pointers(report: EvaluationReport, detail: Detail) -> str:
    if not detail.links and report.run_url:
        return f"The full report is in the {report.full_report}."
    full = f"Full report: {link(report.full_report, report.run_url)}" if report.run_url else ""
    return " · ".join(part for part in (full, evidence(report, detail)) if part)


_LEVELS = tuple(
    replace(
        level,
        elsewhere="see the evidence",
        cases_elsewhere="see `case_regressions` in `compare/baseline_delta.json` in the evidence",
    )
    for level in FULL
)


def render_summary(report: EvaluationReport, *, limit: int) -> str:
    """Render the full report as markdown. Every text in it may be hostile.

    `limit` is in bytes of UTF-8. Detail is dropped to keep to it, as in the comment.
    """

    def render(detail: Detail) -> str:
        return document(evaluation(report, detail, evidence(report, detail)))

    regressed = cases.most_regressed(suite.comparison for suite in report.suites)
    return fit(render, _LEVELS, limit=limit, size=utf8_bytes, regressed=regressed)


def is_calm(report: EvaluationReport, suite: SuiteReport) -> bool:
    """Whether there is nothing in a suite to look at: three lines are enough in a comment."""
    comparison = suite.comparison
    if report.not_evaluated or report.warnings or not report.run_url:
        return False
    if suite.status is not GateStatus.PASSED or comparison is None or suite.nothing_shared:
        return False
    sets = comparison.cases
    story = story_of(suite)
    to_look_at = (
        comparison.overview.regressed_cases,
        [*sets.new, *sets.changed, *sets.removed],
        suite_section.notices_of(suite),
        [*story.cases, *story.findings, *story.set_aside],
        not_judged(suite.candidate.summary),
        suite.baseline_note,
    )
    return not any(to_look_at)


def _calm(report: EvaluationReport, pointers: str, detail: Detail) -> list[str]:
    suite = report.suites[0]
    last = f"{_compared(suite, report, detail)} {pointers} {_placed(report, detail)}".strip()
    notes = decision.notes(story_of(suite), detail)
    numbers = suite_section.numbers_line(suite, detail)
    return [heading(report, detail), notes, numbers, last, _rule_changes(report, detail)]


def _placed(report: EvaluationReport, detail: Detail) -> str:
    """Place the rates of the suites among those of the base branch's last runs; empty without a history."""
    lines = []
    for suite in report.worst_first[: detail.suite_lines]:
        history = suite.history
        if history is None or not report.is_evaluated(suite):
            continue
        words = placed(history.own, history.earlier, plain(history.branch, limit=60))
        if words:
            name = f"{code_span(suite.slug, limit=detail.name)}: " if len(report.suites) > 1 else ""
            lines.append(f"{name}{words}.")
    return f"Scored trials that passed: {' '.join(lines)}" if lines else ""


def evaluation(report: EvaluationReport, detail: Detail, pointers: str) -> list[str]:
    """Render a report as blocks: heading, what happened, warnings, and each suite, worst first."""
    if len(report.suites) == 1:
        return [*_one_suite(report, detail), pointers]
    suites = [suite for suite in report.worst_first if not (detail.calm and is_calm(report, suite))]
    # The suites that regressed share the room for cases, so that one does not bury the next.
    share = max(1, sum(bool(suite.causes) for suite in suites[: detail.suites]))
    each = replace(
        detail,
        cases=max(1, detail.cases // share) if detail.cases else 0,
        listed=max(1, detail.listed // share) if detail.listed else 0,
    )
    blocks = [heading(report, detail), _suite_list(report, detail), *_cautions(report, detail)]
    for suite in suites[: detail.suites]:
        story = _story(suite, report)
        title = story.word if report.is_evaluated(suite) else NOT_EVALUATED
        blocks += [
            f"## {story.sign} {plain(suite.slug, limit=detail.name)}: {title}",
            decision.box(story, detail, boxes=report.boxes),
            *_sections(suite, report, each),
        ]
    return [*blocks, pointers]


def _one_suite(report: EvaluationReport, detail: Detail) -> list[str]:
    suite = report.suites[0]
    story = story_of(suite, is_evaluated=report.is_evaluated(suite))
    box = decision.box(story, detail, boxes=report.boxes)
    return [heading(report, detail), box, *_cautions(report, detail), *_sections(suite, report, detail)]


def _compared(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> str:
    """Name the evaluation, as a change can have several comments, and what it was compared with."""
    name = f"{plain(report.title, limit=detail.name)}: " if len(report.suites) == 1 else ""
    return f"{name}{suite_section.compared_with(suite, report.head_sha, detail)}".strip().removesuffix(":")


def heading(report: EvaluationReport, detail: Detail) -> str:
    """Write the first line: the sign, and how it ended in one sentence."""
    return f"## {SIGNS[state_of(report)]} {decision.escaped(overall(report), detail)}"


def evidence(report: EvaluationReport, detail: Detail) -> str:
    """Link the evidence and the HTML report; empty when their places are unknown."""
    places = (("Evidence", report.evidence_name), ("HTML report", report.html_name))
    return " · ".join(
        f"{label}: {link(code_span(name, limit=detail.name), report.evidence_url)}"
        for label, name in places
        if name
    )


def _sections(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> list[str]:
    """Render what follows how a suite ended: figures, cases, what was found, and the rest folded."""
    if not report.is_evaluated(suite):
        return _sections_of_no_decision(suite, report, detail)
    comparison, story = suite.comparison, story_of(suite)
    failing = [row["case_id"] for row in suite.failing]
    return [
        suite_section.numbers_line(suite, detail),
        _compared(suite, report, detail),
        _not_judged(suite, report, detail),
        suite_section.other_rules(suite, detail),
        decision.findings(story, detail),
        decision.blocking_cases(story, detail),
        *cases.regressed(suite, partial(report.reproduce_command, suite), detail),
        *cases.failing(suite, detail),
        suite_section.case_set(comparison, failing, detail),
        decision.notes(story, detail),
        suite_section.notices(suite, detail),
        *differing_replay(suite.replay, detail),
        *judging_words(suite.candidate.summary),
        *decision.other_cases(story, detail),
        *suite_section.behind_a_click(suite, story, detail, tool_version=report.tool_version),
    ]


def _sections_of_no_decision(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> list[str]:
    """Render what a run shows that nothing was decided on: its cases, and no change of them."""
    alone = replace(suite, comparison=None)
    return [
        passing(suite.candidate.summary),
        _compared(suite, report, detail),
        _not_judged(suite, report, detail),
        *cases.failing(alone, detail),
        *judging_words(suite.candidate.summary),
        *suite_section.figures_alone(alone, detail),
        *suite_section.provenance(suite, detail, tool_version=report.tool_version),
    ]


def _not_judged(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> str:
    """List the answers and fields that nothing looked at, which readers of "passed" must know of first."""
    sentences = [prose(sentence, limit=2 * detail.quote) for sentence in not_judged(suite.candidate.summary)]
    return alert("WARNING", sentences, boxes=report.boxes)


def _suite_list(report: EvaluationReport, detail: Detail) -> str:
    lines = []
    for suite in report.worst_first[: detail.suite_lines]:
        story = _story(suite, report)
        slug = code_span(suite.slug, limit=detail.name)
        lines.append(f"{story.sign} {slug}: {decision.escaped(story.sentence, detail)}")
    hidden = len(report.suites) - len(lines)
    if hidden:
        lines.append(f"and {count(hidden, 'more suite')}, {detail.elsewhere}")
    return bullets(lines)


def _story(suite: SuiteReport, report: EvaluationReport) -> Story:
    return story_of(suite, is_evaluated=report.is_evaluated(suite))


def _cautions(report: EvaluationReport, detail: Detail) -> list[str]:
    return [_rule_changes(report, detail), _warnings(report, detail)]


def _rule_changes(report: EvaluationReport, detail: Detail) -> str:
    """What the change makes of the rules, in a fold: it decided nothing here."""
    changes = report.rule_changes
    sentences = [prose(change, limit=2 * detail.quote) for change in changes.sentences[: detail.sentences]]
    diffs = [fence("\n".join(lines), limit=8 * detail.quote, language="diff") for _, lines in changes.diffs]
    return folded("New rules in this change hold once it is merged", [bullets(sentences), *diffs])


def _warnings(report: EvaluationReport, detail: Detail) -> str:
    lines = [f"⚠️ {prose(warning, limit=2 * detail.quote)}" for warning in report.warnings[: detail.sentences]]
    hidden = len(report.warnings) - len(lines)
    if hidden:
        lines.append(f"and {count(hidden, 'more warning')}, {detail.elsewhere}")
    return alert("WARNING", lines, boxes=report.boxes)

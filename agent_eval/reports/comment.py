"""The pull request comment: the decision and why, the change in numbers, the cases, the rest folded."""

from __future__ import annotations

from dataclasses import replace

from agent_eval.contracts import GateStatus
from agent_eval.reports import suite_section
from agent_eval.reports.blocks import bullets, document
from agent_eval.reports.detail import COMMENT, Detail, characters, fit
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.wording import ICONS, WORDS, joined, overall, why
from agent_eval.text.markdown import code_span, link, plain, prose

COMMENT_LIMIT = 65_536
"""Characters GitHub accepts in a comment."""


def render_comment(report: EvaluationReport, marker: str, *, limit: int = COMMENT_LIMIT) -> str:
    """The comment as markdown, `marker` first.

    Args:
        report: What was evaluated and decided; every text in it may be hostile.
        marker: An HTML comment that identifies the comment, `<!-- … -->`; the caller vouches for it.
        limit: Characters allowed. Detail is dropped to keep to it; below some 2,000 characters the shortest
            version may be longer.
    """
    return fit(lambda detail: _render(report, marker, detail), COMMENT, limit=limit, size=characters)


def body(report: EvaluationReport, detail: Detail) -> list[str]:
    """A whole report as blocks, without marker and pointers."""
    if len(report.suites) == 1:
        suite = report.suites[0]
        return [
            f"## {ICONS[suite.status]} {plain(report.title, limit=detail.name)}: {WORDS[suite.status]}",
            *_warnings(report, detail),
            *_sections(suite, report, detail),
        ]
    shown = report.worst_first[: detail.suites]
    # The room for cases is shared, so that the tenth suite's cases do not bury the first one's.
    share = replace(detail, cases=max(1, detail.cases // max(1, len(shown)))) if detail.cases else detail
    blocks = [
        f"## {ICONS[report.status]} {plain(report.title, limit=detail.name)}: {WORDS[report.status]}",
        f"**{overall(report)}**",
        *_warnings(report, detail),
        _suite_list(report, detail),
    ]
    for suite in shown:
        blocks += _suite_part(suite, report, share)
    return blocks


def _render(report: EvaluationReport, marker: str, detail: Detail) -> str:
    return document([marker, *body(report, detail), _pointers(report, detail)])


def _sections(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> list[str]:
    def quote(sentence: str) -> str:
        return prose(sentence, limit=2 * detail.quote)

    reasons = why(suite, quote)[: detail.sentences]
    failing_ids = [row["case_id"] for row in suite.failing]
    return [
        f"**{joined(reasons)}**" if suite.status is not GateStatus.PASSED else joined(reasons),
        suite_section.compared_with(suite, report.head_sha, detail),
        suite_section.case_set(suite.comparison, failing_ids, detail),
        suite_section.notices(suite.comparison, detail),
        *suite_section.numbers(suite, detail),
        *suite_section.regressed(suite, report, detail),
        *suite_section.failing(suite, detail),
        *suite_section.behind_a_click(suite, report, detail),
    ]


def _suite_part(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> list[str]:
    name = plain(suite.slug, limit=detail.name)
    title = f"## {ICONS[suite.status]} {name}: {WORDS[suite.status]}"
    return [title, *_sections(suite, report, detail)]


def _suite_list(report: EvaluationReport, detail: Detail) -> str:
    def line(suite: SuiteReport) -> str:
        first = why(suite, lambda sentence: prose(sentence, limit=detail.quote))[0]
        return f"{ICONS[suite.status]} {code_span(suite.slug, limit=detail.name)}: {first}"

    lines = [line(suite) for suite in report.worst_first[: detail.suite_lines]]
    hidden = len(report.suites) - len(lines)
    if hidden:
        lines.append(f"and {hidden:,} more suites, see the full report")
    return bullets(lines)


def _warnings(report: EvaluationReport, detail: Detail) -> list[str]:
    shown = [
        f"> ⚠️ {prose(warning, limit=2 * detail.quote)}" for warning in report.warnings[: detail.sentences]
    ]
    return ["\n>\n".join(shown)] if shown else []


def _pointers(report: EvaluationReport, detail: Detail) -> str:
    if not detail.links:
        return "The full report is in the job's summary."
    parts = [f"Full report: {link('job summary', report.run_url)}"]
    if report.evidence_name:
        name = code_span(report.evidence_name, limit=detail.name)
        parts.append(f"Evidence: {link(name, report.evidence_url)}")
    return " · ".join(parts)

"""Render the comment on a change: the decision and why, the change in numbers, the cases, the rest folded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from agent_eval.contracts import GateStatus
from agent_eval.reports import suite as suite_section
from agent_eval.reports.blocks import bullets, document
from agent_eval.reports.counts import not_judged
from agent_eval.reports.decision import certainty, counting_again, left_out
from agent_eval.reports.detail import COMMENT, FULL, Detail, characters, fit, utf8_bytes
from agent_eval.reports.model import EvaluationReport, SuiteReport
from agent_eval.reports.sentences import ICONS, decision_word, overall, sentence, suite_why
from agent_eval.reports.suite import most_regressed
from agent_eval.text.escape import code_span, link, plain, prose
from agent_eval.text.numbers import count


def render_comment(report: EvaluationReport, marker: str, *, limit: int) -> str:
    """Render the comment as markdown, `marker` first.

    Args:
        report: What was evaluated and decided; every text in it may be hostile.
        marker: An HTML comment that identifies the comment, `<!-- … -->`; it is not escaped.
        limit: Characters that the platform accepts. Detail is dropped to keep to it; below some 2,000
            characters the shortest version may be longer.
    """

    def render(detail: Detail) -> str:
        if report.run_url is not None:
            there = f"see the {report.full_report}"
            detail = replace(detail, elsewhere=there, cases_elsewhere=there)
        return document([marker, *evaluation(report, detail), _pointers(report, detail)])

    regressed = most_regressed(suite.comparison for suite in report.suites)
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
    """Render the full report as markdown.

    Args:
        report: What was evaluated and decided; every text in it may be hostile.
        limit: Bytes of UTF-8 that the platform accepts. Detail is dropped to keep to it, as in the comment.
    """

    def render(detail: Detail) -> str:
        return document([*evaluation(report, detail), evidence(report, detail)])

    regressed = most_regressed(suite.comparison for suite in report.suites)
    return fit(render, _LEVELS, limit=limit, size=utf8_bytes, regressed=regressed)


NOT_EVALUATED = ("🛑", "not evaluated")
"""Shown in the heading in place of a decision where none was possible."""


def evaluation(report: EvaluationReport, detail: Detail) -> list[str]:
    """Render a report as blocks: heading, warnings, and each suite, worst first."""
    title = f"## {heading(report, report.title, detail)}"
    if report.not_evaluated:
        icon, word = NOT_EVALUATED
        title = f"## {icon} {plain(report.title, limit=detail.name)}: {word}"
        title += f"\n\n**{prose(report.not_evaluated, limit=2 * detail.quote)}**"
    if len(report.suites) == 1:
        top = [title, _rule_changes(report, detail), _warnings(report, detail)]
        return [*top, *_sections(report.suites[0], report, detail)]
    suites = report.worst_first[: detail.suites]
    # The suites share the room for cases, so that one suite's cases do not bury the next suite.
    share = max(1, len(suites))
    each = replace(
        detail,
        cases=max(1, detail.cases // share) if detail.cases else 0,
        listed=max(1, detail.listed // share) if detail.listed else 0,
    )
    blocks = [title, _rule_changes(report, detail), f"**{overall(report)}**", _warnings(report, detail)]
    blocks.append(_suite_list(report, detail))
    for suite in suites:
        blocks.append(f"## {heading(suite, suite.slug, detail)}")
        blocks += _sections(suite, report, each)
    return blocks


def heading(decided: EvaluationReport | SuiteReport, name: str, detail: Detail) -> str:
    """`❌ Agent evaluation: failed`."""
    word = decision_word(decided.status, shares_nothing=decided.nothing_shared)
    return f"{ICONS[decided.status]} {plain(name, limit=detail.name)}: {word}"


def evidence(report: EvaluationReport, detail: Detail) -> str:
    """Link the evidence; empty when its place is unknown."""
    if not report.evidence_name:
        return ""
    return f"Evidence: {link(code_span(report.evidence_name, limit=detail.name), report.evidence_url)}"


def _sections(suite: SuiteReport, report: EvaluationReport, detail: Detail) -> list[str]:
    comparison = suite.comparison
    reasons = sentence(suite_why(suite, partial(prose, limit=2 * detail.quote))[: detail.sentences])
    failing = [row["case_id"] for row in suite.failing]
    # Statistics come first where they are the reason; otherwise a reader wants the cases first.
    undecided = suite.status is GateStatus.INCONCLUSIVE
    certain = certainty(suite.decision, detail)
    return [
        reasons if suite.status is GateStatus.PASSED else f"**{reasons}**",
        _not_judged(suite, detail),
        suite_section.compared_with(suite, report.head_sha, detail),
        suite_section.case_set(comparison, failing, detail),
        suite_section.notices(comparison, detail),
        *suite_section.numbers(comparison, detail),
        *(certain if undecided else []),
        left_out(suite.decision, detail),
        counting_again(suite.decision, detail),
        *suite_section.regressed(comparison, partial(report.reproduce_command, suite), detail),
        *suite_section.failing(suite, detail),
        *([] if undecided else certain),
        *suite_section.behind_a_click(
            suite.candidate,
            comparison,
            suite.decision,
            detail,
            suite_path=suite.suite_path,
            tool_version=report.tool_version,
        ),
    ]


def _not_judged(suite: SuiteReport, detail: Detail) -> str:
    """List the answers and fields that nothing looked at, which readers of "passed" must know of first."""
    sentences = not_judged(suite.candidate.summary)
    return "\n>\n".join(f"> ⚠️ {prose(sentence, limit=2 * detail.quote)}" for sentence in sentences)


def _suite_list(report: EvaluationReport, detail: Detail) -> str:
    quote = partial(prose, limit=detail.quote)
    lines = []
    for suite in report.worst_first[: detail.suite_lines]:
        name = f"{ICONS[suite.status]} {code_span(suite.slug, limit=detail.name)}"
        lines.append(f"{name}: {sentence(suite_why(suite, quote)[:1])}")
    hidden = len(report.suites) - len(lines)
    if hidden:
        lines.append(f"and {count(hidden, 'more suite')}, {detail.elsewhere}")
    return bullets(lines)


def _rule_changes(report: EvaluationReport, detail: Detail) -> str:
    changes = report.rule_changes
    if not changes.sentences:
        return ""
    lines = [
        f"- {prose(change, limit=2 * detail.quote)}" for change in changes.sentences[: 2 * detail.sentences]
    ]
    hidden = len(changes.sentences) - len(lines)
    if hidden:
        lines.append(f"- and {count(hidden, 'more difference')}, {detail.elsewhere}")
    return "\n".join(f"> {line}".rstrip() for line in [f"⚠️ **{changes.title}**", "", *lines])


def _warnings(report: EvaluationReport, detail: Detail) -> str:
    warnings = report.warnings[: detail.sentences]
    lines = [f"> ⚠️ {prose(warning, limit=2 * detail.quote)}" for warning in warnings]
    hidden = len(report.warnings) - len(warnings)
    if hidden:
        lines.append(f"> and {count(hidden, 'more warning')}, {detail.elsewhere}")
    return "\n>\n".join(lines)

"""The pull request comment: the decision and why, the change in numbers, the cases, the rest folded."""

from __future__ import annotations

from dataclasses import replace

from agent_eval.reports.blocks import document
from agent_eval.reports.detail import COMMENT, Detail, characters, fit
from agent_eval.reports.evaluation import evaluation, evidence
from agent_eval.reports.model import EvaluationReport
from agent_eval.reports.suite_section import most_regressed
from agent_eval.text.markdown import link

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

    def render(detail: Detail) -> str:
        if report.run_url is None:
            there = "see the full report"
            detail = replace(detail, elsewhere=there, cases_elsewhere=there)
        return document([marker, *evaluation(report, detail), _pointers(report, detail)])

    regressed = most_regressed(suite.comparison for suite in report.suites)
    return fit(render, COMMENT, limit=limit, size=characters, regressed=regressed)


def _pointers(report: EvaluationReport, detail: Detail) -> str:
    if not detail.links and report.run_url:
        return "The full report is in the job summary."
    full = f"Full report: {link('job summary', report.run_url)}" if report.run_url else ""
    return " · ".join(part for part in (full, evidence(report, detail)) if part)

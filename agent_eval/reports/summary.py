"""The job summary: the same report with everything there is room for."""

from __future__ import annotations

from dataclasses import replace

from agent_eval.reports.blocks import document
from agent_eval.reports.detail import FULL, Detail, fit, utf8_bytes
from agent_eval.reports.evaluation import evaluation, evidence
from agent_eval.reports.model import EvaluationReport

SUMMARY_LIMIT = 1024 * 1024
"""Bytes GitHub accepts in the summary of one step."""

_LEVELS = tuple(replace(level, elsewhere="see the evidence") for level in FULL)


def render_summary(report: EvaluationReport, *, limit: int = SUMMARY_LIMIT) -> str:
    """The full report as markdown for `$GITHUB_STEP_SUMMARY`.

    Args:
        report: What was evaluated and decided; every text in it may be hostile.
        limit: Bytes of UTF-8 allowed. Detail is dropped to keep to it, as in the comment.
    """

    def render(detail: Detail) -> str:
        return document([*evaluation(report, detail), evidence(report, detail)])

    return fit(render, _LEVELS, limit=limit, size=utf8_bytes)

"""The job summary: the same report with everything there is room for."""

from __future__ import annotations

from dataclasses import replace

from agent_eval.reports.blocks import document
from agent_eval.reports.detail import FULL, SUMMARY_LIMIT, Detail, fit, utf8_bytes
from agent_eval.reports.evaluation import evaluation, evidence
from agent_eval.reports.model import EvaluationReport
from agent_eval.reports.suite_section import most_regressed

_LEVELS = tuple(
    replace(
        level,
        elsewhere="see the evidence",
        cases_elsewhere="see `case_regressions` in `compare/baseline_delta.json` in the evidence",
    )
    for level in FULL
)


def render_summary(report: EvaluationReport, *, limit: int = SUMMARY_LIMIT) -> str:
    """The full report as markdown for `$GITHUB_STEP_SUMMARY`.

    Args:
        report: What was evaluated and decided; every text in it may be hostile.
        limit: Bytes of UTF-8 allowed. Detail is dropped to keep to it, as in the comment.
    """

    def render(detail: Detail) -> str:
        return document([*evaluation(report, detail), evidence(report, detail)])

    regressed = most_regressed(suite.comparison for suite in report.suites)
    return fit(render, _LEVELS, limit=limit, size=utf8_bytes, regressed=regressed)

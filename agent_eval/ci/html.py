"""The HTML report that the job leaves beside the evidence, for a platform to upload as one file."""

from __future__ import annotations

from pathlib import Path

from agent_eval.ci.context import JobContext
from agent_eval.ci.evaluate import Evaluation
from agent_eval.ci.inputs import INPUT_BY_NAME
from agent_eval.ci.workspace import html_name
from agent_eval.errors import AgentEvalError
from agent_eval.reports.model import EvaluationReport
from agent_eval.storage.atomic import write_file


def write_html(evaluation: Evaluation, report: EvaluationReport, job: JobContext) -> Path | None:
    """Write the report of all suites as one file; None where it is not wanted, or cannot be written.

    A decision does not depend on it, so the job warns where it cannot be written, and goes on.
    """
    settings = job.settings
    if not settings.html_report:
        return None
    # Templates and their engine take a moment to load; without a report they are not needed.
    from agent_eval.reports.html.evidence import SuiteEvidence
    from agent_eval.reports.html.page import HtmlReport, render_html

    evidence = {
        suite.target.slug: SuiteEvidence(
            candidate=suite.evidence,
            baseline=suite.baseline.pack if suite.baseline is not None else None,
            place=str(suite.pack),
            redactor=job.redactor,
        )
        for suite in evaluation.suites
    }
    path = settings.out / _name(evaluation, settings.comment_id)
    try:
        page = job.redactor.of_secrets.redact_text(render_html(HtmlReport(report=report, evidence=evidence)))
        write_file(path, page.encode("utf-8", "replace"))
    except AgentEvalError as error:
        job.platform.warn(f"The HTML report could not be written: {error.message}")
        return None
    return path


def _name(evaluation: Evaluation, comment_id: str) -> str:
    """Name the file after its suite, else after the evaluation: artifacts of a run must not share a name."""
    if len(evaluation.suites) == 1:
        return html_name(evaluation.suites[0].target.slug)
    return html_name("report" if comment_id == INPUT_BY_NAME["comment-id"].default else comment_id)

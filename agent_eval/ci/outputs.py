"""The job's results as people and later steps read them: report, outputs, log and exit code."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from agent_eval import __version__
from agent_eval.ci.baseline import Lack, age_in_words
from agent_eval.ci.config import OUTPUTS, Settings
from agent_eval.ci.decide import Evaluation, SuiteEvaluation
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.rules import JobContext
from agent_eval.ci.workspace import REPORT_NAME
from agent_eval.config.assembly import command_line
from agent_eval.contracts import CaseResultRow, GateStatus, RunLimits
from agent_eval.errors import AgentEvalError, ExitCode
from agent_eval.history.records import record_of
from agent_eval.reports.model import (
    UNASKED,
    BaselineInfo,
    EvaluationReport,
    RuleChanges,
    SuiteHistory,
    SuiteReport,
)
from agent_eval.reports.story import clause, rest_of, story_of
from agent_eval.text.escape import clean, fence, plain, prose
from agent_eval.text.numbers import count

ERROR = "error"
"""The outcome when something could not be evaluated."""

MAX_FAILING = 2_000
MAX_NOTES = 4
MAX_SUITES = 3
"""Suites whose reasons the line has room for."""
MAX_OUTPUT = 6_000
"""Characters of what a failed `setup` printed."""

# Worst first.
_ORDER = (
    ERROR,
    GateStatus.FAILED.value,
    GateStatus.INCONCLUSIVE.value,
    GateStatus.NO_BASELINE.value,
    GateStatus.PASSED.value,
)


def report_of(evaluation: Evaluation, job: JobContext) -> EvaluationReport:
    """Build the report that the renderers take."""
    settings, run, rules = job.settings, job.platform.run, job.rules
    own = [
        f"By these rules `{suite.target.slug}` would have ended as {suite.own_outcome.value}."
        for suite in evaluation.suites
        if suite.own_outcome is not None
    ]
    # The command that does the same with one case, for which the limits of a whole run do not matter.
    stated = job.stated or settings
    agent = replace(stated.agent, parallel=1) if stated.agent is not None else None
    words = command_line("run", replace(stated, agent=agent, limits=replace(stated.limits, run=RunLimits())))
    extra = "".join(f" {shlex.quote(word)}" for word in words).replace("{", "{{").replace("}", "}}")
    return EvaluationReport(
        title=settings.report_title,
        comment_id=settings.comment_id,
        suites=[_suite(suite, evaluation, job.clock()) for suite in evaluation.suites],
        run_url=run.run_url,
        head_sha=run.head_sha,
        evidence_name=settings.evidence_name if run.run_url else str(evaluation.archive or ""),
        evidence_url=run.evidence_url,
        full_report=job.platform.spec.words.full_report,
        # The cause of an outage is said at the top already.
        warnings=[
            *rules.warnings,
            *(warning for warning in evaluation.search.warnings if warning not in evaluation.problem),
        ],
        rule_changes=RuleChanges(
            sentences=[*rules.pending, *own], diffs=[(row.path, row.diff) for row in rules.changes]
        ),
        reproduce=f"agent-eval run --suite {{suite}} --case {{case}}{extra} --out reproduce",
        tool_version=__version__,
        not_evaluated=evaluation.problem,
        boxes=job.platform.spec.alert_boxes,
    )


def outcome_of(evaluation: Evaluation) -> str:
    """Name the worst outcome; it is an error where there is no decision to rely on."""
    if evaluation.problem:
        return ERROR
    return min((suite.decision.gate_status.value for suite in evaluation.suites), key=_ORDER.index)


def exit_code(outcome: str, settings: Settings, *, blocks: bool) -> ExitCode:
    """Choose the exit code of the job from its worst outcome.

    `fail_on` of the settings says whether the gate may fail the job, `blocks` whether a suite's decision
    stops the change: it failed, or is not settled where that blocks.
    """
    if outcome == ERROR:
        return ExitCode.NOT_EVALUABLE
    if settings.fail_on == "never":
        return ExitCode.OK
    if outcome == GateStatus.FAILED.value:
        return ExitCode.NO
    blocked = blocks and outcome == GateStatus.INCONCLUSIVE.value
    return ExitCode.INCONCLUSIVE if blocked else ExitCode.OK


def outputs_of(evaluation: Evaluation, settings: Settings, html_report: Path | None = None) -> dict[str, str]:
    """Set the outputs of a job that evaluated, as `all_outputs`."""
    summaries = [suite.candidate.summary for suite in evaluation.suites]
    total = sum(summary.total_cases for summary in summaries)
    compared = [suite.comparison for suite in evaluation.suites if suite.comparison is not None]
    origin = next((suite.baseline.origin for suite in evaluation.suites if suite.baseline), None)
    outcome = outcome_of(evaluation)
    # The evidence of another run is not offered: a step would upload it as this repository's own.
    archive = str(evaluation.archive) if evaluation.archive is not None else ""
    regressed = sum(comparison.overview.regressed_cases for comparison in compared)
    new_hard = sum(comparison.overview.new_hard_fail_cases for comparison in compared)
    return all_outputs(
        {
            "outcome": outcome,
            "passed": "true" if outcome == GateStatus.PASSED.value else "false",
            "pass-rate": _rate(sum(summary.passed_cases for summary in summaries), total),
            "hard-fail-rate": _rate(sum(summary.hard_fail_cases for summary in summaries), total),
            "regressed-cases": str(regressed) if compared else "",
            "new-hard-fail-cases": str(new_hard) if compared else "",
            "baseline-run-id": str(origin.run_id) if origin and origin.run_id else "",
            "baseline-sha": origin.sha if origin and origin.sha else "",
            "evidence-pack": "\n".join(str(suite.pack) for suite in evaluation.suites) if archive else "",
            "evidence-archive": archive,
            "report": str(settings.out / REPORT_NAME),
            "html-report": str(html_report) if html_report is not None else "",
        }
    )


def error_report(error: AgentEvalError, title: str, run: CiRun, *, marker: str = "") -> str:
    """Write markdown that says why there is no result, in place of a report.

    The run is read for the commit and the job's page. The marker is empty outside a comment.
    """
    blocks = [
        marker,
        f"## 🛑 Not evaluated: {prose(clause(error.message), begins_line=False)} · {plain(title)}",
        f"**{prose(full_stop(rest), limit=1_000)}**" if (rest := rest_of(error.message)) else "",
        f"**To do:** {prose(error.remedy, limit=1_000)}" if error.remedy else "",
        fence(str(error.details["output"]), limit=MAX_OUTPUT) if error.details.get("output") else "",
        f"Commit {prose(f'`{run.head_sha[:7]}`')}." if run.head_sha else "",
        f"[Job]({run.run_url})" if run.run_url else "",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def verdict_line(report: EvaluationReport, outcome: str) -> str:
    """Say in one line why the job fails, in the words that the comment begins with."""
    if report.not_evaluated:
        return f"{report.title}: {outcome}. {report.not_evaluated}"
    stopping = [suite for suite in report.worst_first if suite.status is report.status]
    sentences = []
    for suite in stopping[:MAX_SUITES]:
        name = f"{suite.slug}: " if len(report.suites) > 1 else ""
        sentences.append(f"{name}{story_of(suite).sentence}")
    more = len(stopping) - len(sentences)
    others = f" And {more} more suites." if more else ""
    return f"{report.title}: {outcome}. {' '.join(sentences)}{others}".strip()


def full_stop(sentence: str) -> str:
    """End a sentence with a full stop, if it has no punctuation at its end."""
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def log_lines(evaluation: Evaluation, outcome: str, html_report: Path | None = None) -> list[str]:
    """Write the result as a few lines of prose for the job's log."""
    lines = [f"Outcome: {outcome}. {evaluation.problem}" if evaluation.problem else f"Outcome: {outcome}"]
    for suite in evaluation.suites:
        summary = suite.candidate.summary
        status = suite.decision.gate_status.value if evaluation.is_decided(suite) else "not evaluated"
        lines.append(
            f"  {suite.target.path}: {status}, {summary.passed_cases} of {summary.total_cases} cases passed"
        )
        if evaluation.is_decided(suite) or suite.decision.not_evaluated:
            # Where the outcome above says why there is none, the decision's tests say nothing.
            decision = suite.decision
            findings = [row.reason for row in decision.safety if row.answer != "known-on-main"]
            rules = [row.reason for row in (decision.suite, decision.release) if row is not None]
            cases = [row.reason for row in decision.cases]
            reasons = [decision.sentence, *cases, *findings, *rules, *decision.notes]
            lines += [f"    {line}" for line in dict.fromkeys(reasons) if line]
        if suite.baseline is not None:
            origin = suite.baseline.origin
            place = f"run {origin.run_id}, commit {(origin.sha or '')[:7]}" if origin.run_id else origin.how
            lines.append(f"    baseline: {place}")
    lines += [f"  {note}" for note in evaluation.search.notes]
    # Each by itself, so that no name of a file can begin another line.
    lines += [f"HTML report: {html_report}"] if html_report is not None else []
    lines += [f"Evidence: {evaluation.archive}"] if evaluation.archive is not None else []
    return [clean(line) for line in lines]


def _suite(suite: SuiteEvaluation, evaluation: Evaluation, now: datetime) -> SuiteReport:
    notes = evaluation.search.notes
    more = len(notes) - MAX_NOTES
    first_notes = [*notes[:MAX_NOTES], f"And {count(more, 'more note')} like these."] if more > 0 else notes
    slug, baseline, history = suite.target.slug, None, None
    if suite.baseline is not None:
        origin = suite.baseline.origin
        baseline = BaselineInfo(
            how=origin.how,
            sha=origin.sha,
            branch=origin.branch,
            run_id=str(origin.run_id) if origin.run_id else None,
            age=age_in_words(origin.created_at, now),
        )
    if (earlier := evaluation.search.earlier.get(slug)) and suite.evidence is not None:
        branch = baseline.branch if baseline is not None else None
        history = SuiteHistory(own=record_of(suite.evidence), earlier=earlier, branch=branch or "main")
    failing: Iterator[CaseResultRow] = (row for row in suite.candidate.results.values() if not row["passed"])
    return SuiteReport(
        slug=slug,
        # The suite of a run that is reported on is not here, so no command can repeat a case.
        suite_path=str(suite.target.path) if evaluation.archive is not None else "",
        decision=suite.decision,
        candidate=suite.candidate.reference(),
        comparison=suite.comparison,
        not_evaluated=suite.unjudged is not None,
        baseline=baseline,
        lack=_LACKS.get(lack, "") if (lack := evaluation.search.lack(slug)) is not None else "",
        baseline_note=" ".join(first_notes),
        failing=list(islice(failing, MAX_FAILING)),
        execution=suite.candidate.config.execution_config,
        history=history,
        reruns=suite.reruns,
    )


_LACKS = {
    Lack.UNASKED: UNASKED,
    Lack.NEW_SUITE: "no earlier run has this suite",
    Lack.LOST: "what earlier runs left is gone",
}
"""Why there is no baseline, where this run is not the first."""


def all_outputs(values: Mapping[str, str]) -> dict[str, str]:
    """Set every output but the comment's address, which is known last; empty where none is given."""
    return {row.name: values.get(row.name, "") for row in OUTPUTS if row.name != "comment-url"}


def _rate(number: int, total: int) -> str:
    return f"{number / total:.6f}".rstrip("0").rstrip(".") if total else ""

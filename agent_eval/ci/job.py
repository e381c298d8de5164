"""The whole CI job, in the order that loses nothing: evidence, summary, outputs, comment, exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from agent_eval.ci import outputs
from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.comment import Published
from agent_eval.ci.config import (
    INPUT_BY_NAME,
    SECRET_INPUTS,
    Settings,
    base_branches_in,
    gather,
    gather_for_comment,
    refuse_unknown_variables,
    settings_from,
    with_settings,
)
from agent_eval.ci.decide import Evaluation
from agent_eval.ci.evaluate import evaluate, evaluate_reported
from agent_eval.ci.place import MAX_BYTES, JobPlace, Versions, find_place
from agent_eval.ci.platforms.base import CiRun, Platform, Reporter
from agent_eval.ci.platforms.catalog import platform_for, reporter_for
from agent_eval.ci.platforms.spec import SUMMARY_LIMIT, PlatformSettings
from agent_eval.ci.rules import (
    Held,
    JobContext,
    hold,
    left_evidence,
    rules_of,
    with_files_of_tip,
)
from agent_eval.ci.workspace import (
    JUNIT_NAME,
    REPORT_NAME,
    give_to_owner,
    guarded,
    html_name,
    refuse_link_out,
    refuse_to_overwrite,
)
from agent_eval.config.project_file import CONFIG_FILE
from agent_eval.contracts import GateStatus
from agent_eval.errors import AgentEvalError, ExitCode, UsageError
from agent_eval.evidence.reader import open_pack
from agent_eval.exporters.junit import junit_lines
from agent_eval.operations import clock
from agent_eval.operations.environment import redactor_for
from agent_eval.operations.packs import paired
from agent_eval.reports.comment import render_comment, render_summary
from agent_eval.reports.model import EvaluationReport
from agent_eval.storage.atomic import new_directory, write_file
from agent_eval.storage.files import read_bytes
from agent_eval.storage.redaction import Redactor
from agent_eval.text.escape import prose

MakePlatform = Callable[[PlatformSettings, Mapping[str, str], TextIO], Platform]


@dataclass
class _Sources:
    """The sources of a job's settings, how its platform is built, and where the job is.

    Attributes:
        file: `agent-eval.yml`, relative to the working directory; None for no file.
        place: None outside of a repository, and where it could not be found.
        clone: The private clone of the checkout, to be closed; None where there is none.
        problem: Why the place is not known; the job ends in this error before it evaluates anything.
    """

    flags: Mapping[str, str]
    environ: Mapping[str, str]
    file: Path | None
    make_platform: Callable[[Settings], Platform]
    redactor: Redactor
    place: JobPlace | None = None
    clone: PrivateClone | None = None
    problem: AgentEvalError | None = None

    def settle(self) -> tuple[Held, Platform, Versions]:
        """Read the settings, each key of `agent-eval.yml` in the version that counts.

        The file may not say where a token goes, so the platform can be asked which commit the job is of
        before it is read.
        """
        platform = self.make_platform(settings_from(gather(self.flags, self.environ, None), complete=False))
        try:
            self._find_place(platform)
        except AgentEvalError as error:
            # A job whose place is not known still reports why.
            self.problem = error
        versions = Versions(
            self.place,
            is_reported=platform.run.reported is not None,
            from_fork=platform.run.from_fork,
        )
        in_force = hold(
            self.flags, self.environ, self.file, versions, lambda: left_evidence(platform, versions)
        )
        refuse_unknown_variables(self.environ, in_force.settings.variables_of_agent)
        return in_force, self.make_platform(in_force.settings), versions

    def _find_place(self, platform: Platform) -> None:
        """Clone the checkout, or of a job that reports on another run that run's commit; find the place."""
        refs, reported = platform.refs, platform.run.reported
        if refs is None:
            return
        head = min(reported.commits) if reported is not None else None
        self.clone = clone = PrivateClone.of(Path.cwd(), self.environ, refs.remote, head=head)
        top = clone.top if reported is None else platform.workspace
        file = Path(os.path.relpath(os.path.abspath(self.file), top)) if self.file is not None else None

        def base_branches(tip: str) -> tuple[str, ...]:
            """Read the trusted branches as of the default branch's tip; none where it cannot be read."""
            if file is not None and not str(file).startswith(".."):
                with suppress(AgentEvalError):
                    data = clone.file(file.as_posix(), tip)
                    return base_branches_in(file, data) if data is not None else ()
            return ()

        self.place = find_place(refs, clone, platform.tip, base_branches)

    def at(self, directory: Path) -> Settings:
        """Read the settings with the `agent-eval.yml` of another checkout."""
        path = directory / self.file if self.file is not None else None
        content = read_bytes(path, max_bytes=MAX_BYTES) if path is not None and path.is_file() else None
        named = self.file if content is not None else None
        return settings_from(gather(self.flags, self.environ, named, content=content))


def run_job(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    stream: TextIO,
    *,
    config_file: Path | None = Path(CONFIG_FILE),
    make_platform: MakePlatform = platform_for,
) -> ExitCode:
    """Evaluate, compare, decide and report.

    `flags` has the values of the command line by input name; the job's log goes to `stream`. By default the
    platform is the one that the environment variables show.

    Raises `AgentEvalError` where the settings or the runner's environment are wrong, and the platform has no
    reporter that works without settings. Every later error is reported there and ends in an exit code.
    """
    redactor = redactor_for(environ, *(flags.get(name, "") for name in SECRET_INPUTS))

    def redacting(settings: Settings) -> Platform:
        return make_platform(settings.for_platform, environ, stream).redacted_by(redactor)

    sources = _Sources(flags, environ, config_file, redacting, redactor)
    try:
        try:
            sources.flags, named = with_settings(flags, environ)
            sources.file = named or config_file
            in_force, platform, versions = sources.settle()
        except AgentEvalError as error:
            _report_wrong_settings(error, sources, reporter_for(environ, stream))
            return error.exit_code
        try:
            return _evaluate_and_report(_context(sources, in_force, platform, versions))
        except AgentEvalError as error:
            error.message = redactor.with_rules(in_force.settings.redaction).redact_text(error.message)
            _tell(error, in_force.settings.report_title, platform, platform.run)
            _comment_error(error, in_force.settings, platform)
            return error.exit_code
        finally:
            give_to_owner(in_force.settings.out, Path.cwd())
    finally:
        if sources.clone is not None:
            sources.clone.close()


def _context(sources: _Sources, in_force: Held, platform: Platform, versions: Versions) -> JobContext:
    """Refuse a job that may not be evaluated, and read the rules that it is judged by."""
    stated, fork_event = in_force.settings, platform.run.fork_event
    if fork_event and not stated.allow_fork_with_secrets:
        raise UsageError(
            "This job has secrets and would run a fork's code: a job of "
            f"`{fork_event}` gives it the token of this repository, so nothing was evaluated.",
            remedy=f"{platform.spec.remedies.run_fork} If a person approves each of these jobs, set "
            "`allow-fork-with-secrets: true` in the workflow.",
            field="allow-fork-with-secrets",
        )
    if sources.problem is not None:
        raise sources.problem
    refuse_link_out(stated.out, Path.cwd())
    if platform.run.reported is None:
        if stated.report_run_id is not None:
            raise UsageError(
                "`report-run-id` is not known on this platform.",
                remedy="Leave it out, and give `suite`.",
                field="report-run-id",
            )
        refuse_to_overwrite(stated.out)
    rules = rules_of(in_force, versions)
    settings = with_files_of_tip(in_force, versions)
    return JobContext(
        settings=settings,
        platform=platform,
        environ=sources.environ,
        redactor=sources.redactor.with_rules(settings.redaction),
        rules=rules,
        clock=partial(clock.now, sources.environ),
        stated=stated,
        place=sources.place,
        settings_at=sources.at,
    )


def _evaluate_and_report(job: JobContext) -> ExitCode:
    settings, platform = job.settings, job.platform
    # What the runner takes commands from is written below, once no code of the change runs any more.
    with guarded(platform.spec.command_files, job.environ):
        reported = platform.run.reported
        evaluation = evaluate(job) if reported is None else evaluate_reported(job, reported)
    report = outputs.report_of(evaluation, job)
    html_report = write_html(evaluation, report, job)
    if html_report is not None:
        # An artifact that is one file has the name of the file.
        report = replace(report, html_name=html_report.name if report.run_url else str(html_report))
    outcome = outputs.outcome_of(evaluation)
    summary = job.redactor.of_secrets.redact_text(render_summary(report, limit=SUMMARY_LIMIT))
    write_file(settings.out / REPORT_NAME, summary.encode("utf-8", "replace"))
    # One file of verdicts a suite, from its pack, which holds no secret; an earlier job's are replaced.
    junit = settings.out / JUNIT_NAME
    is_of_an_earlier_job = junit.is_dir() and all(path.suffix == ".xml" for path in junit.iterdir())
    with new_directory(junit, replace=is_of_an_earlier_job) as new:
        for suite in evaluation.suites:
            text = "".join(junit_lines(suite.evidence or open_pack(suite.pack)))
            write_file(new / f"{suite.target.slug}.xml", text.encode("utf-8"))
    platform.say("\n".join(outputs.log_lines(evaluation, outcome, html_report)))
    for warning in report.warnings:
        platform.warn(warning)
    platform.write_summary(summary)
    platform.write_outputs(outputs.outputs_of(evaluation, settings, html_report))
    if evaluation.archive is not None:
        platform.keep_evidence(evaluation.archive)
    limit = platform.spec.comment_limit
    _comment(platform, settings, lambda marker: render_comment(report, marker, limit=limit))
    blocks = any(suite.decision.blocks for suite in evaluation.suites)
    code = outputs.exit_code(outcome, settings, blocks=blocks)
    if code is not ExitCode.OK:
        platform.fail(outputs.verdict_line(report, outcome))
    elif outcome == GateStatus.INCONCLUSIVE.value:
        platform.warn(outputs.verdict_line(report, outcome))
    return code


def write_html(evaluation: Evaluation, report: EvaluationReport, job: JobContext) -> Path | None:
    """Write the report of all suites as one file; None where it cannot be written.

    A decision does not depend on it, so the job warns where it cannot be written, and goes on.
    """
    settings, suites = job.settings, evaluation.suites
    # Templates and their engine take a moment to load; where nothing can be evaluated they are not needed.
    from agent_eval.reports.html.lines import SuiteEvidence
    from agent_eval.reports.html.page import render_html

    evidence = {
        suite.target.slug: SuiteEvidence(
            candidate=suite.evidence,
            baseline=paired(suite.baseline.pack, suite.evidence)
            if suite.baseline is not None and suite.evidence is not None
            else None,
            place=str(suite.pack),
            redactor=job.redactor,
        )
        for suite in suites
    }
    # Named after its suite, else after the evaluation: artifacts of a run must not share a name.
    is_default = settings.comment_id == INPUT_BY_NAME["comment-id"].default
    several = "report" if is_default else settings.comment_id
    path = settings.out / html_name(suites[0].target.slug if len(suites) == 1 else several)
    try:
        page = job.redactor.of_secrets.redact_text(render_html(report, evidence))
        write_file(path, page.encode("utf-8", "replace"))
    except AgentEvalError as error:
        job.platform.warn(f"The HTML report could not be written: {error.message}")
        return None
    return path


def _comment(platform: Platform, settings: Settings, body: Callable[[str], str]) -> None:
    published = Published("none") if settings.comment == "never" else platform.publish(body)
    platform.write_outputs({"comment-url": published.url})
    if published.warning:
        platform.warn(published.warning)
    if published.action == "refused":
        platform.write_summary(f"> ⚠️ {prose(published.warning, limit=1_000)}\n")


def _tell(error: AgentEvalError, title: str, reporter: Reporter, run: CiRun) -> None:
    reporter.fail(f"{outputs.full_stop(error.message)} {error.remedy}".strip())
    reporter.write_summary(outputs.error_report(error, title, run))
    reporter.write_outputs(outputs.all_outputs({"outcome": outputs.ERROR, "passed": "false"}))


def _comment_error(error: AgentEvalError, settings: Settings, platform: Platform) -> None:
    title, run = settings.report_title, platform.run
    _comment(platform, settings, lambda marker: outputs.error_report(error, title, run, marker=marker))


def _report_wrong_settings(error: AgentEvalError, sources: _Sources, reporter: Reporter | None) -> None:
    """Report where no platform could be built, and comment where that can be done.

    Without a reporter the error itself is raised.
    """
    if reporter is None:
        error.message = sources.redactor.redact_text(error.message)
        raise error
    _tell(error, INPUT_BY_NAME["title"].default, reporter.redacted_by(sources.redactor), CiRun())
    file = sources.file
    try:
        # Only what it takes to comment is read.
        content = Versions(sources.place).tips(file) if file is not None else None
        values = gather_for_comment(sources.flags, sources.environ, file or Path(CONFIG_FILE), content)
        settings = settings_from(values, complete=False)
        platform = sources.make_platform(settings)
    except AgentEvalError:
        # Without valid settings of the comment, the job cannot tell which comment is its own.
        reporter.write_outputs({"comment-url": ""})
    else:
        _comment_error(error, settings, platform)

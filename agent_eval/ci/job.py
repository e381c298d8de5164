"""The whole CI job, in the order that loses nothing: evidence, summary, outputs, comment, exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from agent_eval.ci.annotations import annotations_of
from agent_eval.ci.command_files import guarded
from agent_eval.ci.comment import Published
from agent_eval.ci.config import (
    Settings,
    gather,
    gather_for_comment,
    refuse_unknown_variables,
    settings_from,
)
from agent_eval.ci.context import JobContext
from agent_eval.ci.evaluate import evaluate
from agent_eval.ci.html import write_html
from agent_eval.ci.inputs import CONFIG_FILE, INPUT_BY_NAME, SECRET_INPUTS
from agent_eval.ci.junit import write_junit
from agent_eval.ci.outputs import (
    error_report,
    exit_code,
    full_stop,
    log_lines,
    outcome_of,
    outputs_of,
    outputs_of_error,
    report_of,
    verdict_line,
)
from agent_eval.ci.platforms.base import CiRun, Platform, Reporter
from agent_eval.ci.platforms.build import platform_for, reporter_for
from agent_eval.ci.platforms.redacting import RedactingPlatform
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.reported import evaluate_reported
from agent_eval.ci.rules import (
    Held,
    hold,
    left_evidence,
    refuse_fork_with_secrets,
    rules_of,
    with_files_of_tip,
)
from agent_eval.ci.standing import Standing
from agent_eval.ci.suites import REPORT_NAME
from agent_eval.ci.versions import MAX_BYTES, Versions
from agent_eval.ci.workspace import give_to_owner, refuse_link_out, refuse_to_overwrite
from agent_eval.contracts import GateStatus
from agent_eval.errors import AgentEvalError, ExitCode, UsageError
from agent_eval.operations import clock
from agent_eval.operations.environment import redactor_for
from agent_eval.reports.comment import render_comment, render_summary
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes
from agent_eval.storage.redaction import Redactor
from agent_eval.text.escape import clean, prose

MakePlatform = Callable[[PlatformSettings, Mapping[str, str], TextIO], Platform]


@dataclass(frozen=True)
class _Sources:
    """The sources of a job's settings, and how its platform is built."""

    flags: Mapping[str, str]
    environ: Mapping[str, str]
    config_file: Path | None
    make_platform: Callable[[Settings], Platform]


def run_job(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    stream: TextIO,
    *,
    config_file: Path | None = Path(CONFIG_FILE),
    make_platform: MakePlatform = platform_for,
) -> ExitCode:
    """Evaluate, compare, decide and report.

    Example:
        >>> import io
        >>> from agent_eval.demo.support_agent import write_suites
        >>> _, suite = write_suites(Path("demo"))
        >>> run_job({"suite": str(suite), "min-pass-rate": "0.95"}, {}, io.StringIO(), config_file=None)
        <ExitCode.NO: 1>

    Args:
        flags: Values of the command line by input name.
        environ: The environment variables.
        stream: The job's log.
        config_file: The file with further settings; None for no file.
        make_platform: Builds the platform; the one that the environment variables show by default.

    Raises:
        AgentEvalError: The settings or the runner's environment are wrong, and the platform has no reporter
            that works without settings. Every later error is reported there and ends in an exit code.
    """
    redactor = redactor_for(environ, *(flags.get(name, "") for name in SECRET_INPUTS))
    sources = _Sources(
        flags,
        environ,
        config_file,
        lambda settings: RedactingPlatform(make_platform(settings.for_platform, environ, stream), redactor),
    )
    ground = Standing()
    try:
        in_force, platform, versions = _settle(sources, ground)
    except AgentEvalError as error:
        reporter = reporter_for(environ, stream)
        if reporter is None:
            error.message = redactor.redact_text(error.message)
            ground.close()
            raise
        _report_wrong_settings(error, reporter, redactor)
        try:
            settings, platform = _settle_for_comment(sources, ground)
        except AgentEvalError:
            # Without valid settings of the comment, the job cannot tell which comment is its own.
            reporter.write_outputs({"comment-url": ""})
        else:
            _comment_error(error, settings, platform)
        ground.close()
        return error.exit_code
    settings = in_force.settings
    try:
        refuse_fork_with_secrets(settings, platform)
        if ground.problem is not None:
            raise ground.problem
        refuse_link_out(settings.out, Path.cwd())
        _refuse_unknown_report(settings, platform)
        if platform.run.reported is None:
            refuse_to_overwrite(settings.out)
        rules = rules_of(in_force, versions)
        settings = with_files_of_tip(in_force, versions)
        return _evaluate_and_report(
            JobContext(
                settings=settings,
                platform=platform,
                environ=environ,
                redactor=redactor.with_rules(settings.redaction),
                rules=rules,
                clock=partial(clock.now, environ),
                stated=in_force.settings,
                place=ground.place,
                clone=ground.clone,
                settings_at=partial(_settings_at, sources),
            )
        )
    except AgentEvalError as error:
        error.message = redactor.with_rules(settings.redaction).redact_text(error.message)
        _report_error(error, settings, platform)
        return error.exit_code
    finally:
        ground.close()
        give_to_owner(settings.out, Path.cwd())


def _settle(sources: _Sources, ground: Standing) -> tuple[Held, Platform, Versions]:
    """Read the settings, each key of `agent-eval.yml` in the version that counts.

    The file may not say where a token goes, so the platform can be asked which commit the job is of before it
    is read.
    """
    flags, environ, file = sources.flags, sources.environ, sources.config_file
    platform = sources.make_platform(settings_from(gather(flags, environ, None), complete=False))
    ground.find(platform, environ, file)
    versions = Versions(
        ground.place,
        ground.clone,
        is_reported=platform.run.reported is not None,
        from_fork=platform.run.from_fork,
    )
    in_force = hold(flags, environ, file, versions, lambda: left_evidence(platform, versions))
    refuse_unknown_variables(environ, in_force.settings.variables_of_agent)
    return in_force, sources.make_platform(in_force.settings), versions


def _settings_at(sources: _Sources, directory: Path) -> Settings:
    """Read the settings with the `agent-eval.yml` of another checkout.

    Raises:
        AgentEvalError: They are wrong.
    """
    file = sources.config_file
    path = directory / file if file is not None else None
    content = read_bytes(path, max_bytes=MAX_BYTES) if path is not None and path.is_file() else None
    named = file if content is not None else None
    return settings_from(gather(sources.flags, sources.environ, named, content=content))


def _settle_for_comment(sources: _Sources, ground: Standing) -> tuple[Settings, Platform]:
    """Read only what it takes to comment, where other settings are wrong."""
    flags, environ, file = sources.flags, sources.environ, sources.config_file
    name = file or Path(CONFIG_FILE)
    versions = Versions(ground.place, ground.clone)
    content = versions.tips(file) if file is not None else None
    settings = settings_from(gather_for_comment(flags, environ, name, content), complete=False)
    return settings, sources.make_platform(settings)


def _evaluate_and_report(job: JobContext) -> ExitCode:
    settings, platform = job.settings, job.platform
    # What the runner takes commands from is written below, once no code of the change runs any more.
    with guarded(platform.spec.command_files, job.environ):
        reported = platform.run.reported
        evaluation = evaluate(job) if reported is None else evaluate_reported(job, reported)
    report = report_of(evaluation, job)
    html_report = write_html(evaluation, report, job)
    if html_report is not None:
        # An artifact that is one file has the name of the file.
        report = replace(report, html_name=html_report.name if report.run_url else str(html_report))
    outcome = outcome_of(evaluation)
    summary = job.redactor.of_secrets.redact_text(render_summary(report, limit=platform.spec.summary_limit))
    write_file(settings.out / REPORT_NAME, summary.encode("utf-8", "replace"))
    write_junit(evaluation, settings, platform.spec)
    platform.say("\n".join(log_lines(evaluation, outcome, html_report)))
    for warning in report.warnings:
        platform.warn(warning)
    for note in annotations_of(evaluation, platform.workspace):
        platform.point_out(note.text, path=note.path, line=note.line, fails=note.fails)
    platform.write_summary(summary)
    platform.write_outputs(outputs_of(evaluation, settings, html_report))
    if evaluation.archive is not None:
        platform.keep_evidence(evaluation.archive)
    limit = platform.spec.comment_limit
    _comment(platform, settings, lambda marker: render_comment(report, marker, limit=limit))
    blocks = any(suite.decision.blocks for suite in evaluation.suites)
    code = exit_code(outcome, settings, blocks=blocks)
    if code is not ExitCode.OK:
        platform.fail(verdict_line(report, outcome))
    elif outcome == GateStatus.INCONCLUSIVE.value:
        platform.warn(verdict_line(report, outcome))
    return code


def _refuse_unknown_report(settings: Settings, platform: Platform) -> None:
    """Refuse to evaluate nothing where the platform cannot find the run that is to be reported on."""
    if settings.report_run_id is not None and platform.run.reported is None:
        raise UsageError(
            "`report-run-id` is not known on this platform.",
            remedy="Leave it out, and give `suite`.",
            field="report-run-id",
        )


def _comment(platform: Platform, settings: Settings, body: Callable[[str], str]) -> None:
    published = Published("none") if settings.comment == "never" else platform.publish(body)
    platform.write_outputs({"comment-url": published.url})
    if published.warning:
        platform.warn(published.warning)
    if published.action == "refused":
        platform.write_summary(f"> ⚠️ {prose(published.warning, limit=1_000)}\n")


def _report_error(error: AgentEvalError, settings: Settings, platform: Platform) -> None:
    platform.fail(_in_one_line(error))
    platform.write_summary(error_report(error, settings.report_title, platform.run))
    platform.write_outputs(outputs_of_error())
    _comment_error(error, settings, platform)


def _comment_error(error: AgentEvalError, settings: Settings, platform: Platform) -> None:
    title, run = settings.report_title, platform.run
    _comment(platform, settings, lambda marker: error_report(error, title, run, marker=marker))


def _report_wrong_settings(error: AgentEvalError, reporter: Reporter, redactor: Redactor) -> None:
    report = error_report(error, INPUT_BY_NAME["report-title"].default, CiRun())
    reporter.fail(clean(redactor.redact_text(_in_one_line(error))))
    reporter.write_summary(redactor.redact_text(report))
    reporter.write_outputs(outputs_of_error())


def _in_one_line(error: AgentEvalError) -> str:
    return f"{full_stop(error.message)} {error.remedy}".strip()

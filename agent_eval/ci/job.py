"""The whole job, in the order that loses nothing: evidence, summary, outputs, comment, exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from agent_eval.ci.comment import Published
from agent_eval.ci.config import Settings, gather, gather_for_comment, misspelt, settings_from
from agent_eval.ci.evaluate import evaluate
from agent_eval.ci.inputs import CONFIG_FILE, INPUT_BY_NAME
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
from agent_eval.ci.platforms.base import Context, Platform, Teller
from agent_eval.ci.platforms.catalog import platform_for, teller_for
from agent_eval.ci.platforms.local import Local
from agent_eval.ci.platforms.redacting import Discreet
from agent_eval.ci.suites import REPORT_NAME
from agent_eval.ci.trusted_files import GoverningFiles, JudgingRules, judging_rules
from agent_eval.ci.workspace import give_back, refuse_others_files, refuse_to_lead_out
from agent_eval.contracts import GateStatus
from agent_eval.demo.support_agent import BASELINE_RUN, CANDIDATE_RUN, INPUTS, write_suites
from agent_eval.errors import AgentEvalError, ExitCode
from agent_eval.operations import clock
from agent_eval.operations.environment import redactor_for
from agent_eval.operations.run import RunRequest, run_suite
from agent_eval.reports.comment import render_comment, render_summary
from agent_eval.storage.atomic import write_file
from agent_eval.storage.redaction import Redactor
from agent_eval.text.escape import clean, prose

MakePlatform = Callable[[Settings, Mapping[str, str], TextIO], Platform]


def run_job(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    stream: TextIO,
    *,
    config_file: Path | None = Path(CONFIG_FILE),
    make_platform: MakePlatform = platform_for,
) -> ExitCode:
    """Evaluate, compare, decide and tell people.

    Args:
        flags: Values of the command line by input name.
        environ: The environment variables.
        stream: The job's log.
        config_file: Where further settings may stand; None for nowhere.
        make_platform: Builds the platform; the one the environment shows by default.

    Raises:
        AgentEvalError: The settings or the runner's environment are wrong, and this is a place where nobody
            can be told but the caller. Everything later is told on the platform and ends in an exit code.
    """
    redactor = redactor_for(environ, flags.get("github-token", ""))
    try:
        settings, platform, files = _settle(
            flags,
            environ,
            config_file,
            lambda settings: Discreet(make_platform(settings, environ, stream), redactor),
        )
    except AgentEvalError as error:
        teller = teller_for(environ, stream)
        if teller is None:
            error.message = redactor.redact_text(error.message)
            raise
        _tell_wrong_settings(error, teller, redactor)
        try:
            settings, platform = _comment_alone(
                flags,
                environ,
                config_file,
                lambda settings: Discreet(make_platform(settings, environ, stream), redactor),
            )
        except AgentEvalError:
            # Nobody knows which comment it is, or as whom.
            teller.write_outputs({"comment-url": ""})
        else:
            _comment_error(error, settings, platform)
        return error.exit_code
    try:
        refuse_to_lead_out(settings.out, Path.cwd())
        refuse_others_files(settings.out)
        for sentence in misspelt(environ):
            platform.warn(sentence)
        rules = judging_rules(settings, files)
        return _job(settings, platform, environ, redactor, rules)
    except AgentEvalError as error:
        _tell_error(error, settings, platform)
        return error.exit_code
    finally:
        give_back(settings.out, Path.cwd())


def _settle(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    config_file: Path | None,
    make_platform: Callable[[Settings], Platform],
) -> tuple[Settings, Platform, GoverningFiles]:
    """The settings, once it is known whose `agent-eval.yml` counts.

    It may not say where the token goes, so the platform can be asked before it is read.
    """
    platform = make_platform(settings_from(gather(flags, environ, None), complete=False))
    files = GoverningFiles(platform, environ)
    content = files.read(config_file) if config_file is not None else None
    there = config_file if content is not None else None
    settings = settings_from(gather(flags, environ, there, content=content))
    return settings, make_platform(settings), files


def _comment_alone(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    config_file: Path | None,
    make_platform: Callable[[Settings], Platform],
) -> tuple[Settings, Platform]:
    """What it takes to comment, where other settings are wrong; from `agent-eval.yml` as in `_settle`."""
    name = config_file or Path(CONFIG_FILE)
    settings = settings_from(gather_for_comment(flags, environ, name, None), complete=False)
    platform = make_platform(settings)
    content = GoverningFiles(platform, environ).read(config_file) if config_file is not None else None
    settings = settings_from(gather_for_comment(flags, environ, name, content), complete=False)
    return settings, make_platform(settings)


def _job(
    settings: Settings,
    platform: Platform,
    environ: Mapping[str, str],
    redactor: Redactor,
    rules: JudgingRules,
) -> ExitCode:
    evaluation = evaluate(settings, platform, environ, redactor, rules)
    report = report_of(evaluation, settings, platform.context, environ)
    outcome = outcome_of(evaluation)
    summary = redactor.redact_text(render_summary(report))
    write_file(settings.out / REPORT_NAME, summary.encode("utf-8", "replace"))
    platform.say("\n".join(log_lines(evaluation, outcome)))
    for warning in report.warnings:
        platform.warn(warning)
    platform.write_summary(summary)
    platform.write_outputs(outputs_of(evaluation, settings))
    _comment(platform, settings, lambda marker: render_comment(report, marker))
    blocks = any(suite.decision.blocks for suite in evaluation.suites)
    code = exit_code(outcome, settings, blocks=blocks)
    if code is not ExitCode.OK:
        platform.fail(verdict_line(evaluation, settings, outcome))
    elif outcome == GateStatus.INCONCLUSIVE.value:
        platform.warn(verdict_line(evaluation, settings, outcome))
    return code


def _comment(platform: Platform, settings: Settings, body: Callable[[str], str]) -> None:
    published = Published("none") if settings.comment == "never" else platform.publish(body)
    platform.write_outputs({"comment-url": published.url})
    if published.warning:
        platform.warn(published.warning)
    if published.action == "refused":
        platform.write_summary(f"> ⚠️ {prose(published.warning, limit=1_000)}\n")


def _tell_error(error: AgentEvalError, settings: Settings, platform: Platform) -> None:
    title, context = settings.report_title, platform.context
    platform.fail(_in_one_line(error))
    platform.write_summary(error_report(error, title, context))
    platform.write_outputs(outputs_of_error())
    _comment_error(error, settings, platform)


def _comment_error(error: AgentEvalError, settings: Settings, platform: Platform) -> None:
    title, context = settings.report_title, platform.context
    _comment(platform, settings, lambda marker: error_report(error, title, context, marker=marker))


def _tell_wrong_settings(error: AgentEvalError, teller: Teller, redactor: Redactor) -> None:
    report = error_report(error, INPUT_BY_NAME["report-title"].default, Context())
    teller.fail(redactor.redact_text(_in_one_line(error)))
    teller.write_summary(redactor.redact_text(report))
    teller.write_outputs(outputs_of_error())


def _in_one_line(error: AgentEvalError) -> str:
    return f"{full_stop(error.message)} {error.remedy}".strip()


class _Shown(Local):
    """A gate that says no is what there is to see here, not a failure."""

    def fail(self, text: str) -> None:
        """Print the decision."""
        self.say(f"Decision: {text}")


def run_demonstration(out: Path, environ: Mapping[str, str], stream: TextIO) -> ExitCode:
    """Make the baseline, run the job, and say where everything is.

    Args:
        out: Where suites, evidence and report are written.
        environ: The environment variables; nothing counts but a pinned clock, so that the demonstration
            looks the same everywhere.
        stream: Where everything is printed.

    Returns:
        OK when the job could be shown, whatever its gate decided; else what the job returned.

    Raises:
        AgentEvalError: The baseline could not be made.
    """
    pinned = {name: environ[name] for name in clock.CLOCK_VARIABLES if name in environ}
    before, after = write_suites(out)
    baseline, evidence = before.parent / "evidence", out / "evidence"
    run_suite(RunRequest(suite=before, out=baseline, run_id=BASELINE_RUN), environ=pinned)
    code = run_job(
        {**INPUTS, "suite": str(after), "baseline": str(baseline), "out": str(evidence)},
        {**pinned, clock.RUN_ID_VARIABLE: CANDIDATE_RUN},
        stream,
        config_file=None,
        make_platform=_Shown,
    )
    if code not in (ExitCode.OK, ExitCode.NO):
        return code
    decided = "blocks this pull request" if code is ExitCode.NO else "lets this pull request pass"
    closing = (
        f"\nThe gate {decided} (exit code {int(code)} in CI). That is what this demonstration shows.\n"
        f"Evidence and report: {evidence}\n"
        f"Suites: {before} and {after}"
    )
    print(clean(closing, multiline=True), file=stream, flush=True)
    return ExitCode.OK

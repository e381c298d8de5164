"""Run the agent itself in a job, instead of judging recorded traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import open_agent
from agent_eval.ci.config import Setup
from agent_eval.ci.context import JobContext
from agent_eval.ci.platforms.catalog import is_secret_of_a_job
from agent_eval.config.rows.limits import LIMITS
from agent_eval.config.spec import AgentSpec, RunSpec
from agent_eval.engine.progress import RunProgress
from agent_eval.errors import FailureKind, NotEvaluable, UsageError
from agent_eval.evidence.reader import Pack
from agent_eval.operations.agent_options import agent_options
from agent_eval.operations.resume import discard_journal
from agent_eval.operations.run_agent import RunLoopResult, run_agent
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child
from agent_eval.reports.terminal import progress_text
from agent_eval.suites.paths import any_of_conversations
from agent_eval.suites.reader import SuiteSource
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count, verb

SECONDS_BETWEEN_LINES = 10.0
NOTHING_OF_THE_CHANGE = "This says nothing about the change."
AFTER_AN_OUTAGE = "Check that the agent, its tools and the judges' model answer, then run the job again."

_LIMITS_OF_A_RUN = " or ".join(f"`{row.name}`" for row in LIMITS if row.part == "limits.run")
RAISE_LIMITS = f"Raise {_LIMITS_OF_A_RUN}, or run fewer cases."


def checked_agent(job: JobContext) -> AgentSpec | None:
    """Check the agent that the job runs, before anything is run; None where it judges recorded traces.

    Raises:
        UsageError: There is no such agent, its address or command is wrong, a header's variable is not set,
            or a child would be given the job's own token.
        InvalidInput: The system prompt cannot be read.
    """
    agent, setup = job.settings.agent, job.settings.setup
    if agent is None:
        return None
    variables = [variable for _, variable in agent.headers]
    _refuse_secrets_of_the_job("agent-env", agent.environment, job)
    _refuse_secrets_of_the_job("setup-env", setup.environment, job)
    _refuse_secrets_of_the_job("agent-header", variables, job)
    _refuse_secrets_of_the_job("suite-key-env", agent.key_variables, job)
    for variable in variables:
        _refuse_unset(variable, job)
    # A wrong agent is reported before minutes are spent on installing what it needs.
    options = agent_options(agent, job.environ)
    if agent.names_one or not any_of_conversations(job.settings.suite):
        open_agent(agent.called(job.settings.identity.model), options).close()
    return agent


def run_live(
    job: JobContext,
    spec: RunSpec,
    source: SuiteSource | None,
    baseline: Pack | None = None,
    options: AgentOptions | None = None,
) -> RunLoopResult:
    """Run the agent over a suite and seal the evidence; print every few seconds how far it is.

    Args:
        job: The job.
        spec: The suite, the agent, and where the evidence goes.
        source: The suite, where it is open already.
        baseline: The baseline, whose rulings of LLM judges are used again.
        options: Settings of the agent; None for those of the specification.

    Raises:
        AgentEvalError: As `run_agent`.
        NotEvaluable: A limit or an outage ended the run. The evidence of the finished trials is written.
    """
    discard_journal(spec.output.pack)
    done = run_agent(
        spec,
        environ=job.environ,
        redactor=job.redactor,
        source=source,
        on_progress=ProgressLines(spec.suite.name, job.platform.say),
        baseline=baseline,
        options=options,
    )
    if done.stopped:
        progress = done.progress
        not_run = progress.total - progress.done
        outage = f" The run stopped there: {count(not_run, 'trial')} {verb(not_run, 'was', 'were')} not run."
        raise NotEvaluable(
            f"{spec.suite}: {done.stopped}, after {progress.done} of {progress.total} trials."
            f"{f'{outage} {NOTHING_OF_THE_CHANGE}' if done.outage else ''}",
            remedy=AFTER_AN_OUTAGE if done.outage else RAISE_LIMITS,
            file=str(spec.suite),
        )
    return done


class ProgressLines:
    """Prints every few seconds how far a run is.

    Example:
        >>> from agent_eval.engine.progress import RunProgress
        >>> progress = ProgressLines("orders.json", print)
        >>> progress(RunProgress(4, done=1, passed=1))  # nothing yet: no ten seconds have passed

    Args:
        suite: Name of the suite.
        say: Prints into the job's log.
    """

    def __init__(self, suite: str, say: Callable[[str], None]) -> None:
        self._suite, self._say = clean(suite), say
        self._last = time.monotonic()

    def __call__(self, progress: RunProgress) -> None:
        """Print a line, if the last one is old enough."""
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self._say(f"{self._suite}: {progress_text(progress)}")


def _refuse_secrets_of_the_job(setting: str, names: Iterable[str], job: JobContext) -> None:
    secrets = [value for value in job.settings.secrets if value]
    for name in names:
        holds_a_secret = any(secret in job.environ.get(name, "") for secret in secrets)
        if is_secret_of_a_job(name) or holds_a_secret:
            raise UsageError(
                f"{setting}: {name} is the job's own, and no agent may see it.",
                remedy="Give the agent a token of its own under another name.",
                field=setting,
            )


def _refuse_unset(variable: str, job: JobContext) -> None:
    if not job.environ.get(variable, ""):
        raise UsageError(
            f"agent-header names the environment variable {variable}, which is not set.",
            remedy=f"{job.platform.spec.remedies.set_variable}.",
            field="agent-header",
        )


OUTPUT_BYTES = 64 << 20
SHOWN_LINES = 40
SHOWN_CHARACTERS = 6_000


class SetupFailed(NotEvaluable):
    """Raised when `setup-command` fails. `details["output"]` is the end of what it printed."""

    code = "setup_failed"


def set_up(
    setup: Setup,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    cwd: Path | None = None,
    *,
    of: str = "change",
) -> None:
    """Run `setup-command`, if there is one, without the job's secrets.

    Args:
        setup: The command, its time, and which variables it may see.
        environ: The job's environment.
        say: Prints into the job's log.
        cwd: Where it is run; None for the working directory.
        of: What is checked out at `cwd`, for the log.

    Raises:
        SetupFailed: The command failed or took too long.
        NotEvaluable: No process can be started.
    """
    if not setup.command:
        return
    say(f"Running `setup-command` of the {of}.")
    done = run_child(
        # Both streams as one, so that an error is printed where it occurred.
        ["/bin/sh", "-e", "-c", f"exec 2>&1\n{setup.command}"],
        env=allowed_environment(environ, setup.environment),
        limits=ChildLimits(seconds=setup.seconds, stdout_bytes=OUTPUT_BYTES),
        cwd=cwd,
    )
    if done.failure is None:
        say(f"`setup-command` is done after {done.duration_s:.0f} s.")
        return
    output = _end_of(done.stdout)
    printed = f"The end of what it printed:\n{output}" if output.strip() else "It printed nothing."
    say(f"`setup-command` {done.problem}. {printed}")
    remedy = (
        "Give it longer with `setup-timeout-seconds`."
        if done.failure is FailureKind.TIMEOUT
        else "Correct it; variables it needs are named in `setup-env`."
    )
    raise SetupFailed(f"`setup-command` {done.problem}.", remedy=remedy, output=output)


def _end_of(data: bytes) -> str:
    lines = data[-4 * SHOWN_CHARACTERS :].decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-SHOWN_LINES:])[-SHOWN_CHARACTERS:]

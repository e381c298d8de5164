"""Running the agent itself in a job, where recorded traces would be judged otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import open_agent
from agent_eval.ci.config import AgentSettings
from agent_eval.ci.context import JobContext
from agent_eval.ci.platforms.catalog import is_secret_of_a_job
from agent_eval.contracts import AttemptLimits, TrialLimits
from agent_eval.engine.progress import Standing
from agent_eval.engine.trial import RunLimits
from agent_eval.errors import FailureKind, NotEvaluable, UsageError
from agent_eval.operations.resume import discard_journal
from agent_eval.operations.run import RunRequest
from agent_eval.operations.run_agent import AgentRequest, read_prompt, run_agent
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child
from agent_eval.reports.terminal import progress_text
from agent_eval.suites.reader import SuiteSource

SECONDS_BETWEEN_LINES = 10.0


def agent_request(job: JobContext) -> AgentRequest | None:
    """Build the request for the agent that the job runs; None where it judges recorded traces.

    Raises:
        UsageError: There is no such agent, its address or command is wrong, a header's variable is not set,
            or a child would be given the job's own token.
        InvalidInput: The system prompt cannot be read.
    """
    agent, environ = job.settings.agent, job.environ
    if agent is None:
        return None
    _refuse_secrets_of_the_job("agent-env", agent.agent_env, job)
    _refuse_secrets_of_the_job("setup-env", agent.setup_env, job)
    _refuse_secrets_of_the_job("agent-header", agent.headers.values(), job)
    options = AgentOptions(
        environ=environ,
        pass_on=agent.agent_env,
        headers={name: _value(variable, job) for name, variable in agent.headers.items()},
        base_url=agent.agent_openai_base_url or None,
        system=read_prompt(agent.system_prompt) if agent.system_prompt is not None else None,
    )
    # What is wrong with it is said before minutes are spent on installing what it needs.
    open_agent(agent.spec, options).close()
    return AgentRequest(
        agent=agent.spec,
        options=options,
        trials=agent.trials,
        max_repairs=agent.max_repairs,
        attempt=_attempt_limits(agent),
        trial=TrialLimits(
            seconds=agent.max_case_seconds, tokens=agent.max_case_tokens, cost_usd=agent.max_case_cost
        ),
        run=RunLimits(seconds=agent.max_run_seconds, cost_usd=agent.max_run_cost),
        strict_side_effects=agent.strict_side_effects,
        cassette=("replay", agent.replay) if agent.replay is not None else None,
        parallel=agent.parallel,
    )


def run_live(job: JobContext, request: RunRequest, how: AgentRequest, source: SuiteSource | None) -> None:
    """Run the agent over a suite and seal the evidence; print every few seconds how far it is.

    Args:
        job: The job.
        request: The suite, and where the evidence goes.
        how: The agent, and how it is run.
        source: The suite, where it is open already.

    Raises:
        AgentEvalError: As `run_agent`.
        NotEvaluable: A limit ended the run. The evidence of what was done is there.
    """
    discard_journal(request.out)
    done = run_agent(
        request,
        how,
        environ=job.environ,
        redactor=job.redactor,
        source=source,
        on_progress=ProgressLines(request.suite.name, job.platform.say),
    )
    if done.stopped:
        standing = done.standing
        raise NotEvaluable(
            f"{request.suite}: {done.stopped}, after {standing.done} of {standing.total} trials.",
            remedy="Raise `max-run-seconds` or `max-run-cost`, or run fewer cases.",
            file=str(request.suite),
        )


class ProgressLines:
    """Says every few seconds how far a run is.

    Args:
        suite: What is run.
        say: Prints into the job's log.
    """

    def __init__(self, suite: str, say: Callable[[str], None]) -> None:
        self._suite, self._say = suite, say
        self._said = time.monotonic()

    def __call__(self, standing: Standing) -> None:
        """Say it, if it is time to."""
        if time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._say(f"{self._suite}: {progress_text(standing)}")


def reproduction(agent: AgentSettings) -> list[str]:
    """The flags of `agent-eval run` that run this agent."""
    words = ["--agent-command", agent.agent_command] if agent.agent_command else ["--agent", agent.spec]
    if agent.agent_openai_base_url:
        words += ["--base-url", agent.agent_openai_base_url]
    if agent.system_prompt is not None:
        words += ["--system-prompt", str(agent.system_prompt)]
    words += [word for name in agent.agent_env for word in ("--agent-env", name)]
    words += [word for line in agent.agent_header for word in ("--agent-header", line)]
    if agent.max_repairs:
        words += ["--max-repairs", str(agent.max_repairs)]
    if agent.strict_side_effects:
        words.append("--strict-side-effects")
    if agent.replay is not None:
        words += ["--replay", str(agent.replay)]
    if agent.trials > 1:
        words += ["--trials", str(agent.trials)]
    return words


def _attempt_limits(agent: AgentSettings) -> AttemptLimits:
    usual = AttemptLimits()
    return AttemptLimits(
        seconds=agent.command_timeout_seconds,
        output_bytes=agent.max_output_bytes or usual.output_bytes,
        steps=agent.max_steps or usual.steps,
        tool_calls=agent.max_tool_calls or usual.tool_calls,
    )


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


def _value(variable: str, job: JobContext) -> str:
    value = job.environ.get(variable, "")
    if not value:
        raise UsageError(
            f"agent-header names the environment variable {variable}, which is not set.",
            remedy=f"{job.platform.spec.remedies.set_variable}.",
            field="agent-header",
        )
    return value


OUTPUT_BYTES = 64 << 20
SHOWN_LINES = 40
SHOWN_CHARACTERS = 6_000


class SetupFailed(NotEvaluable):
    """What the agent needs could not be installed. `details["output"]` is the end of what it printed."""

    code = "setup_failed"


def set_up(agent: AgentSettings, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Run the command, if there is one, without the job's secrets.

    Args:
        agent: Says what to run.
        environ: The job's environment, of which it sees a part.
        say: Prints into the job's log.

    Raises:
        SetupFailed: It did not end well.
        NotEvaluable: No process can be started.
    """
    if not agent.setup_command:
        return
    say("Running `setup-command`.")
    done = run_child(
        # Both streams as one, so that what failed stands where it failed.
        ["/bin/sh", "-e", "-c", f"exec 2>&1\n{agent.setup_command}"],
        env=allowed_environment(environ, agent.setup_env),
        limits=ChildLimits(seconds=agent.setup_timeout_seconds, stdout_bytes=OUTPUT_BYTES),
    )
    if done.failure is None:
        say(f"`setup-command` is done after {done.duration_s:.0f} s.")
        return
    output = _end_of(done.stdout)
    say(f"`setup-command` {done.problem}. The end of what it printed:\n{output}")
    remedy = (
        "Give it longer with `setup-timeout-seconds`."
        if done.failure is FailureKind.TIMEOUT
        else "Correct it; variables it needs are named in `setup-env`."
    )
    raise SetupFailed(f"`setup-command` {done.problem}.", remedy=remedy, output=output)


def _end_of(data: bytes) -> str:
    lines = data[-4 * SHOWN_CHARACTERS :].decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-SHOWN_LINES:])[-SHOWN_CHARACTERS:]

"""`setup-command`: installing what the agent needs, before it is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent_eval.ci.agent_settings import AgentSettings
from agent_eval.errors import FailureKind, NotEvaluable
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child

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

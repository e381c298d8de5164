"""Running a program that is not trusted.

    result = run_child(["./agent"], stdin=b"{}", env=allowed_environment(os.environ))
    if result.failure is None:
        use(result.stdout)

The program gets a session of its own and only the environment it is given. Its time and its output are
bounded. When `run_child` returns, it is gone with everything it started, also what detached itself. Any
number of threads may run children at once.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence

from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.processes.environment import allowed_environment
from agent_eval.processes.exchange import CannotStart, ChildLimits, ChildResult, Exchange
from agent_eval.processes.pool import SUPERVISORS, SupervisorLink, SupervisorLost

__all__ = ["ChildLimits", "ChildNotStarted", "ChildResult", "allowed_environment", "run_child"]

_TRIES = 20
"""Idle supervisors that may turn out to be dead before this is given up; each was killed by somebody."""

_REMEDIES = {
    errno.ENOENT: "Check its name and the PATH that it is looked up in; for a script, also its first line.",
    errno.EACCES: "Make it executable: chmod +x.",
    errno.ENOEXEC: "Begin it with a line such as #!/usr/bin/env python3, or name its interpreter.",
    errno.E2BIG: "Pass less in its arguments and environment.",
}


class ChildNotStarted(NotEvaluable):
    """The program does not exist or cannot be executed."""

    code = "not_started"


def run_child(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str],
    limits: ChildLimits | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> ChildResult:
    """Run a program to its end, and end whatever it started.

    The run is over when the program itself ends: what it left running in the background is ended then. What
    it writes while its input is still being written does not block it, and it need not read its input.

    Args:
        argv: The program and its arguments; no shell is involved. A name without `/` is looked up in the
            `PATH` of `env`.
        stdin: Its standard input.
        env: Its whole environment; see `allowed_environment`.
        limits: What it may use.
        cwd: Its working directory; this program's by default.

    Raises:
        ChildNotStarted: The program does not exist or cannot be executed.
        InvalidInput: `argv` is empty, or it or `env` has something that no process can be given.
        NotEvaluable: No process can be started at all.
    """
    _check(argv, env)
    directory = os.getcwd() if cwd is None else os.path.abspath(cwd)
    program = _find(argv[0], env)
    for _ in range(_TRIES):
        link = _supervisor()
        try:
            return _run(link, stdin, limits or ChildLimits(), (program, argv, env, directory))
        except CannotStart as error:
            SUPERVISORS.give_back(link)
            raise _not_started(argv[0], directory, error) from None
        except SupervisorLost:
            link.destroy()  # nothing was started, so another one may try
        except OSError as error:
            link.close()
            raise _exhausted(error) from error
        except BaseException:
            link.close()  # Ctrl-C: the supervisor ends its child when it sees that
            raise
    raise NotEvaluable(
        "no process can be started: those that supervise them are killed all the time",
        remedy="Look for a program of the agent under test that kills processes it did not start.",
    )


def _supervisor() -> SupervisorLink:
    try:
        return SUPERVISORS.take()
    except OSError as error:
        raise _exhausted(error) from error


def _exhausted(error: OSError) -> NotEvaluable:
    return NotEvaluable(
        f"no process can be started: {error.strerror or error}",
        remedy="Run fewer at once, or raise the limits on open files, processes and memory (ulimit -a).",
    )


def _run(
    link: SupervisorLink,
    stdin: bytes,
    limits: ChildLimits,
    program: tuple[str, Sequence[str], Mapping[str, str], str],
) -> ChildResult:
    exchange = Exchange(link, stdin, limits)
    try:
        exchange.start(*program)
        try:
            result = exchange.finish()
        except SupervisorLost:
            link.destroy()
            return exchange.lost()
        if result.survivors:
            link.close()
        else:
            SUPERVISORS.give_back(link)
        return result
    finally:
        exchange.close()


def _check(argv: Sequence[str], env: Mapping[str, str]) -> None:
    words = [*argv, *env, *env.values()]
    if not argv or not argv[0]:
        raise InvalidInput("the command is empty", remedy="Name a program and its arguments.")
    if any("\0" in word for word in words) or any("=" in name or not name for name in env):
        raise InvalidInput(
            "a command or its environment has a null character, or a variable without a proper name",
            remedy="Remove it; no process can be given that.",
        )


def _find(name: str, env: Mapping[str, str]) -> str:
    if "/" in name:
        return name
    # Where it is not found, starting it says so.
    return shutil.which(name, path=env.get("PATH", os.defpath)) or name


def _not_started(name: str, directory: str, error: CannotStart) -> ChildNotStarted:
    if not os.path.isdir(directory):
        return ChildNotStarted(
            f"cannot run {name}: its working directory {directory} does not exist",
            remedy="Create the directory or name another one.",
            file=directory,
        )
    return ChildNotStarted(
        f"cannot run {name}: {error}",
        remedy=_REMEDIES.get(error.errno, "Check the program and the limits on processes (ulimit -u)."),
        file=name,
    )

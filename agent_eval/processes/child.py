"""Running a program that is not trusted.

    result = run_child(["./agent"], stdin=b"{}", env=allowed_environment(os.environ))
    if result.failure is None:
        use(result.stdout)

The program gets a session of its own and only the environment it is given. Its time and its output are
bounded. When `run_child` returns, it is gone with everything it started, also what detached itself. Any
number of threads may run children at once.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable
from agent_eval.processes.pool import SUPERVISORS, SupervisorLink, SupervisorLost

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


MIB = 1 << 20
_CHUNK = 1 << 16
_LONGEST_POLL_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What a child may use.

    Attributes:
        seconds: Wall time from its start to its end.
        stdout_bytes: What it may write to standard output.
        stderr_bytes: What it may write to standard error.
    """

    seconds: float = 30.0
    stdout_bytes: int = 8 * MIB
    stderr_bytes: int = 8 * MIB


@dataclass(frozen=True, slots=True)
class ChildResult:
    """What became of a child.

    Attributes:
        exit_code: Its exit code, negative for the signal that ended it (-9 also when a limit did); None when
            its supervisor was lost.
        stdout: What it wrote, at most as much as the limit allows.
        stderr: The same for standard error.
        failure: None when it ended by itself with exit code 0. `TIMEOUT` and `OUTPUT_LIMIT` when a limit
            ended it, `AGENT_ERROR` for any other exit code or a signal, `INFRASTRUCTURE` when its supervisor
            was lost.
        problem: The failure in words, starting with a verb ("exited with code 1"); empty without one.
        duration_s: Seconds that it ran.
        survivors: Descendants that could not be ended: 0, except for those that belong to another user or
            that the kernel holds.
    """

    exit_code: int | None
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    failure: FailureKind | None
    problem: str
    duration_s: float
    survivors: int = 0


class CannotStart(Exception):
    """The child could not be started. `errno` says why."""

    def __init__(self, errno: int) -> None:
        super().__init__(os.strerror(errno))
        self.errno = errno


@dataclass
class _Output:
    """One of the child's outputs, as far as it was read."""

    name: str
    descriptor: int
    limit: int
    data: bytearray = field(default_factory=bytearray)
    is_open: bool = True

    def read(self) -> bool:
        """Read once. Returns whether there may be more right now; sets `is_open`."""
        try:
            piece = os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return False
        self.is_open = bool(piece)
        self.data += piece
        return self.is_open

    @property
    def is_over(self) -> bool:
        """Whether the child wrote more than it may."""
        return len(self.data) > self.limit

    def kept(self) -> bytes:
        """What counts of it."""
        return bytes(memoryview(self.data)[: self.limit])


class Exchange:
    """The pipes of one child, and the conversation with its supervisor.

    Use it as `start`, `finish`, and `close` in any case.

    Args:
        link: An idle supervisor.
        stdin: What the child is given.
        limits: What it may use.

    Raises:
        OSError: There are no descriptors left.
    """

    def __init__(self, link: SupervisorLink, stdin: bytes, limits: ChildLimits) -> None:
        self._link, self._limits = link, limits
        self._unwritten = memoryview(stdin)
        self._open: set[int] = set()
        try:
            stdin_reader, self._stdin = self._pipe(blocking_end=0)
            stdout_reader, stdout_writer = self._pipe(blocking_end=1)
            stderr_reader, stderr_writer = self._pipe(blocking_end=1)
        except OSError:
            self.close()
            raise
        self._theirs = (stdin_reader, stdout_writer, stderr_writer)
        self._outputs = (
            _Output("standard output", stdout_reader, limits.stdout_bytes),
            _Output("standard error", stderr_reader, limits.stderr_bytes),
        )
        self._poll = select.poll()
        self._failure: FailureKind | None = None
        self._problem = ""
        self._began = time.monotonic()

    def start(self, program: str, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        """Have the child started.

        Raises:
            SupervisorLost: Nothing was started.
        """
        self._began = time.monotonic()
        self._link.start(program, argv, env, cwd, self._theirs)
        for descriptor in self._theirs:
            self._close(descriptor)

    def finish(self) -> ChildResult:
        """Feed and read the child until it is gone with all its descendants.

        Raises:
            CannotStart: It never ran.
            SupervisorLost: The supervisor is gone; `lost` gives the result then.
        """
        self._write()
        for output in self._outputs:
            self._poll.register(output.descriptor, select.POLLIN)
        if self._stdin in self._open:
            self._poll.register(self._stdin, select.POLLOUT)
        self._poll.register(self._link.fileno(), select.POLLIN)
        deadline = self._began + self._limits.seconds
        while not self._step(deadline):
            pass
        errno, status, survivors, seconds = self._link.answer()
        if errno:
            raise CannotStart(errno)
        self._drain()
        if self._failure is None and status:
            self._failure, self._problem = FailureKind.AGENT_ERROR, _ending(status)
        return self._result(status, seconds, survivors)

    def lost(self) -> ChildResult:
        """The result when the supervisor was lost."""
        self._failure = FailureKind.INFRASTRUCTURE
        self._problem = "lost its supervising process, which somebody killed or stopped"
        return self._result(None, time.monotonic() - self._began, 0)

    def close(self) -> None:
        """Close every pipe that is still open."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _step(self, deadline: float) -> bool:
        """Wait for something to happen, and handle it. Returns whether the supervisor has answered."""
        ended = self._failure is not None
        left = _LONGEST_POLL_SECONDS if ended else min(deadline - time.monotonic(), _LONGEST_POLL_SECONDS)
        if left <= 0:
            self._end(FailureKind.TIMEOUT, f"did not end within {self._limits.seconds:g} s")
            return True
        events = self._poll.poll(left * 1000)
        for descriptor, _ in events:
            if descriptor == self._link.fileno():
                return True
            if descriptor == self._stdin:
                self._write()
                continue
            output = next(output for output in self._outputs if output.descriptor == descriptor)
            output.read()
            if not output.is_open:
                self._poll.unregister(descriptor)
            elif output.is_over:
                self._end_for_size(output)
                return True
        return False

    def _end(self, failure: FailureKind, problem: str) -> None:
        self._failure, self._problem = failure, problem
        self._link.kill()

    def _end_for_size(self, output: _Output) -> None:
        self._end(FailureKind.OUTPUT_LIMIT, f"wrote more than {output.limit} bytes to {output.name}")

    def _write(self) -> None:
        """Write as much input as fits now; close the pipe when that was all or nobody reads it."""
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._stdin, self._unwritten[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass
        with suppress(KeyError):
            self._poll.unregister(self._stdin)
        self._close(self._stdin)

    def _drain(self) -> None:
        """Read what is left in the pipes; every writer is gone, so that is no more than they hold."""
        for output in self._outputs:
            while output.is_open and not output.is_over and output.read():
                pass
            if output.is_over and self._failure is None:
                self._failure = FailureKind.OUTPUT_LIMIT
                self._problem = f"wrote more than {output.limit} bytes to {output.name}"

    def _result(self, status: int | None, seconds: float, survivors: int) -> ChildResult:
        stdout, stderr = (output.kept() for output in self._outputs)
        return ChildResult(status, stdout, stderr, self._failure, self._problem, seconds, survivors)

    def _pipe(self, *, blocking_end: int) -> tuple[int, int]:
        """A pipe, of which the end that is this program's never blocks."""
        ends = os.pipe()
        self._open.update(ends)
        os.set_blocking(ends[1 - blocking_end], False)
        return ends

    def _close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        os.close(descriptor)


def _ending(status: int) -> str:
    """How a child ended, in words."""
    if status > 0:
        return f"exited with code {status}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"


PASSED_ON = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
    }
)
"""Variables that say where things are and how to write them; none of them is a secret."""

_LOCALE = "LC_"


def allowed_environment(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """The part of an environment that a child may see.

    Tokens, keys and passwords of the job are not passed on: a program under test that could read them
    could also print them.

    Args:
        environ: This program's environment.
        names: Further variables that were asked for; those that are not set are left out.
    """
    wanted = PASSED_ON.union(names)
    return {name: value for name, value in environ.items() if name in wanted or name.startswith(_LOCALE)}


_PR_SET_DUMPABLE = 4


def hide_environment() -> None:
    """Make `/proc/<pid>/environ` and the memory of this process unreadable for its children.

    An agent or a judge gets an environment of its own (`allowed_environment`), but one of the same user could
    read this program's, tokens included. Linux refuses that for a process that is not dumpable (prctl(2)),
    except to those with CAP_SYS_PTRACE, CAP_SYS_ADMIN or CAP_PERFMON, which the root of a container usually
    does not have. Does nothing elsewhere.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

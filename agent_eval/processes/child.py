"""Run an untrusted program.

The program runs in a session of its own, with the environment that the caller passes and no other. Its time
and its output are limited. When `run_child` returns, the program and all its descendants have ended, also
those that detached themselves: each child runs under a `supervisor` process, which ends its descendants. Any
number of threads may run children at the same time.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable
from agent_eval.processes.pool import SUPERVISORS, SupervisorLink, SupervisorLost
from agent_eval.processes.privacy import OF_THE_SIGNER

_CHUNK = 1 << 16
_LONGEST_POLL_SECONDS = 3600.0
_TRIES = 20
"""Idle supervisors to try in turn if each is found dead, which means that another program kills them."""

_REMEDIES = {
    errno.ENOENT: "Check its name and the PATH that it is looked up in; for a script, also its first line.",
    errno.EACCES: "Make it executable: chmod +x.",
    errno.ENOEXEC: "Begin it with a line such as #!/usr/bin/env python3, or name its interpreter.",
    errno.E2BIG: "Pass less in its arguments and environment.",
}

TOOL_HOMES = (
    *(("ASDF_DATA_DIR", ".asdf"), ("MISE_DATA_DIR", ".local/share/mise"), ("NODENV_ROOT", ".nodenv")),
    *(("NVM_DIR", ".nvm"), ("PYENV_ROOT", ".pyenv"), ("RBENV_ROOT", ".rbenv")),
    *(("RUSTUP_HOME", ".rustup"), ("VOLTA_HOME", ".volta")),
)
"""Variables that say where installed tools are, and where below the home directory that is without them."""

PASSED_ON = frozenset(
    (
        *("HOME", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "USER"),
        *("VIRTUAL_ENV", "LANG", "LANGUAGE", "TZ"),
        *(name for name, _ in TOOL_HOMES),
    )
)
"""Variables for paths, languages and certificates, beside the `LC_` ones; none of them is a secret."""


class ChildNotStarted(NotEvaluable):
    """The program does not exist or cannot be executed."""

    code = "not_started"


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of a child.

    `seconds` is wall time from the child's start to its end.
    """

    seconds: float = 30.0
    stdout_bytes: int = 8 << 20
    stderr_bytes: int = 8 << 20


@dataclass(frozen=True, slots=True)
class ChildResult:
    """Result of running a child.

    Attributes:
        exit_code: Negative for the signal that ended the child (-9 if a limit did); None if its supervisor
            was lost.
        stdout: Standard output, cut off at the limit.
        stderr: Standard error, cut off at the limit.
        failure: None if the child ended by itself with exit code 0. `TIMEOUT` or `OUTPUT_LIMIT` if a limit
            ended it, `AGENT_ERROR` for another exit code or a signal, and if its supervisor was lost: what
            has the right and the occasion to end that is the child itself.
        problem: The failure in words, starting with a verb ("exited with code 1"); empty without a failure.
        survivors: Number of descendants that could not be ended: processes of another user, or processes
            that the kernel does not end.
    """

    exit_code: int | None
    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    failure: FailureKind | None
    problem: str
    duration_s: float
    survivors: int = 0


def run_child(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str],
    limits: ChildLimits | None = None,
    cwd: str | os.PathLike[str] | None = None,
) -> ChildResult:
    """Run a program until it ends, and end its descendants.

    The run is over when the program itself ends; processes that it left in the background are ended then.
    The program can write output before it has read all of its input, and need not read its input at all.

    Args:
        argv: The program and its arguments; no shell is involved. A name without `/` is looked up in the
            `PATH` of `env`.
        env: The program's whole environment; see `allowed_environment`.
        cwd: The program's working directory; by default this program's.

    Raises:
        ChildNotStarted: The program does not exist or cannot be executed.
        InvalidInput: `argv` is empty, or `argv` or `env` has a value that no process can receive.
        NotEvaluable: No process can be started at all.
    """
    check_program(argv, env)
    directory = os.getcwd() if cwd is None else os.path.abspath(cwd)
    program = find_program(argv[0], env)
    for _ in range(_TRIES):
        try:
            link = SUPERVISORS.take()
        except OSError as error:
            raise no_resources(error) from error
        try:
            return _run(link, stdin, limits or ChildLimits(), (program, argv, env, directory))
        except CannotStart as error:
            SUPERVISORS.give_back(link)
            raise not_started(argv[0], directory, error) from None
        except SupervisorLost:
            link.destroy()  # nothing was started, so another supervisor may try
        except OSError as error:
            link.close()
            raise no_resources(error) from error
        except BaseException:
            link.close()  # such as Ctrl-C: a supervisor whose link is closed ends its child
            raise
    raise NotEvaluable(
        "no process can be started: those that supervise them are killed all the time",
        remedy="Look for a program of the agent under test that kills processes it did not start.",
    )


def allowed_environment(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Select the part of an environment that a child may see.

    Tokens, keys and passwords of the job are left out, because a program under test that can read them can
    also print them. `names` are further variables to pass; those that are not set are left out, as is what
    evidence is signed with.
    """
    passed_on = PASSED_ON.union(names).difference(OF_THE_SIGNER)
    return {name: value for name, value in environ.items() if name in passed_on or name.startswith("LC_")}


def no_resources(error: OSError) -> NotEvaluable:
    """Make the error for a machine that cannot start a process."""
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
    exchange = _Exchange(link, stdin, limits)
    try:
        exchange.start(*program)
        try:
            result = exchange.finish()
        except SupervisorLost:
            link.destroy()
            return exchange.lost_result()
        # A supervisor with descendants that it could not end serves no other child.
        if result.survivors:
            link.close()
        else:
            SUPERVISORS.give_back(link)
        return result
    finally:
        exchange.close()


def check_program(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Refuse arguments and variables that no process can receive."""
    words = [*argv, *env, *env.values()]
    if not argv or not argv[0]:
        raise InvalidInput("the command is empty", remedy="Name a program and its arguments.")
    if any("\0" in word for word in words) or any("=" in name or not name for name in env):
        raise InvalidInput(
            "a command or its environment has a null character, or a variable without a proper name",
            remedy="Remove it; no process can receive that.",
        )


def find_program(name: str, env: Mapping[str, str]) -> str:
    """Look a program up in the `PATH` of its environment."""
    if "/" in name:
        return name
    # If it is not found, starting it fails with the right error.
    return shutil.which(name, path=env.get("PATH", os.defpath)) or name


def not_started(name: str, directory: str, error: CannotStart) -> ChildNotStarted:
    """Make the error for a program that cannot be run."""
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


class CannotStart(Exception):
    """The supervisor could not start the child; `errno` says why."""

    def __init__(self, errno: int) -> None:
        super().__init__(os.strerror(errno))
        self.errno = errno


@dataclass
class ChildOutput:
    """One of the child's outputs, as far as it has been read."""

    name: str
    descriptor: int
    limit: int
    data: bytearray = field(default_factory=bytearray)
    is_open: bool = True

    def read(self) -> bool:
        """Read once and update `is_open`; return whether there may be more to read now."""
        try:
            piece = os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return False
        self.is_open = bool(piece)
        self.data += piece
        return self.is_open

    @property
    def exceeds_limit(self) -> bool:
        """Whether the child wrote more than it may."""
        return len(self.data) > self.limit

    def within_limit(self) -> bytes:
        """Return the data up to the limit."""
        return bytes(memoryview(self.data)[: self.limit])


class _Exchange:
    """Feeds one child, reads its output and enforces its limits. Call `start`, `finish`, and always `close`.

    `link` is an idle supervisor. Raises OSError if no file descriptors are left.
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
        self._child_ends = (stdin_reader, stdout_writer, stderr_writer)
        self._outputs = (
            ChildOutput("standard output", stdout_reader, limits.stdout_bytes),
            ChildOutput("standard error", stderr_reader, limits.stderr_bytes),
        )
        self._poll = select.poll()
        self._failure: FailureKind | None = None
        self._problem = ""
        self._began = time.monotonic()

    def start(self, program: str, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
        """Ask the supervisor to start the child; raises SupervisorLost if nothing was started."""
        self._began = time.monotonic()
        self._link.start(program, argv, env, cwd, self._child_ends)
        # Only the child may keep these ends open: the end of its output shows when it has ended.
        for descriptor in self._child_ends:
            self._close(descriptor)

    def finish(self) -> ChildResult:
        """Feed and read the child until it and all its descendants have ended.

        Raises:
            CannotStart: The child never ran.
            SupervisorLost: The supervisor is gone; use `lost_result`.
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
            self._failure, self._problem = FailureKind.AGENT_ERROR, ending_in_words(status)
        return self._result(status, seconds, survivors)

    def lost_result(self) -> ChildResult:
        self._failure = FailureKind.AGENT_ERROR
        self._problem = "lost its supervising process, which was killed or stopped"
        return self._result(None, time.monotonic() - self._began, 0)

    def close(self) -> None:
        """Close every pipe that is still open."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _step(self, deadline: float) -> bool:
        """Wait for one event and handle it; return whether the supervisor's answer is due."""
        remaining = min(deadline - time.monotonic(), _LONGEST_POLL_SECONDS)
        if remaining <= 0:
            self._end(FailureKind.TIMEOUT, f"did not end within {self._limits.seconds:g} s")
            return True
        for descriptor, _ in self._poll.poll(remaining * 1000):
            if descriptor == self._link.fileno():
                return True
            if descriptor == self._stdin:
                self._write()
                continue
            output = next(output for output in self._outputs if output.descriptor == descriptor)
            output.read()
            if not output.is_open:
                self._poll.unregister(descriptor)
            elif output.exceeds_limit:
                self._end(FailureKind.OUTPUT_LIMIT, too_much_in_words(output))
                return True
        return False

    def _end(self, failure: FailureKind, problem: str) -> None:
        self._failure, self._problem = failure, problem
        self._link.kill()

    def _write(self) -> None:
        """Write as much input as fits now; close the pipe after the last of it, or if it has no reader."""
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
        """Read the rest of the output; all writers have ended, so it is no more than the pipes contain."""
        for output in self._outputs:
            while output.is_open and not output.exceeds_limit and output.read():
                pass
            if output.exceeds_limit and self._failure is None:
                self._failure, self._problem = FailureKind.OUTPUT_LIMIT, too_much_in_words(output)

    def _result(self, status: int | None, seconds: float, survivors: int) -> ChildResult:
        stdout, stderr = (output.within_limit() for output in self._outputs)
        return ChildResult(status, stdout, stderr, self._failure, self._problem, seconds, survivors)

    def _pipe(self, *, blocking_end: int) -> tuple[int, int]:
        """Create a pipe whose end in this program never blocks; `blocking_end` is the child's."""
        ends = os.pipe()
        self._open.update(ends)
        os.set_blocking(ends[1 - blocking_end], False)
        return ends

    def _close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        os.close(descriptor)


def too_much_in_words(output: ChildOutput) -> str:
    """Say which output exceeds its limit."""
    return f"wrote more than {output.limit} bytes to {output.name}"


def ended_how(status: int | None) -> str:
    """Say how a child died, in words that follow "it died"."""
    if status is None or status >= 0:
        return f"with exit code {status}"
    with suppress(ValueError):
        return f"of {signal.Signals(-status).name}"
    return f"of signal {-status}"


def ending_in_words(status: int) -> str:
    """Describe how a child ended."""
    if status > 0:
        return f"exited with code {status}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-status).name}"
    return f"was ended by signal {-status}"

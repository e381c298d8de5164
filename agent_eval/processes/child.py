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
import threading
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
_NO_SUCH_PATH = (
    "Check its path. A job has what is committed, and what `setup` of agent-eval.yml installs there."
)
_OTHERWISE = "Check the program and the limits on processes (ulimit -u)."

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
    limits = limits or ChildLimits()
    program = Program(argv, env=env, cwd=cwd)
    try:
        program.send(stdin, limits, is_all=True)
        failure: Failure | None = None
        while failure is None and not program.is_over:
            failure = program.step()
        if failure is not None:
            program.kill()
        status, survivors, seconds = program.settle()
        if status is None:
            failure = (FailureKind.AGENT_ERROR, LOST)
        elif failure is None:
            too_much = [output for output in program.outputs if output.exceeds_limit]
            if too_much:
                failure = (FailureKind.OUTPUT_LIMIT, too_much_in_words(too_much[0]))
            elif status:
                failure = (FailureKind.AGENT_ERROR, ending_in_words(status))
        stdout, stderr = (output.within_limit() for output in program.outputs)
        kind, problem = failure or (None, "")
        return ChildResult(status, stdout, stderr, kind, problem, seconds, survivors)
    finally:
        program.abandon()  # after Ctrl-C: a supervisor whose link is closed ends its child


def allowed_environment(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """Select the part of an environment that a child may see.

    Tokens, keys and passwords of the job are left out, because a program under test that can read them can
    also print them. `names` are further variables to pass; those that are not set are left out, as is what
    evidence is signed with.
    """
    passed_on = PASSED_ON.union(names).difference(OF_THE_SIGNER)
    return {name: value for name, value in environ.items() if name in passed_on or name.startswith("LC_")}


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


Failure = tuple[FailureKind, str]
"""Why a program was ended, and that in words, starting with a verb."""

LOST = "lost its supervising process, which was killed or stopped"


class Program:
    """A running program: its pipes, its limits, and the supervisor that ends it with all that it started.

    One thread may use it at a time.

    Args:
        argv: The program and its arguments; no shell is involved.
        env: Its whole environment.
        cwd: Its working directory; by default this program's.
        stderr: The descriptor of its standard error; None for a pipe.

    Attributes:
        outputs: Its standard output and, if that is a pipe, its standard error.
        is_over: Whether it has ended by itself: `settle` does not wait then.

    Raises:
        InvalidInput: `argv` is empty, or a value is one that no process can receive.
        NotEvaluable: No process can be started at all.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | os.PathLike[str] | None = None,
        stderr: int | None = None,
    ) -> None:
        words = [*argv, *env, *env.values()]
        if not argv or not argv[0]:
            raise InvalidInput("the command is empty", remedy="Name a program and its arguments.")
        if any("\0" in word for word in words) or any("=" in name or not name for name in env):
            raise InvalidInput(
                "a command or its environment has a null character, or a variable without a proper name",
                remedy="Remove it; no process can receive that.",
            )
        self._name, self._directory = argv[0], os.getcwd() if cwd is None else os.path.abspath(cwd)
        self._open: set[int] = set()
        self._link: SupervisorLink | None = None
        self._link_lock = threading.Lock()
        self._unwritten, self._is_all_sent = memoryview(b""), False
        self._limits, self._began, self.is_over = ChildLimits(), time.monotonic(), False
        # If it is not found in the `PATH` of its environment, starting it fails with the right error.
        path = env.get("PATH", os.defpath)
        executable = argv[0] if "/" in argv[0] else shutil.which(argv[0], path=path) or argv[0]
        for _ in range(_TRIES):
            try:
                self._link = SUPERVISORS.take()
                self._start(self._link, (executable, argv, env, self._directory), stderr)
                return
            except SupervisorLost:  # nothing was started, so another supervisor may try
                self.destroy()
            except OSError as error:
                self.abandon()
                raise NotEvaluable(
                    f"no process can be started: {error.strerror or error}",
                    remedy="Run fewer at once, or raise the limits on open files, processes and memory "
                    "(ulimit -a).",
                ) from error
        raise NotEvaluable(
            "no process can be started: those that supervise them are killed all the time",
            remedy="Look for a program of the agent under test that kills processes it did not start.",
        )

    def _start(
        self,
        link: SupervisorLink,
        program: tuple[str, Sequence[str], Mapping[str, str], str],
        stderr: int | None,
    ) -> None:
        stdin_reader, self.stdin = self._pipe(own_end=1)
        stdout_reader, stdout_writer = self._pipe(own_end=0)
        self.stdout = ChildOutput("standard output", stdout_reader, 0)
        self.outputs, child_ends = [self.stdout], [stdin_reader, stdout_writer]
        if stderr is None:
            stderr_reader, stderr_writer = self._pipe(own_end=0)
            self.outputs.append(ChildOutput("standard error", stderr_reader, 0))
            child_ends.append(stderr_writer)
        link.start(*program, child_ends if stderr is None else [*child_ends, stderr])
        # Only the child may keep these ends open: the end of its output shows when it has ended.
        for descriptor in child_ends:
            self.close_pipe(descriptor)

    def send(self, data: bytes, limits: ChildLimits, *, is_all: bool = False) -> None:
        """Begin to write to the program, whose time and output are limited from now on.

        Its input is closed after the last of `data` if that `is_all`.
        """
        self._unwritten, self._is_all_sent = memoryview(data), is_all
        self._limits, self._began = limits, time.monotonic()
        for output, limit in zip(self.outputs, (limits.stdout_bytes, limits.stderr_bytes), strict=True):
            output.limit = limit
        self._write()

    @property
    def seconds(self) -> float:
        """Time since `send`."""
        return time.monotonic() - self._began

    def step(self) -> Failure | None:
        """Wait for one event and handle it; return the failure by which the program must be ended."""
        assert self._link is not None
        remaining = min(self._limits.seconds - self.seconds, _LONGEST_POLL_SECONDS)
        if remaining <= 0:
            return FailureKind.TIMEOUT, f"did not end within {self._limits.seconds:g} s"
        poll = select.poll()
        outputs = {output.descriptor: output for output in self.outputs if output.is_open}
        for descriptor in (*outputs, self._link.fileno()):
            poll.register(descriptor, select.POLLIN)
        if self.stdin in self._open and self._unwritten:
            poll.register(self.stdin, select.POLLOUT)
        for descriptor, _ in poll.poll(remaining * 1000):
            if descriptor == self.stdin:
                self._write()
            elif descriptor in outputs:
                outputs[descriptor].read()
                if outputs[descriptor].exceeds_limit:
                    return FailureKind.OUTPUT_LIMIT, too_much_in_words(outputs[descriptor])
            else:
                # What it wrote before it ended is still to be read.
                self._drain()
                self.is_over = True
        return None

    def _write(self) -> None:
        """Write as much as fits now; close the pipe after the last of it, or if it has no reader."""
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self.stdin, self._unwritten[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # it reads no more
            self.close_pipe(self.stdin)
        if self._is_all_sent:
            self.close_pipe(self.stdin)

    def kill(self) -> None:
        """End the program and its descendants; `settle` waits for that. Any thread may call this."""
        with self._link_lock:  # a link that was given back may have another child by now
            if self._link is not None:
                self._link.kill()

    def settle(self) -> tuple[int | None, int, float]:
        """Wait until the program and its descendants have ended, and read the rest of what it wrote.

        Returns its exit code (None if its supervisor was lost), the number of descendants that could not be
        ended, and the seconds that it ran.

        Raises:
            ChildNotStarted: It cannot be executed.
        """
        assert self._link is not None
        try:
            errno, status, survivors, seconds = self._link.answer()
        except SupervisorLost:
            self.destroy()
            return None, 0, self.seconds
        with self._link_lock:
            link, self._link = self._link, None
        # A supervisor with descendants that it could not end serves no other child.
        link.close() if survivors else SUPERVISORS.give_back(link)
        if errno:
            raise _not_started(self._name, self._directory, errno)
        self._drain()
        return status, survivors, seconds

    def _drain(self) -> None:
        for output in self.outputs:
            while output.is_open and not output.exceeds_limit and output.read():
                pass

    def destroy(self) -> None:
        """Kill a supervisor that does not answer, and with it the program."""
        if self._link is not None:
            self._link.destroy()
        self.abandon()

    def abandon(self) -> None:
        """Close the pipes, and have a program that still runs ended, without waiting for that."""
        if self._link is not None:
            self._link.close()
            self._link = None
        for descriptor in list(self._open):
            self.close_pipe(descriptor)

    def fileno(self) -> int:
        """Return a descriptor that can be read once the program has ended."""
        assert self._link is not None
        return self._link.fileno()

    @property
    def reads_input(self) -> bool:
        """Whether the program's input is still open."""
        return self.stdin in self._open

    def close_pipe(self, descriptor: int) -> None:
        """Close one of the pipes."""
        if descriptor in self._open:
            self._open.discard(descriptor)
            with suppress(OSError):
                os.close(descriptor)

    def _pipe(self, *, own_end: int) -> tuple[int, int]:
        """Create a pipe of which the end in this program never blocks."""
        ends = os.pipe()
        self._open.update(ends)
        os.set_blocking(ends[own_end], False)
        return ends


def _not_started(name: str, directory: str, error: int) -> ChildNotStarted:
    if not os.path.isdir(directory):
        return ChildNotStarted(
            f"cannot run {name}: its working directory {directory} does not exist",
            remedy="Create the directory or name another one.",
            file=directory,
        )
    is_path = error == errno.ENOENT and os.sep in name and not os.path.exists(os.path.join(directory, name))
    return ChildNotStarted(
        f"cannot run {name}: {os.strerror(error)}",
        remedy=_NO_SUCH_PATH if is_path else _REMEDIES.get(error, _OTHERWISE),
        file=name,
    )


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

"""Feeding one child and reading what it writes, within its limits, until it is gone."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from agent_eval.errors import FailureKind
from agent_eval.processes.pool import SupervisorLink

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

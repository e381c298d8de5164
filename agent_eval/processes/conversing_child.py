"""Run an untrusted program that is asked several times: a line on standard input, a line on standard output.

The program is supervised as `child.run_child` does: its own session, the environment that the caller passes,
limits of time and output for each answer, and no descendant that outlives it.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from agent_eval.errors import FailureKind
from agent_eval.processes.child import (
    CannotStart,
    ChildLimits,
    ChildOutput,
    ChildResult,
    check_program,
    ending_in_words,
    find_program,
    no_resources,
    not_started,
    too_much_in_words,
)
from agent_eval.processes.pool import SUPERVISORS, SupervisorLost

_CHUNK = 1 << 16
_LONGEST_POLL_SECONDS = 3600.0


class ConversingChild:
    """A program that stays alive between questions. Not safe to use from several threads at once.

    Args:
        argv: The program and its arguments; no shell is involved.
        env: The program's whole environment.
        cwd: Its working directory; by default this program's.

    Raises:
        ChildNotStarted: The program does not exist or cannot be executed.
        InvalidInput: `argv` is empty, or a value is one that no process can receive.
        NotEvaluable: No process can be started at all.
    """

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None
    ) -> None:
        check_program(argv, env)
        self._name, self._directory = argv[0], os.getcwd() if cwd is None else os.path.abspath(cwd)
        self._open: set[int] = set()
        self._is_alive = self._has_exited = False
        try:
            self._link = SUPERVISORS.take()
        except OSError as error:
            raise no_resources(error) from error
        try:
            self._start(find_program(argv[0], env), argv, env)
        except (OSError, SupervisorLost) as error:
            self._link.destroy()
            self._close_pipes()
            raise no_resources(error if isinstance(error, OSError) else OSError(str(error))) from error

    def _start(self, program: str, argv: Sequence[str], env: Mapping[str, str]) -> None:
        stdin_reader, self._stdin = self._pipe(own_end=1)
        stdout_reader, stdout_writer = self._pipe(own_end=0)
        stderr_reader, stderr_writer = self._pipe(own_end=0)
        child_ends = (stdin_reader, stdout_writer, stderr_writer)
        self._link.start(program, argv, env, self._directory, child_ends)
        self._is_alive = True
        for descriptor in child_ends:
            self._close_pipe(descriptor)
        self._stdout = ChildOutput("standard output", stdout_reader, 0)
        self._stderr = ChildOutput("standard error", stderr_reader, 0)

    def ask(self, line: bytes, limits: ChildLimits | None = None) -> ChildResult:
        """Write a line and wait for one.

        Both lines are without their ends. The answer is `stdout`; what the program wrote meanwhile is
        `stderr`, whose limit counts from the beginning. After a failure the program and its
        descendants are ended.

        Raises:
            ChildNotStarted: The program cannot be executed.
        """
        limits = limits or ChildLimits()
        began = time.monotonic()
        if not self._is_alive:
            return self._failed(FailureKind.AGENT_ERROR, "has ended before this turn", began)
        if self._stdout.data:
            return self._end(FailureKind.PARSE_ERROR, "wrote more than one line in a turn", began)
        self._stdout.limit, self._stderr.limit = limits.stdout_bytes, limits.stderr_bytes
        self._unwritten = memoryview(line + b"\n")
        while b"\n" not in self._stdout.data:
            if problem := self._step(began + limits.seconds, limits):
                return self._end(*problem, began)
            if b"\n" not in self._stdout.data and (self._has_exited or not self._stdout.is_open):
                return self._exited(began)
        answer, _, rest = bytes(self._stdout.data).partition(b"\n")
        self._stdout.data = bytearray(rest)
        return self._result(0, answer, None, "", began)

    @property
    def has_unread(self) -> bool:
        """Whether the program wrote more than its last answer, as far as that has been read."""
        return bool(self._stdout.data)

    def close(self) -> None:
        """End the program and its descendants."""
        if not self._is_alive:
            return
        self._is_alive = False
        self._link.kill()
        self._settle()

    def _step(self, deadline: float, limits: ChildLimits) -> tuple[FailureKind, str] | None:
        """Wait for one event and handle it; return the failure by which the program must be ended."""
        remaining = min(deadline - time.monotonic(), _LONGEST_POLL_SECONDS)
        if remaining <= 0:
            return FailureKind.TIMEOUT, f"did not end within {limits.seconds:g} s"
        poll = select.poll()
        outputs = {output.descriptor: output for output in (self._stdout, self._stderr) if output.is_open}
        for descriptor in (*outputs, self._link.fileno()):
            poll.register(descriptor, select.POLLIN)
        if self._unwritten and self._stdin in self._open:
            poll.register(self._stdin, select.POLLOUT)
        for descriptor, _ in poll.poll(remaining * 1000):
            if descriptor == self._stdin:
                self._write()
            elif descriptor in outputs:
                outputs[descriptor].read()
                if outputs[descriptor].exceeds_limit:
                    return FailureKind.OUTPUT_LIMIT, too_much_in_words(outputs[descriptor])
            else:
                # What the program wrote before it ended is still to be read.
                self._drain()
                self._has_exited = True
        return None

    def _write(self) -> None:
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._stdin, self._unwritten[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._close_pipe(self._stdin)

    def _drain(self) -> None:
        for output in (self._stdout, self._stderr):
            while output.is_open and not output.exceeds_limit and output.read():
                pass

    def _exited(self, began: float) -> ChildResult:
        """Make the result of a program that ended, or closed its output, without an answer."""
        self._is_alive = False
        self._link.kill()
        try:
            errno, status, _, _ = self._link.answer()
        except SupervisorLost:
            self._link.destroy()
            self._close_pipes()
            words = "lost its supervising process, which was killed or stopped"
            return self._failed(FailureKind.AGENT_ERROR, words, began)
        self._drain()
        SUPERVISORS.give_back(self._link)
        if errno:
            self._close_pipes()
            raise not_started(self._name, self._directory, CannotStart(errno))
        words = ending_in_words(status) if status else "ended"
        result = self._failed(FailureKind.AGENT_ERROR, f"{words} without an answer", began, status)
        self._close_pipes()
        return result

    def _end(self, failure: FailureKind, problem: str, began: float) -> ChildResult:
        """End the program because of a failure."""
        self._is_alive = False
        self._link.kill()
        self._settle(keep_output=True)
        result = self._failed(failure, problem, began)
        self._close_pipes()
        return result

    def _settle(self, *, keep_output: bool = False) -> None:
        """Wait until the program has ended, and return its supervisor."""
        try:
            _, _, survivors, _ = self._link.answer()
        except SupervisorLost:
            self._link.destroy()
        else:
            # A supervisor with descendants that it could not end serves no other child.
            self._link.close() if survivors else SUPERVISORS.give_back(self._link)
        if keep_output:
            self._drain()
        else:
            self._close_pipes()

    def _failed(
        self, failure: FailureKind, problem: str, began: float, status: int | None = None
    ) -> ChildResult:
        received = self._stdout.within_limit()
        return self._result(status, received, failure, problem, began)

    def _result(
        self, status: int | None, answer: bytes, failure: FailureKind | None, problem: str, began: float
    ) -> ChildResult:
        errors = self._stderr.within_limit()
        self._stderr.data = bytearray()
        return ChildResult(status, answer, errors, failure, problem, time.monotonic() - began)

    def _pipe(self, *, own_end: int) -> tuple[int, int]:
        """Create a pipe of which the end in this program never blocks."""
        ends = os.pipe()
        self._open.update(ends)
        os.set_blocking(ends[own_end], False)
        return ends

    def _close_pipe(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.discard(descriptor)
            with suppress(OSError):
                os.close(descriptor)

    def _close_pipes(self) -> None:
        for descriptor in list(self._open):
            self._close_pipe(descriptor)

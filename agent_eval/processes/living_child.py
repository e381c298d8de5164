"""Programs that stay alive and are asked several times: a line on standard input, a line on standard output.

They are supervised as `child.run_child` does: a session of their own, the environment that the caller
passes, and no descendant that outlives them. One thread asks a `ConversingChild`, a question at a time, with
limits of time and output for each answer; many threads ask a `SharedChild` at the same time.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from agent_eval.errors import FailureKind
from agent_eval.processes.child import (
    CannotStart,
    ChildLimits,
    ChildNotStarted,
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
_LOST = "lost its supervising process, which was killed or stopped"


class _LivingChild:
    """A running program, its pipes and its supervisor.

    Args:
        argv: The program and its arguments; no shell is involved.
        env: The program's whole environment.
        cwd: Its working directory; by default this program's.
        stderr: The descriptor of its standard error; None for a pipe.

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
        check_program(argv, env)
        self._name, self._directory = argv[0], os.getcwd() if cwd is None else os.path.abspath(cwd)
        self._open: set[int] = set()
        self._stderr: ChildOutput | None = None
        try:
            self._link = SUPERVISORS.take()
        except OSError as error:
            raise no_resources(error) from error
        try:
            stdin_reader, self._stdin = self._pipe(own_end=1)
            stdout_reader, stdout_writer = self._pipe(own_end=0)
            child_ends = [stdin_reader, stdout_writer]
            self._stdout = ChildOutput("standard output", stdout_reader, 0)
            if stderr is None:
                stderr_reader, stderr_writer = self._pipe(own_end=0)
                child_ends.append(stderr_writer)
                self._stderr = ChildOutput("standard error", stderr_reader, 0)
            descriptors = [*child_ends, *([] if stderr is None else [stderr])]
            self._link.start(find_program(argv[0], env), argv, env, self._directory, descriptors)
            for descriptor in child_ends:
                self._close_pipe(descriptor)
        except (OSError, SupervisorLost) as error:
            self._link.destroy()
            self._close_pipes()
            raise no_resources(error if isinstance(error, OSError) else OSError(str(error))) from error

    def _settle(self) -> int | None:
        """Wait until the program has ended, and return its supervisor.

        Returns its exit code; None if the supervisor was lost.

        Raises:
            ChildNotStarted: It never ran.
        """
        try:
            errno, status, survivors, _ = self._link.answer()
        except SupervisorLost:
            self._link.destroy()
            return None
        # A supervisor with descendants that it could not end serves no other child.
        self._link.close() if survivors else SUPERVISORS.give_back(self._link)
        if errno:
            raise not_started(self._name, self._directory, CannotStart(errno))
        return status

    def _drain(self) -> None:
        for output in (self._stdout, self._stderr):
            while output is not None and output.is_open and not output.exceeds_limit and output.read():
                pass

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


class ConversingChild(_LivingChild):
    """A program that one thread asks, a question at a time. Arguments as of `run_child`."""

    _stderr: ChildOutput

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(argv, env=env, cwd=cwd)
        self._is_alive, self._has_exited = True, False

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
        if self._is_alive:
            with suppress(ChildNotStarted):
                self._kill()
            self._close_pipes()

    def _kill(self) -> int | None:
        self._is_alive = False
        self._link.kill()
        return self._settle()

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

    def _exited(self, began: float) -> ChildResult:
        """Make the result of a program that ended, or closed its output, without an answer."""
        try:
            status = self._kill()
            self._drain()
            words = _LOST if status is None else ending_in_words(status) if status else "ended"
            if status is not None:
                words += " without an answer"
            return self._failed(FailureKind.AGENT_ERROR, words, began, status)
        finally:
            self._close_pipes()

    def _end(self, failure: FailureKind, problem: str, began: float) -> ChildResult:
        """End the program because of a failure."""
        self._kill()
        self._drain()
        result = self._failed(failure, problem, began)
        self._close_pipes()
        return result

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


class SharedChild(_LivingChild):
    """A program that many threads send lines to, and that answers in any order.

    Its standard error is this program's. A thread of its own reads what it writes.

    Args:
        on_line: Called with each line that it wrote, without its end; what it raises ends the program.
        on_end: Called once, when the program and its descendants have ended, with its exit code (negative
            for a signal); None where that is not known.
        line_bytes: Size of a line beyond which the program is ended.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        on_line: Callable[[bytes], None],
        on_end: Callable[[int | None], None],
        line_bytes: int,
    ) -> None:
        super().__init__(argv, env=env, stderr=2)
        self._on_line, self._on_end, self._stdout.limit = on_line, on_end, line_bytes
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="answers", daemon=True)
        self._thread.start()

    def send(self, line: bytes, seconds: float) -> bool:
        """Write a line; return whether the program read it in time. It cannot be asked again otherwise."""
        rest, deadline = memoryview(line + b"\n"), time.monotonic() + seconds
        if not self._writing.acquire(timeout=seconds):
            return False
        try:
            poll = select.poll()
            poll.register(self._stdin, select.POLLOUT)
            while rest and self._stdin in self._open:
                try:
                    rest = rest[os.write(self._stdin, rest) :]
                except BlockingIOError:
                    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                        return False
        except OSError:  # it has ended, of which `on_end` tells
            return True
        finally:
            self._writing.release()
        return True

    def kill(self) -> None:
        """End the program and its descendants, without waiting for that."""
        self._link.kill()

    def close(self, patience_seconds: float) -> None:
        """Close the program's input, and end it if it still runs after a while. Waits for its end."""
        if self._writing.acquire(timeout=patience_seconds):
            self._close_pipe(self._stdin)
            self._writing.release()
            self._thread.join(patience_seconds)
        if self._thread.is_alive():
            self._link.kill()
            self._thread.join()

    def _serve(self) -> None:
        try:
            self._read_lines()
        except Exception:  # it wrote what is no answer
            self._link.kill()
        status: int | None = None
        with suppress(Exception):
            status = self._settle()
        with self._writing:
            self._close_pipes()
        self._on_end(status)

    def _read_lines(self) -> None:
        poll = select.poll()
        for descriptor in (self._stdout.descriptor, self._link.fileno()):
            poll.register(descriptor, select.POLLIN)
        has_exited = False
        while not has_exited:
            ready = [descriptor for descriptor, _ in poll.poll()]
            has_exited = self._link.fileno() in ready
            while self._stdout.read():
                *lines, rest = self._stdout.data.split(b"\n")
                self._stdout.data = rest
                for line in lines:
                    self._on_line(bytes(line))
                if self._stdout.exceeds_limit:
                    raise ValueError(too_much_in_words(self._stdout))
            if not self._stdout.is_open and not has_exited:
                raise ValueError("closed its standard output")

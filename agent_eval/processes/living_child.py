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
    LOST,
    ChildLimits,
    ChildNotStarted,
    ChildResult,
    Failure,
    Program,
    ending_in_words,
    too_much_in_words,
)


class ConversingChild:
    """A program that one thread asks, a question at a time. Arguments and errors as of `run_child`."""

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None
    ) -> None:
        self._program = Program(argv, env=env, cwd=cwd)
        self._stdout, self._stderr = self._program.outputs
        self._is_alive = True

    def ask(self, line: bytes, limits: ChildLimits | None = None) -> ChildResult:
        """Write a line and wait for one.

        Both lines are without their ends. The answer is `stdout`; what the program wrote meanwhile is
        `stderr`, whose limit counts from the beginning. After a failure the program and its
        descendants are ended.

        Raises:
            ChildNotStarted: The program cannot be executed.
        """
        began = time.monotonic()
        if not self._is_alive:
            return self._result(None, (FailureKind.AGENT_ERROR, "has ended before this turn"), began)
        if self._stdout.data:
            return self._end((FailureKind.PARSE_ERROR, "wrote more than one line in a turn"), began)
        self._program.send(line + b"\n", limits or ChildLimits())
        while b"\n" not in self._stdout.data:
            if failure := self._program.step():
                return self._end(failure, began)
            is_over = self._program.is_over or not self._stdout.is_open
            if is_over and b"\n" not in self._stdout.data:
                return self._end(None, began)
        answer, _, rest = bytes(self._stdout.data).partition(b"\n")
        self._stdout.data = bytearray(answer)
        result = self._result(0, None, began)
        self._stdout.data = bytearray(rest)
        return result

    @property
    def has_unread(self) -> bool:
        """Whether the program wrote more than its last answer, as far as that has been read."""
        return bool(self._stdout.data)

    def close(self) -> None:
        """End the program and its descendants."""
        if self._is_alive:
            with suppress(ChildNotStarted):
                self._settle()

    def _settle(self) -> int | None:
        self._is_alive = False
        self._program.kill()
        try:
            return self._program.settle()[0]
        finally:
            self._program.abandon()

    def _end(self, failure: Failure | None, began: float) -> ChildResult:
        """End the program because of a failure; None where it ended, or closed its output, by itself."""
        status = self._settle()
        if failure is not None:
            return self._result(None, failure, began)
        if status is None:
            words = LOST
        else:
            words = f"{ending_in_words(status) if status else 'ended'} without an answer"
        return self._result(status, (FailureKind.AGENT_ERROR, words), began)

    def _result(self, status: int | None, failure: Failure | None, began: float) -> ChildResult:
        stdout, stderr = self._stdout.within_limit(), self._stderr.within_limit()
        self._stderr.data = bytearray()
        kind, problem = failure or (None, "")
        return ChildResult(status, stdout, stderr, kind, problem, time.monotonic() - began)


class SharedChild:
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
        self._program = Program(argv, env=env, stderr=2)
        self._on_line, self._on_end = on_line, on_end
        self._program.stdout.limit = line_bytes
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
            poll.register(self._program.stdin, select.POLLOUT)
            while rest and self._program.reads_input:
                try:
                    rest = rest[os.write(self._program.stdin, rest) :]
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
        self._program.kill()

    def close(self, patience_seconds: float) -> None:
        """Close the program's input, and end it if it still runs after a while. Waits for its end."""
        if self._writing.acquire(timeout=patience_seconds):
            self._program.close_pipe(self._program.stdin)
            self._writing.release()
            self._thread.join(patience_seconds)
        if self._thread.is_alive():
            self._program.kill()
            self._thread.join()

    def _serve(self) -> None:
        stdout, poll, has_exited = self._program.stdout, select.poll(), False
        for descriptor in (stdout.descriptor, self._program.fileno()):
            poll.register(descriptor, select.POLLIN)
        try:
            while not has_exited:
                has_exited = self._program.fileno() in [descriptor for descriptor, _ in poll.poll()]
                while stdout.read():
                    *lines, stdout.data = stdout.data.split(b"\n")
                    for line in lines:
                        self._on_line(bytes(line))
                    if stdout.exceeds_limit:
                        raise ValueError(too_much_in_words(stdout))
                if not stdout.is_open and not has_exited:
                    raise ValueError("closed its standard output")
        except Exception:  # it wrote what is no answer
            self._program.kill()
        status: int | None = None
        with suppress(ChildNotStarted):
            status = self._program.settle()[0]
        with self._writing:
            self._program.abandon()
        self._on_end(status)

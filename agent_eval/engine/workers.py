"""Forked processes for numbered work: the trials that `trial_workers` runs.

Workers claim numbers from one pipe, and each sends its results through its own pipe. A worker ends when no
number is left to claim, when its parent has ended, or when its parent stops it.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import os
import pickle
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

FINISHED = "finished"
"""The last message of a worker."""
STOP_SECONDS = 5.0
"""How long a worker may take to exit once it has finished."""
_POLL_SECONDS = 0.005
_RESULT_PIPE_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1


def usable_processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Tell whether forking is safe: on Linux, in a process with one thread, so that no other holds a lock."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


class WorkerDied(Exception):
    """A worker process ended before it had finished.

    Its exit code `code` is negative for a signal; None if unknown.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    @property
    def how(self) -> str:
        """The cause in words that follow "died"."""
        if self.code is None or self.code >= 0:
            return f"with exit code {self.code}"
        with suppress(ValueError):
            return f"of {signal.Signals(-self.code).name}"
        return f"of signal {-self.code}"


_LENGTH = struct.Struct("=I")


class Outbox:
    """The writing end of a pipe of pickled messages. `send` is safe to call from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            BrokenPipeError: The reading end is closed.
        """
        data = pickle.dumps(message)
        rest = memoryview(_LENGTH.pack(len(data)) + data)
        with self._lock:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._descriptor)


class Inbox:
    """The reading end of a pipe of pickled messages."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._incomplete = bytearray()

    def fileno(self) -> int:
        """The file descriptor, readable when something has arrived."""
        return self._descriptor

    def receive(self) -> list[Any]:
        """Return every whole message that has arrived. Waits until there is something to read.

        Raises:
            EOFError: The writing end is closed.
        """
        data = os.read(self._descriptor, _RESULT_PIPE_BYTES)
        if not data:
            raise EOFError
        self._incomplete += data
        messages, start = [], 0
        while len(self._incomplete) - start >= _LENGTH.size:
            body = start + _LENGTH.size
            end = body + _LENGTH.unpack_from(self._incomplete, start)[0]
            if end > len(self._incomplete):
                break
            messages.append(pickle.loads(self._incomplete[body:end]))  # noqa: S301 - pickled by a worker
            start = end
        del self._incomplete[:start]
        return messages

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._descriptor)


class ForkedWorker:
    """A forked copy of this process, in its own process group with all that it starts.

    Args:
        do: Called in the worker with the outbox for its results.
        siblings: Workers that were forked before.

    It is `finished` when it has sent its last message, and so did not die.
    """

    results: Inbox

    def __init__(
        self, do: Callable[[Outbox], None], claims: Claims, siblings: Iterable[ForkedWorker]
    ) -> None:
        reader, writer = os.pipe()
        with suppress(OSError, AttributeError):  # with a small pipe the worker only waits more often
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _RESULT_PIPE_BYTES)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()  # otherwise both processes would write the buffered text
        parent = os.getpid()
        with _signals_blocked():
            self.pid = os.fork()
            if not self.pid:
                inherited = [reader, *(sibling.results.fileno() for sibling in siblings)]
                _run_worker(do, Outbox(writer), claims, inherited, parent)
        os.close(writer)
        self._code: int | None = None
        self._ended = False
        self.results = Inbox(reader)
        self.finished = False

    def receive(self) -> list[Any]:
        """Return the results that the worker has sent. Waits until there is something to read.

        Raises:
            WorkerDied: The worker died.
            Exception: The exception that the worker raised.
        """
        try:
            messages = self.results.receive()
        except EOFError:
            raise WorkerDied(self.exit_code()) from None
        if messages and messages[-1] == FINISHED:
            self.finished = True
            messages.pop()
        for message in messages:
            if isinstance(message, BaseException):
                self.finished = True
                raise message
        return messages

    def exit_code(self) -> int | None:
        """Wait a moment for the end. Returns the exit code, negative for a signal; None while it runs."""
        self._wait(STOP_SECONDS)
        return self._code

    def has_ended(self) -> bool:
        """Tell whether the process has ended, without waiting for it."""
        return self._wait(0)

    def stop(self) -> None:
        """Wait for the worker if it has finished; end it otherwise."""
        if not self.finished:
            self._signal(signal.SIGTERM)
        if not self._wait(STOP_SECONDS):
            self.kill()
        self.results.close()

    def kill(self) -> None:
        """Kill the worker and all that it started."""
        self._signal(signal.SIGKILL)
        self._wait(None)

    def _wait(self, seconds: float | None) -> bool:
        """Wait for the worker to end. Processes that it left in its process group are then killed."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._ended:
            # Without reaping it: until then no other process group can get its number.
            flags = os.WEXITED | os.WNOWAIT | (0 if until is None else os.WNOHANG)
            try:
                if os.waitid(os.P_PID, self.pid, flags) is not None:
                    self._signal(signal.SIGKILL)
                    self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                    self._ended = True
                    continue
            except ChildProcessError:  # this process ignores SIGCHLD, or other code waited for it
                self._ended = True
                continue
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> None:
        if not self._ended:
            for send in (os.killpg, os.kill):  # it may not have its process group yet
                with suppress(OSError):
                    send(self.pid, number)


def _run_worker(
    do: Callable[[Outbox], None], results: Outbox, claims: Claims, inherited: Sequence[int], parent: int
) -> NoReturn:
    """Run a forked worker until its end."""
    code = 1
    try:
        _become_worker(claims, inherited, parent)
        do(results)
        results.send(FINISHED)
        code = 0
    except BrokenPipeError:
        pass
    # A defect of this program or of a plug-in: the parent raises it like its own.
    except BaseException as error:
        with suppress(OSError):
            results.send(sendable(error))
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                stream.flush()
        os._exit(code)


def _become_worker(claims: Claims, inherited: Sequence[int], parent: int) -> None:
    # In its own process group: Ctrl-C reaches only the parent, and what the worker starts ends with it.
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # discards a signal that came while both were blocked
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    # Exit handlers of the parent must not run in the worker; those of plug-ins and agents, added later, do.
    atexit._clear()
    # Otherwise other processes would not see the end of these pipes while this one runs.
    claims.close_writer()
    for descriptor in inherited:
        os.close(descriptor)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    gc.freeze()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block the signals that would end a new process before it has set its own handlers."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sendable(error: BaseException) -> BaseException:
    """Return the error, or a RuntimeError with its text if the error cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made one line above
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


_NUMBER = struct.Struct("=Q")
_PIPE_BYTES = 1 << 16


class Claims:
    """Numbers that workers claim, each once and in order: a pipe that several processes read.

    A read takes one number without a lock, so a killed process loses only the numbers that it had claimed.
    The numbers are read when the pipe has room.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._numbers = iter(numbers)
        self._next: int | None = None

    def refill(self, most: int | None = None) -> list[int]:
        """Write numbers until the pipe is full or `most` were written; close the pipe after the last number.

        Returns the numbers written.
        """
        put: list[int] = []
        while self._writer >= 0 and (most is None or len(put) < most):
            if self._next is None:
                self._next = next(self._numbers, None)
            if self._next is None:
                self.close_writer()
                break
            try:
                os.write(self._writer, _NUMBER.pack(self._next))
            except BlockingIOError:
                break
            put.append(self._next)
            self._next = None
        return put

    def waiting(self) -> int:
        """Count the numbers in the pipe."""
        size = fcntl.ioctl(self.reader, termios.FIONREAD, b"\0\0\0\0")
        return int.from_bytes(size, sys.byteorder) // _NUMBER.size

    def withdraw(self) -> list[int]:
        """Remove all numbers from the pipe and close it. Returns the numbers that no worker had claimed."""
        self.close_writer()
        unclaimed = b""
        while data := os.read(self.reader, _PIPE_BYTES):
            unclaimed += data
        return [number for (number,) in _NUMBER.iter_unpack(unclaimed)]

    def close_writer(self) -> None:
        """Close the writing end. Readers see the end of the numbers once every process has closed it."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_writer()
        os.close(self.reader)


def claim(reader: int) -> int | None:
    """Claim the next number; None if no number is left.

    `reader` is the file descriptor `Claims.reader`.
    """
    data = os.read(reader, _NUMBER.size)
    return int(_NUMBER.unpack(data)[0]) if data else None

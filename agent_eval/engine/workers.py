"""Processes that work off numbers: shards to score (`parallel_scoring`), trials to run (`trial_workers`).

Workers claim numbers from one pipe, and each sends what came of them through a pipe of its own. They end when
there is nothing left to claim, when their parent is gone, or when it stops them.
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
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from typing_extensions import override

FINISHED = "finished"
"""What a worker sends last."""
STOP_SECONDS = 5.0
"""How long a worker that has finished may take to end."""
_LOOK_SECONDS = 0.005
_RESULT_PIPE_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1


def usable_processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Whether forking is safe here: on Linux, and with one thread, which therefore holds every lock."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


class WorkerDied(Exception):
    """A worker process ended without saying that it had finished.

    Attributes:
        code: Its exit code, negative for a signal; None where it is not known.
    """

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code

    @property
    def how(self) -> str:
        """Words that follow "died"."""
        if self.code is None or self.code >= 0:
            return f"with exit code {self.code}"
        with suppress(ValueError):
            return f"of {signal.Signals(-self.code).name}"
        return f"of signal {-self.code}"


_LENGTH = struct.Struct("=I")


class Outbox:
    """The writing end of a pipe of pickled messages. Any thread may send.

    Args:
        descriptor: The pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            BrokenPipeError: Nobody reads any more.
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
    """The reading end of a pipe of pickled messages.

    Args:
        descriptor: The pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._begun = bytearray()

    def fileno(self) -> int:
        """The file descriptor, readable when something has arrived."""
        return self._descriptor

    def receive(self) -> list[Any]:
        """Every whole message that has arrived; waits while nothing has.

        Raises:
            EOFError: The writing end is closed.
        """
        data = os.read(self._descriptor, _RESULT_PIPE_BYTES)
        if not data:
            raise EOFError
        self._begun += data
        messages, start = [], 0
        while len(self._begun) - start >= _LENGTH.size:
            body = start + _LENGTH.size
            end = body + _LENGTH.unpack_from(self._begun, start)[0]
            if end > len(self._begun):
                break
            messages.append(pickle.loads(self._begun[body:end]))  # noqa: S301 - from a process of our own
            start = end
        del self._begun[:start]
        return messages

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._descriptor)


class Worker(ABC):
    """A process that works off numbers.

    Attributes:
        results: Where what it sends arrives.
        finished: Whether it said that it has finished, and did not die.
    """

    results: Inbox
    finished = False

    def receive(self) -> list[Any]:
        """What it has sent; waits while it has sent nothing.

        Raises:
            WorkerDied: It died.
            Exception: What it raised.
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

    @abstractmethod
    def exit_code(self) -> int | None:
        """Wait a moment for its end: the exit code, negative for a signal; None while it runs."""

    @abstractmethod
    def stop(self) -> None:
        """Wait for it if it has finished, end it otherwise."""


class ForkedWorker(Worker):
    """A copy of this process, in a process group of its own with all that it starts.

    Args:
        do: What it does, given the way to send results.
        claims: What it claims from.
        siblings: Workers that were forked before.

    Attributes:
        pid: Its process id.
    """

    def __init__(self, do: Callable[[Outbox], None], claims: Claims, siblings: Iterable[Worker]) -> None:
        reader, writer = os.pipe()
        with suppress(OSError, AttributeError):  # a small pipe only makes it wait more often
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _RESULT_PIPE_BYTES)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()  # else both processes would write what waits
        parent = os.getpid()
        with _signals_blocked():
            self.pid = os.fork()
            if not self.pid:
                inherited = [reader, *(sibling.results.fileno() for sibling in siblings)]
                _live(do, Outbox(writer), claims, inherited, parent)
        os.close(writer)
        self._code: int | None = None
        self._gone = False
        self.results = Inbox(reader)

    @override
    def exit_code(self) -> int | None:
        self._wait(STOP_SECONDS)
        return self._code

    def has_ended(self) -> bool:
        """Whether the process has ended, without waiting for it."""
        return self._wait(0)

    @override
    def stop(self) -> None:
        if not self.finished:
            self._signal(signal.SIGTERM)
        if not self._wait(STOP_SECONDS):
            self.kill()
        self.results.close()

    def kill(self) -> None:
        """End it, and what it started, at once."""
        self._signal(signal.SIGKILL)
        self._wait(None)

    def _wait(self, seconds: float | None) -> bool:
        """Wait for its end. What it started and left in its process group ends with it."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._gone:
            # Without reaping it: the number of its group is nobody else's until then.
            flags = os.WEXITED | os.WNOWAIT | (0 if until is None else os.WNOHANG)
            try:
                if os.waitid(os.P_PID, self.pid, flags) is not None:
                    self._signal(signal.SIGKILL)
                    self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                    self._gone = True
                    continue
            except ChildProcessError:  # this process ignores SIGCHLD, or something else waited for it
                self._gone = True
                continue
            if until is not None and time.monotonic() >= until:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> None:
        if not self._gone:
            for send in (os.killpg, os.kill):  # it may not have founded its group yet
                with suppress(OSError):
                    send(self.pid, number)


def _live(
    do: Callable[[Outbox], None], results: Outbox, claims: Claims, inherited: Sequence[int], parent: int
) -> NoReturn:
    """What a forked worker does until its end."""
    code = 1
    try:
        _become_worker(claims, inherited, parent)
        do(results)
        results.send(FINISHED)
        code = 0
    except BrokenPipeError:
        pass
    # A defect of this program or of a plug-in: the parent shows it like one of its own.
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
    # A group of its own: Ctrl-C reaches the parent only, and what the worker starts ends with the worker.
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # forgets one that came while both were blocked
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    # What the parent does at its end is not the worker's; what plug-ins and agents register from now on is.
    atexit._clear()
    # Else nobody would see the end of these pipes while this process lives.
    claims.close_writer()
    for descriptor in inherited:
        os.close(descriptor)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    gc.freeze()


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Hold back what would end a new process before it has its own answer to that."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sendable(error: BaseException) -> BaseException:
    """The error itself, or one that says the same where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made one line above
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


_NUMBER = struct.Struct("=Q")
_PIPE_BYTES = 1 << 16


class Claims:
    """Numbers that workers claim, each once and in order: a pipe that several processes read.

    A read takes one number and nothing is locked, so a process that is killed takes nothing with it but the
    numbers it had claimed.

    Args:
        numbers: What there is to claim; taken from as the pipe has room.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._numbers = iter(numbers)
        self._next: int | None = None

    def refill(self, most: int | None = None) -> list[int]:
        """Put numbers into the pipe until it is full or has `most` more, and close its end after the last.

        Returns:
            Those that were put in.
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
        """How many numbers are in the pipe."""
        size = fcntl.ioctl(self.reader, termios.FIONREAD, b"\0\0\0\0")
        return int.from_bytes(size, sys.byteorder) // _NUMBER.size

    def withdraw(self) -> list[int]:
        """Take back what nobody has claimed. Returns what was in the pipe."""
        self.close_writer()
        taken = b""
        while data := os.read(self.reader, _PIPE_BYTES):
            taken += data
        return [number for (number,) in _NUMBER.iter_unpack(taken)]

    def close_writer(self) -> None:
        """Say that no more numbers come. Every process that holds the pipe has to."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_writer()
        os.close(self.reader)


def claim(reader: int) -> int | None:
    """Take the next number; None when all are taken.

    Args:
        reader: File descriptor of `Claims.reader`.
    """
    data = os.read(reader, _NUMBER.size)
    return int(_NUMBER.unpack(data)[0]) if data else None

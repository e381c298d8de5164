"""Several processes score the shards of one suite, the calling process among them.

Workers claim shards from a pipe and send each outcome back over a pipe of their own. They are forked
where that is safe (Linux, one thread) and started afresh elsewhere. They end when there is nothing left to
claim, when their parent is gone, or when it stops them.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from agent_eval.engine.plan import ScoringJob
from agent_eval.engine.shard import ShardOutcome, score_shard
from agent_eval.errors import NotEvaluable
from agent_eval.judges.base import Judge

_FINISHED = "finished"
_STOP_SECONDS = 5.0


def can_fork() -> bool:
    """Whether forking is safe here: on Linux, and with one thread, which therefore holds every lock."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False


def score_in_parallel(
    job: ScoringJob, judges: Sequence[Judge], processes: int
) -> Generator[ShardOutcome, None, None]:
    """Score shards, and yield outcomes as they come. After a failed one, no further shard is begun.

    Shards are begun in suite order, so every shard before a failed one is yielded too. Closing the
    iterator stops the workers.

    Args:
        job: What to score.
        judges: The plan's judges, for this process and those forked from it.
        processes: How many processes, this one included.

    Raises:
        NotEvaluable: A worker died.
    """
    claims = Claims(len(job.suite.shards))
    workers: list[Worker] = []
    fork = can_fork()
    try:
        for _ in range(processes - 1):
            workers.append(ForkedWorker(job, judges, claims, workers) if fork else SpawnedWorker(job, claims))
        yield from _collect(job, judges, claims, workers)
    finally:
        for worker in workers:
            worker.stop()
        claims.close()


def _collect(
    job: ScoringJob, judges: Sequence[Judge], claims: Claims, workers: Sequence[Worker]
) -> Iterator[ShardOutcome]:
    running = list(workers)
    unclaimed = True
    while unclaimed or running:
        outcomes = []
        for results in wait([worker.results for worker in running], 0 if unclaimed else None):
            worker = next(worker for worker in running if worker.results is results)
            outcome = worker.receive()
            if outcome is None:
                running.remove(worker)
            else:
                outcomes.append(outcome)
        if unclaimed:
            claims.refill()
            number = claim(claims.reader)
            if number is None:
                unclaimed = False
            else:
                outcomes.append(score_shard(job, judges, job.suite.shards[number]))
        for outcome in outcomes:
            if outcome.error is not None:
                claims.withdraw()
            yield outcome


class Worker(ABC):
    """A process that scores shards.

    Attributes:
        results: Where its outcomes arrive.
    """

    results: Connection
    _finished = False

    def receive(self) -> ShardOutcome | None:
        """Its next outcome; None when it has finished.

        Raises:
            NotEvaluable: It died.
        """
        try:
            message = self.results.recv()
        except (EOFError, OSError):
            code = self._exit_code()
            how = f"with exit code {code}" if code is None or code >= 0 else _signal_name(-code)
            raise NotEvaluable(
                f"a worker process died {how} while it scored the suite",
                remedy="It may have run out of memory: run again with more memory or with one worker.",
                exit_code=code,
            ) from None
        self._finished = not isinstance(message, ShardOutcome)
        if isinstance(message, BaseException):
            raise message
        return None if self._finished else message

    @abstractmethod
    def _exit_code(self) -> int | None:
        """Exit code of the dead process, negative for a signal."""

    @abstractmethod
    def stop(self) -> None:
        """End it and wait until it is gone."""


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return f"of {signal.Signals(number).name}"
    return f"of signal {number}"


class ForkedWorker(Worker):
    """A copy of this process."""

    def __init__(
        self, job: ScoringJob, judges: Sequence[Judge], claims: Claims, siblings: Sequence[Worker]
    ) -> None:
        self.results, sender = Pipe(duplex=False)
        inherited = [self.results, *(sibling.results for sibling in siblings)]
        self._process = get_context("fork").Process(
            target=_forked, args=(job, judges, claims, inherited, sender, os.getpid()), daemon=True
        )
        with _interrupts_blocked():
            self._process.start()
        sender.close()

    def _exit_code(self) -> int | None:
        self._process.join(_STOP_SECONDS)
        return self._process.exitcode

    def stop(self) -> None:
        """Wait for it if it has finished; end it otherwise, for what it writes nobody will see."""
        if not self._finished:
            self._process.terminate()
        self._process.join(_STOP_SECONDS)
        self._process.kill()
        self._process.join()
        self._process.close()
        self.results.close()


class SpawnedWorker(Worker):
    """A new interpreter, which loads the judges itself."""

    def __init__(self, job: ScoringJob, claims: Claims) -> None:
        self.results, sender = Pipe(duplex=False)
        main = (
            "import sys; sys.path[:] = eval(sys.argv[1]); "
            "from agent_eval.engine.workers import spawned; spawned(*map(int, sys.argv[2:]))"
        )
        # In a process group of its own, so that Ctrl-C reaches this process only, which then stops it.
        self._process = subprocess.Popen(
            [sys.executable, "-c", main, repr(sys.path), str(claims.reader), str(sender.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=(claims.reader, sender.fileno()),
            process_group=0,
        )
        sender.close()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            pickle.dump((job, os.getpid()), stdin)

    def _exit_code(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(_STOP_SECONDS)
        return None

    def stop(self) -> None:
        """Wait for it if it has finished; end it otherwise, for what it writes nobody will see."""
        if not self._finished:
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_SECONDS)
        self._process.kill()
        self._process.wait()
        self.results.close()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Hold Ctrl-C back until a new process has learned to ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forked(
    job: ScoringJob,
    judges: Sequence[Judge],
    claims: Claims,
    inherited: Sequence[Connection],
    sender: Connection,
    parent: int,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Else nobody would see the end of these pipes while this process lives.
    claims.close_writer()
    for connection in inherited:
        connection.close()
    gc.freeze()
    work(job, judges, claims.reader, sender, parent)


def spawned(reader: int, results: int) -> None:
    """Entry point of a `SpawnedWorker`: reads its job from standard input.

    Args:
        reader: File descriptor to claim from.
        results: File descriptor to send outcomes to.
    """
    sender: Connection[Any, Any] = Connection(results, readable=False)
    job, parent = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by the process that started this one
    work(job, job.plan.load(), reader, sender, parent)


def work(
    job: ScoringJob, judges: Sequence[Judge], reader: int, results: Connection[Any, Any], parent: int
) -> None:
    """Score shards until none is left or the parent is gone; what a worker does.

    Args:
        job: What to score.
        judges: The plan's judges.
        reader: File descriptor to claim from.
        results: Where outcomes go.
        parent: Process id of who waits for them.
    """
    with suppress(BrokenPipeError), results:
        try:
            while (number := claim(reader)) is not None:
                if os.getppid() != parent:
                    return
                results.send(score_shard(job, judges, job.suite.shards[number]))
            results.send(_FINISHED)
        except BrokenPipeError:
            return
        # A defect of this program or of a plug-in: the parent shows it like one of its own.
        except Exception as error:
            results.send(_sendable(error))


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made one line above
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


_NUMBER = struct.Struct("=I")
_PIPE_BYTES = 1 << 16


class Claims:
    """The numbers of the shards that nobody has claimed yet, in suite order.

    Args:
        count: How many shards there are.
        first: Number of the first one that is to be claimed.
    """

    def __init__(self, count: int, first: int = 0) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._next, self._count = first, count
        self.refill()

    def refill(self) -> None:
        """Put numbers into the pipe until it is full, or all are in and its end is closed."""
        while self._next < self._count:
            try:
                os.write(self._writer, _NUMBER.pack(self._next))
            except BlockingIOError:
                return
            self._next += 1
        self.close_writer()

    def withdraw(self) -> None:
        """Take back what nobody has claimed."""
        self._next = self._count
        self.close_writer()
        while os.read(self.reader, _PIPE_BYTES):
            pass

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

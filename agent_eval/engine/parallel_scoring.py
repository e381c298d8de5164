"""Score the shards of one suite in several processes, one of which is the calling process.

Workers are forked if that is safe (on Linux, from a process with one thread), and otherwise spawned.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import wait

from typing_extensions import override

from agent_eval.engine.plan import ScoringJob
from agent_eval.engine.shard import ShardOutcome, score_shard
from agent_eval.engine.workers import (
    FINISHED,
    STOP_SECONDS,
    Claims,
    ForkedWorker,
    Inbox,
    Outbox,
    Worker,
    WorkerDied,
    can_fork,
    claim,
    sendable,
)
from agent_eval.errors import NotEvaluable
from agent_eval.judges.base import Judge
from agent_eval.processes.child import allowed_environment
from agent_eval.processes.privacy import become_private


def score_in_parallel(
    job: ScoringJob, judges: Sequence[Judge], processes: int
) -> Generator[ShardOutcome, None, None]:
    """Score shards, and yield outcomes as they arrive. After a failed shard, no further one is started.

    Shards are started in suite order, so every shard before a failed one is yielded too. Closing the
    iterator stops the workers.

    Args:
        job: What to score.
        judges: The plan's judges, for this process and those forked from it.
        processes: Number of processes, this one included.

    Raises:
        NotEvaluable: A worker died.
    """
    claims = Claims(range(len(job.suite.shards)))
    workers: list[Worker] = []

    def score(results: Outbox) -> None:
        score_claimed(job, judges, claims.reader, results)

    fork = can_fork()
    try:
        for _ in range(processes - 1):
            workers.append(ForkedWorker(score, claims, workers) if fork else SpawnedWorker(job, claims))
        yield from _collect(job, judges, claims, workers)
    except WorkerDied as death:
        raise NotEvaluable(
            f"a worker process died {death.how} while it scored the suite",
            remedy="It may have run out of memory: run again with more memory or with one worker.",
            exit_code=death.code,
        ) from None
    finally:
        for worker in workers:
            worker.stop()
        claims.close()


def _collect(
    job: ScoringJob, judges: Sequence[Judge], claims: Claims, workers: Sequence[Worker]
) -> Iterator[ShardOutcome]:
    running = {worker.results.fileno(): worker for worker in workers}
    unclaimed = True
    while unclaimed or running:
        outcomes: list[ShardOutcome] = []
        for descriptor, worker in _ready(running, 0 if unclaimed else None):
            outcomes += worker.receive()
            if worker.finished:
                del running[descriptor]
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


def _ready(running: dict[int, Worker], timeout: float | None) -> list[tuple[int, Worker]]:
    return [
        (descriptor, running[descriptor])
        for descriptor in wait(list(running), timeout)
        if isinstance(descriptor, int)
    ]


def score_claimed(job: ScoringJob, judges: Sequence[Judge], reader: int, results: Outbox) -> None:
    """Score shards until none is left or the parent has ended. Every worker runs this.

    Args:
        job: What to score.
        judges: The plan's judges.
        reader: File descriptor from which shards are claimed.
        results: Receives the outcomes.
    """
    parent = os.getppid()
    while os.getppid() == parent and (number := claim(reader)) is not None:
        results.send(score_shard(job, judges, job.suite.shards[number]))


class SpawnedWorker(Worker):
    """A new interpreter that scores shards, and loads the judges itself.

    Example::

        worker = SpawnedWorker(job, Claims(range(len(job.suite.shards))))
        outcomes = worker.receive()
        worker.stop()
    """

    def __init__(self, job: ScoringJob, claims: Claims) -> None:
        reader, writer = os.pipe()
        main = (
            "import sys; sys.path[:] = eval(sys.argv[1]); "
            "from agent_eval.engine.parallel_scoring import spawned; spawned(*map(int, sys.argv[2:]))"
        )
        # In its own process group, so that Ctrl-C reaches this process only, which then stops the worker.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", main, repr(sys.path), str(claims.reader), str(writer)],
            stdin=subprocess.PIPE,
            # Only its memory has the rest, since other processes could read its environment as it starts.
            env=allowed_environment(os.environ),
            pass_fds=(claims.reader, writer),
            process_group=0,
        )
        os.close(writer)
        self.results = Inbox(reader)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as stdin:
            pickle.dump((dict(os.environ), job), stdin)

    @override
    def exit_code(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(STOP_SECONDS)
        return None

    @override
    def stop(self) -> None:
        if not self.finished:
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        self._process.kill()
        self._process.wait()
        self.results.close()


def spawned(reader: int, results: int) -> None:
    """Run a `SpawnedWorker`. It reads its job from standard input.

    Args:
        reader: File descriptor from which shards are claimed.
        results: File descriptor to which outcomes are sent.
    """
    become_private()
    outbox = Outbox(results)
    with suppress(BrokenPipeError):
        try:
            environ, job = pickle.load(sys.stdin.buffer)  # noqa: S301 - by the process that started this one
            os.environ.update(environ)
            score_claimed(job, job.plan.load(), reader, outbox)
            outbox.send(FINISHED)
        except BrokenPipeError:
            raise
        except Exception as error:
            outbox.send(sendable(error))

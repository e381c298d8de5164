"""Shards scored by whoever a `concurrent.futures` executor reaches, such as the machines of a cluster.

Nothing is shared with them: a task brings its cases along, and what it wrote comes back as bytes. So the
pack has the bytes that this machine would have written, and workers need neither the suite nor the output
directory, only the same agent-eval, the same packages that judge, and the plug-ins among the judges.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agent_eval import __version__
from agent_eval.engine.plan import ScoringJob
from agent_eval.engine.shard import ShardOutcome, score_shard
from agent_eval.errors import AgentEvalError, NotEvaluable, UsageError
from agent_eval.judges.base import Judge
from agent_eval.storage.atomic import write_unsynced
from agent_eval.suites.document import Document, RawCase, Shard
from agent_eval.suites.reader import SuiteSource

LOOK_SECONDS = 5.0
"""How often it is looked whether anybody is still there while nothing comes back."""


@dataclass(frozen=True)
class Elsewhere:
    """Who scores shards.

    Attributes:
        executor: Takes the tasks.
        at_once: How many of them it has at most.
        versions: What must be installed there: `versions_here`.
        look: Called every few seconds while nothing comes back; raises NotEvaluable when nobody is there.
    """

    executor: Executor
    at_once: int
    versions: Mapping[str, str | None]
    look: Callable[[], None] = lambda: None


class Portion(Document):
    """The cases of one shard, read already.

    Args:
        suite: What they are of.
        shard: The shard.
        cases: Its cases.
    """

    def __init__(self, suite: Document, shard: Shard, cases: Sequence[RawCase]) -> None:
        self.path, self.digest = suite.path, suite.digest
        self.raw_header, self.header_line, self.problems = {}, suite.header_line, []
        self.shards = [shard]
        self._cases = list(cases)

    def read(self, shard: Shard) -> Iterator[RawCase]:  # noqa: ARG002 - there is only one
        """Its cases."""
        yield from self._cases


@dataclass(frozen=True)
class Delivery:
    """What comes back of a shard: its outcome, and its files by path in the pack."""

    outcome: ShardOutcome
    files: Mapping[str, bytes]


def score_elsewhere(
    job: ScoringJob, judges: Sequence[Judge], elsewhere: Elsewhere
) -> Generator[ShardOutcome, None, None]:
    """Have shards scored, and yield outcomes as they come. After a failed one, no further shard is begun.

    Shards are begun in suite order, so every shard before a failed one is yielded too. Closing the iterator
    cancels what has not begun.

    Args:
        job: What to score.
        judges: For shards that cannot even be read, which this process says itself.
        elsewhere: Who scores them.

    Raises:
        NotEvaluable: A task was lost, or other versions are installed there.
    """
    left = iter(job.suite.shards)
    running: dict[Future[Delivery], Shard] = {}
    try:
        while True:
            while len(running) < elsewhere.at_once and (shard := next(left, None)) is not None:
                task = _task(job, shard)
                if task is None:
                    yield score_shard(job, judges, shard)
                    left = iter(())
                    break
                running[elsewhere.executor.submit(score_task, task, shard, elsewhere.versions)] = shard
            if not running:
                return
            done, _ = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
            if not done:
                elsewhere.look()
            for future in done:
                outcome = _received(future, running.pop(future), job)
                if outcome.error is not None:
                    left = iter(())
                yield outcome
    finally:
        for future in running:
            future.cancel()


def score_task(job: ScoringJob, shard: Shard, versions: Mapping[str, str | None]) -> Delivery:
    """What is done elsewhere: score a shard into a directory of its own, and send back what was written.

    Raises:
        NotEvaluable: Other versions are installed here; their verdicts could be others.
    """
    here = versions_here(versions)
    if here != versions:
        differing = sorted(name for name in versions if here[name] != versions[name])
        said = ", ".join(f"{name} {here[name]} instead of {versions[name]}" for name in differing)
        raise NotEvaluable(
            f"a worker of the cluster ({platform.node()}) has other versions: {said}",
            remedy="Install the same on every worker.",
        )
    with TemporaryDirectory(prefix="agent-eval-shard-") as directory:
        root = Path(directory)
        target = replace(job.target, root=root)
        target.prepare()
        outcome = score_shard(replace(job, target=target), job.plan.load(), shard)
        if outcome.error is not None:
            # Dask sends what an exception was raised from along, which may be one that cannot be sent.
            outcome.error.__cause__ = outcome.error.__context__ = None
        written = (path for path in root.rglob("*") if path.is_file() and outcome.error is None)
        return Delivery(outcome, {path.relative_to(root).as_posix(): path.read_bytes() for path in written})


def versions_here(names: Iterable[str]) -> dict[str, str | None]:
    """Versions of Python, of this program (`agent_eval`) and of packages; None for what is not installed."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return {**found, "python": platform.python_version(), "agent_eval": __version__}


def _task(job: ScoringJob, shard: Shard) -> ScoringJob | None:
    """The job for one shard; None where its cases cannot be read."""
    try:
        cases = list(job.suite.document.read(shard))
    except AgentEvalError:
        return None
    return replace(job, suite=SuiteSource(Portion(job.suite.document, shard, cases), job.suite.header))


def _received(future: Future[Delivery], shard: Shard, job: ScoringJob) -> ShardOutcome:
    try:
        delivery = future.result()
    except AgentEvalError:
        raise
    # Whatever the executor says of a task that nobody did: killed, connection lost, not installed there.
    except Exception as error:
        raise NotEvaluable(
            f"cases {shard.first} to {shard.first + shard.count - 1} were not scored by the cluster: "
            f"{type(error).__name__}: {error}"[:1000],
            remedy="Look at the workers' logs; agent-eval and the judges must be installed there.",
        ) from error
    for path, data in delivery.files.items():
        place = job.target.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        write_unsynced(place, data)
    return delivery.outcome


CONNECT_SECONDS = 10.0
ALONE_SECONDS = 60.0
"""How long a cluster may be without workers before it is given up."""


@contextmanager
def dask_cluster(address: str, packages: Iterable[str]) -> Iterator[Elsewhere]:
    """The cluster of a scheduler, for a `with` statement.

    Whoever runs the scheduler can run code on its workers and here: Dask sends pickled objects both ways.

    Args:
        address: Of the scheduler, such as `tcp://10.0.0.5:8786`; `tls://…` where Dask has certificates.
        packages: Packages whose versions must be the same on every worker.

    Raises:
        UsageError: `distributed` is not installed, or this is no address.
        NotEvaluable: The scheduler cannot be reached, or it has no workers.
    """
    try:
        import distributed
    except ImportError:
        raise UsageError(
            "scoring on a Dask cluster needs the package `distributed`",
            remedy="Install agent-eval with its extra `dask`.",
        ) from None
    _check(address)
    connect: Any = distributed.Client  # untyped
    try:
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise NotEvaluable(
            f"the Dask scheduler {address} cannot be reached: {error}",
            remedy="Check that it runs and that this machine may connect to it.",
        ) from None
    with client:
        threads = _threads(client)
        if not threads:
            raise NotEvaluable(
                f"the Dask scheduler {address} has no workers", remedy="Start some with `dask worker`."
            )
        # One to work on and one at hand for every thread.
        yield Elsewhere(
            client.get_executor(pure=False), 2 * threads, versions_here(packages), _Watch(client).look
        )


def _check(address: str) -> None:
    """Refuse what Dask would try to connect to for half a minute."""
    from distributed.comm.addressing import get_address_host_port
    from distributed.comm.registry import get_backend

    try:
        get_backend(address.partition("://")[0] if "://" in address else "tcp")
        get_address_host_port(address, strict=True)
    except ValueError as error:
        raise UsageError(
            f"{address!r} is no address of a Dask scheduler: {error}",
            remedy="Write it as tcp://host:8786.",
            field="dask_scheduler",
        ) from None


class _Watch:
    """Notices that a cluster is gone, which Dask itself waits for without end.

    Args:
        client: Of the cluster.
        clock: Seconds that only grow.
    """

    def __init__(self, client: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._alone_since: float | None = None

    def look(self) -> None:
        """See `Elsewhere.look`."""
        try:
            threads = _threads(self._client)
        except (OSError, TimeoutError):
            threads = 0
        if threads:
            self._alone_since = None
            return
        self._alone_since = self._clock() if self._alone_since is None else self._alone_since
        if self._clock() - self._alone_since >= ALONE_SECONDS:
            raise NotEvaluable(
                f"the Dask cluster has had no workers for {ALONE_SECONDS:g} s",
                remedy="Look at the workers' logs, and start them anew.",
            )


def _threads(client: Any) -> int:
    return sum(client.nthreads().values())

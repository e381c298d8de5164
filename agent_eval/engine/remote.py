"""Score shards on a `concurrent.futures` executor, for example the machines of a Dask cluster.

Workers share nothing with this machine: a task contains its cases, and returns the files it wrote as bytes.
The pack has therefore the same bytes as one scored here, and workers need neither the suite nor the output
directory, only the same versions of agent-eval, of the packages that judge, and of plug-in judges.
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

from typing_extensions import override

from agent_eval import __version__
from agent_eval.engine.plan import ScoringJob
from agent_eval.engine.shard import ShardOutcome, score_shard
from agent_eval.errors import AgentEvalError, NotEvaluable, UsageError
from agent_eval.judges.base import Judge
from agent_eval.storage.atomic import write_unsynced
from agent_eval.suites.document import Document, RawCase, Shard
from agent_eval.suites.reader import SuiteSource

CHECK_SECONDS = 5.0
"""Interval at which `Cluster.check_alive` is called while no task returns."""


@dataclass(frozen=True)
class Cluster:
    """Workers that score shards in place of this machine. Pass it to `score_suite`.

    Attributes:
        most_tasks: Maximum number of tasks that the executor has at a time.
        versions: Versions that must be installed on the workers, from `versions_here`.
        check_alive: Called every few seconds while no task returns; raises NotEvaluable if the cluster has
            no workers any more.
    """

    executor: Executor
    most_tasks: int
    versions: Mapping[str, str | None]
    check_alive: Callable[[], None] = lambda: None


class ShardDocument(Document):
    """The cases of one shard, already read. Tasks contain it in place of the suite."""

    def __init__(self, suite: Document, shard: Shard, cases: Sequence[RawCase]) -> None:
        self.path, self.digest, self.is_evidence = suite.path, suite.digest, suite.is_evidence
        self.raw_header, self.header_line, self.problems = {}, suite.header_line, []
        self.shards = [shard]
        self._cases = list(cases)

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        yield from self._cases


@dataclass(frozen=True)
class ScoredShard:
    """Result of a task: the outcome of a shard, and its files by their paths in the pack."""

    outcome: ShardOutcome
    files: Mapping[str, bytes]


def score_on_cluster(
    job: ScoringJob, judges: Sequence[Judge], cluster: Cluster
) -> Generator[ShardOutcome, None, None]:
    """Score shards on a cluster, and yield outcomes as they arrive.

    Shards are started in suite order, and none after a failed one, so every shard before a failed one is
    yielded too. Closing the iterator cancels tasks that have not started. `judges` score the shards that
    cannot be read, for which this process reports the error.

    Raises:
        NotEvaluable: A task was lost, or a worker has other versions installed.
    """
    shards = iter(job.suite.shards)
    running: dict[Future[ScoredShard], Shard] = {}
    try:
        while True:
            while len(running) < cluster.most_tasks and (shard := next(shards, None)) is not None:
                task = _task(job, shard)
                if task is None:
                    yield score_shard(job, judges, shard)
                    shards = iter(())
                    break
                running[cluster.executor.submit(score_task, task, shard, cluster.versions)] = shard
            if not running:
                return
            done, _ = wait(running, CHECK_SECONDS, FIRST_COMPLETED)
            if not done:
                cluster.check_alive()
            for future in done:
                outcome = _received(future, running.pop(future), job)
                if outcome.error is not None:
                    shards = iter(())
                yield outcome
    finally:
        for future in running:
            future.cancel()


def score_task(job: ScoringJob, shard: Shard, versions: Mapping[str, str | None]) -> ScoredShard:
    """Score a shard into a temporary directory, and return the files. Runs on a worker of the cluster.

    Raises:
        NotEvaluable: Other versions are installed here, so verdicts could differ.
    """
    here = versions_here(versions)
    if here != versions:
        differing = sorted(name for name in versions if here[name] != versions[name])
        differences = ", ".join(f"{name} {here[name]} instead of {versions[name]}" for name in differing)
        raise NotEvaluable(
            f"a worker of the cluster ({platform.node()}) has other versions: {differences}",
            remedy="Install the same on every worker.",
        )
    with TemporaryDirectory(prefix="agent-eval-shard-") as directory:
        root = Path(directory)
        target = replace(job.target, root=root)
        target.prepare()
        outcome = score_shard(replace(job, target=target), job.plan.load(), shard)
        if outcome.error is not None:
            # Dask sends the cause of an exception too, which pickle may refuse.
            outcome.error.__cause__ = outcome.error.__context__ = None
        written = (path for path in root.rglob("*") if path.is_file() and outcome.error is None)
        return ScoredShard(
            outcome, {path.relative_to(root).as_posix(): path.read_bytes() for path in written}
        )


def versions_here(names: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of Python, agent_eval and the named packages; None for one not installed."""
    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {**versions, "python": platform.python_version(), "agent_eval": __version__}


def _task(job: ScoringJob, shard: Shard) -> ScoringJob | None:
    """Make the job for one shard; None if its cases cannot be read."""
    try:
        cases = list(job.suite.document.read(shard))
    except AgentEvalError:
        return None
    return replace(job, suite=SuiteSource(ShardDocument(job.suite.document, shard, cases), job.suite.header))


def _received(future: Future[ScoredShard], shard: Shard, job: ScoringJob) -> ShardOutcome:
    try:
        scored = future.result()
    except AgentEvalError:
        raise
    # The executor may raise anything for a lost task: worker killed, connection lost, package not installed.
    except Exception as error:
        raise NotEvaluable(
            f"cases {shard.first} to {shard.first + shard.count - 1} were not scored by the cluster: "
            f"{type(error).__name__}: {error}"[:1000],
            remedy="Look at the workers' logs; agent-eval and the judges must be installed there.",
        ) from error
    for path, data in scored.files.items():
        place = job.target.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        write_unsynced(place, data)
    return scored.outcome


CONNECT_SECONDS = 10.0
ALONE_SECONDS = 60.0
"""How long a cluster may be without workers until the run ends."""


@contextmanager
def dask_cluster(address: str, packages: Iterable[str]) -> Iterator[Cluster]:
    """Connect to a Dask scheduler. A context manager.

    The operator of the scheduler can run code on its workers and on this machine: Dask sends pickled objects
    both ways.

    Args:
        address: Such as `tcp://10.0.0.5:8786`; `tls://…` if Dask has certificates.
        packages: Packages whose versions must be the same on every worker.

    Raises:
        UsageError: `distributed` is not installed, or the address is invalid.
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
        # Each thread has one task to run and one waiting.
        yield Cluster(
            client.get_executor(pure=False),
            2 * threads,
            versions_here(packages),
            _DaskWatch(client).check_alive,
        )


def _check(address: str) -> None:
    """Refuse an invalid address at once; Dask would try to connect for half a minute."""
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


class _DaskWatch:
    """Detects that a cluster has lost its workers; Dask itself would wait without end."""

    def __init__(self, client: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._alone_since: float | None = None

    def check_alive(self) -> None:
        """Raise NotEvaluable once the cluster has had no workers for `ALONE_SECONDS`."""
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
                remedy="Look at the workers' logs, and start them again.",
            )


def _threads(client: Any) -> int:
    return sum(client.nthreads().values())

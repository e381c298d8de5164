"""Score a suite of recorded traces into a sealed evidence pack: in this process, in several, or on a cluster.

An executor of `concurrent.futures` does shards at once. Processes forked from this one share its files. A
cluster shares nothing with this machine: a task contains its cases, and returns the files it wrote as bytes.
The pack has therefore the same bytes as one scored here, and workers need neither the suite nor the output
directory, only the same versions of agent-eval, of the packages that judge, and of plug-in judges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from typing_extensions import override

from agent_eval.contracts import Outcome, RunConfig, RunSummary, Tally
from agent_eval.engine import cluster as clusters
from agent_eval.engine.cluster import Cluster, refuse_other_versions
from agent_eval.engine.progress import RunProgress
from agent_eval.engine.shard import JudgePlan, ScoringJob, ShardOutcome, score_shard, written_config
from agent_eval.errors import AgentEvalError, NotEvaluable, words_of
from agent_eval.evidence.layout import choose_layout, may_be_replaced
from agent_eval.evidence.writer import PackSealer, PackTarget
from agent_eval.judges.base import Judge, ask_models
from agent_eval.judges.catalog import JUDGES, runs_code
from agent_eval.processes.forked import forked_processes, processes_for
from agent_eval.storage.atomic import new_directory, write_unsynced
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.document import Document, RawCase, Shard
from agent_eval.suites.reader import SuiteSource
from agent_eval.suites.select import refuse_duplicates

Progress = Callable[[RunProgress], None]
"""Called every now and then with the number of cases done, passed and failed."""


def score_suite(
    suite: SuiteSource,
    plan: JudgePlan,
    config: RunConfig,
    out: Path,
    *,
    layout: Literal["auto", "files", "compact"] = "auto",
    redactor: Redactor | None = None,
    complete: bool = True,
    on_progress: Progress | None = None,
    cluster: Cluster | None = None,
) -> RunSummary:
    """Judge every case of a suite by its recorded trace, and seal the evidence.

    The pack's bytes do not depend on where it is scored. Either the whole pack appears at `out` or nothing
    changes there.

    More than six parameters: only the first four are needed; each of the others switches one thing.

    Args:
        config: What the pack says of the run.
        out: Path of the pack. An evidence pack that is already there is replaced.
        layout: `auto` is `compact` beyond 2,000 cases.
        redactor: Replaces secrets; by default there are none.
        complete: Whether the suite has all cases that the run should have.
        on_progress: Called after every shard.
        cluster: Scores the shards in place of this machine.

    Raises:
        InvalidInput: The suite (its first fault, in suite order) or a judge is wrong; a name has a secret.
        NothingMeasured: The suite has no cases.
        UsageError: Something that is not an evidence pack is at `out`.
        NotEvaluable: The cluster lost a task, or the suite changed meanwhile.
        StorageError: The pack cannot be written.
    """
    suite.refuse_empty()
    judges = plan.load()
    redactor = redactor or Redactor(())
    config = written_config(config, redactor)
    merged = _MergedShards()
    waiting: dict[int, ShardOutcome] = {}
    with new_directory(out, replace=may_be_replaced(out)) as root:
        target = PackTarget(root, choose_layout(layout, suite.case_count), config.run_id, config.dataset_id)
        target.prepare()
        job = ScoringJob(suite, plan, target, redactor)
        with PackSealer(target) as sealer:
            # Added in suite order, whatever order they arrive in.
            with closing(_outcomes(job, judges, cluster)) as outcomes:
                for outcome in outcomes:
                    waiting[outcome.index] = outcome
                    while merged.shards in waiting and waiting[merged.shards].written is not None:
                        merged.add(waiting.pop(merged.shards), sealer)
                    if on_progress is not None:
                        on_progress(merged.progress(suite.case_count))
            failed = waiting.get(merged.shards)
            if failed is not None:
                merged.ids.extend(failed.ids)
            # A duplicate id before the failing case is the error to report.
            refuse_duplicates(suite, merged.ids)
            if failed is not None and failed.error is not None:
                raise failed.error
            summary = merged.tally.summary(config.run_id, config.dataset_id)
            if merged.redacted_cases:
                stated = config.execution_config.with_redactions(merged.redacted_cases, merged.redactions)
                config = config.model_copy(update={"execution_config": stated})
            sealer.seal(config.to_json(), summary.to_json(), complete=complete)
    return summary


def _outcomes(
    job: ScoringJob, judges: Sequence[Judge], cluster: Cluster | None
) -> Generator[ShardOutcome, None, None]:
    """Yield the outcomes of all shards up to the first that failed, in suite order or in any other."""
    if cluster is not None:
        yield from _score_at_once(job, judges, _on_cluster(job, cluster))
    elif (number := _processes_for(job, judges)) > 1:
        with forked_processes(number, _forked.append, (job, judges)) as pool:
            yield from _score_at_once(job, judges, _in_processes(pool, number))
    else:
        for shard in job.suite.shards:
            outcome = score_shard(job, judges, shard)
            yield outcome
            if outcome.error is not None:
                return


def _processes_for(job: ScoringJob, judges: Sequence[Judge]) -> int:
    """Say how many processes should score; 1 for this one alone.

    A model has a key and keeps replies, the code of a project has processes of its own, and a pack that is
    judged again is a file that is open here.
    """
    own = all(name in JUDGES and not runs_code(name) for name in job.plan.names)
    if not own or job.plan.advisory is not None or ask_models(judges) or job.suite.document.is_evidence:
        return 1
    return processes_for(len(job.suite.shards))


@dataclass(slots=True)
class _MergedShards:
    """Counts over the shards so far, which are added in suite order."""

    tally: Tally = field(default_factory=Tally)
    redacted_cases: int = 0
    redactions: int = 0
    ids: list[str] = field(default_factory=list)
    shards: int = 0
    began: float = field(default_factory=time.monotonic)

    def progress(self, total: int) -> RunProgress:
        cases, done, seconds = self.tally.cases, len(self.ids), time.monotonic() - self.began
        return RunProgress(
            total=total,
            done=done,
            passed=cases[Outcome.PASSED.value],
            errors=cases[Outcome.ERROR.value],
            seconds=seconds,
            ends_at=seconds * total / done if done else None,
            unit="cases",
        )

    def add(self, outcome: ShardOutcome, sealer: PackSealer) -> None:
        assert outcome.written is not None
        self.shards += 1
        self.ids.extend(outcome.ids)
        self.tally.merge(outcome.tally)
        self.redacted_cases += outcome.redacted_cases
        self.redactions += outcome.redactions
        sealer.append(outcome.written)


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
class _Workers:
    """An executor that scores shards.

    Attributes:
        at_once: Number of tasks it works on at the same time.
        submit: Begins to score a shard; None where its cases cannot be read.
        receive: Returns the outcome of a task that is done. Raises NotEvaluable where it was lost.
        check_alive: Called every few seconds while no task returns; raises NotEvaluable if none ever will.
    """

    at_once: int
    submit: Callable[[Shard], Future[ShardOutcome] | None]
    receive: Callable[[Future[ShardOutcome], Shard], ShardOutcome]
    check_alive: Callable[[], None] = lambda: None


def _score_at_once(
    job: ScoringJob, judges: Sequence[Judge], workers: _Workers
) -> Generator[ShardOutcome, None, None]:
    """Score shards by an executor, and yield outcomes as they arrive.

    Shards are started in suite order, and none after a failed one, so every shard before a failed one is
    yielded too. Closing the iterator cancels tasks that have not started. `judges` score the shards that
    cannot be read, for which this process reports the error.

    Raises:
        NotEvaluable: A task was lost, or a worker has other versions installed.
    """
    shards = iter(job.suite.shards)
    running: dict[Future[ShardOutcome], Shard] = {}
    try:
        while True:
            while len(running) < 2 * workers.at_once and (shard := next(shards, None)) is not None:
                future = workers.submit(shard)
                if future is None:
                    yield score_shard(job, judges, shard)
                    shards = iter(())
                    break
                running[future] = shard
            if not running:
                return
            done, _ = wait(running, clusters.CHECK_SECONDS, FIRST_COMPLETED)
            if not done:
                workers.check_alive()
            for future in done:
                outcome = workers.receive(future, running.pop(future))
                if outcome.error is not None:
                    shards = iter(())
                yield outcome
    finally:
        for future in running:
            future.cancel()


_forked: list[tuple[ScoringJob, Sequence[Judge]]] = []
"""What a forked process scores: it has it from the process that it was forked from."""


def _score_forked(shard: Shard) -> ShardOutcome:
    [(job, judges)] = _forked
    return _sendable(score_shard(job, judges, shard))


def _in_processes(pool: Executor, number: int) -> _Workers:
    def submit(shard: Shard) -> Future[ShardOutcome]:
        with _said_of(shard):
            return pool.submit(_score_forked, shard)

    def receive(future: Future[ShardOutcome], shard: Shard) -> ShardOutcome:
        with _said_of(shard):
            return future.result()

    return _Workers(number, submit, receive)


@contextmanager
def _said_of(shard: Shard) -> Iterator[None]:
    """Raise NotEvaluable for a pool of which a process was ended: it takes and returns nothing any more."""
    try:
        yield
    except BrokenExecutor as error:
        raise NotEvaluable(
            f"{_cases_of(shard)} were not scored: a process that scores was ended",
            remedy="Give the run more memory, and look who ended it.",
        ) from error


def _cases_of(shard: Shard) -> str:
    return f"cases {shard.first} to {shard.first + shard.count - 1}"


def _on_cluster(job: ScoringJob, cluster: Cluster) -> _Workers:
    def submit(shard: Shard) -> Future[ShardOutcome] | None:
        try:
            cases = list(job.suite.document.read(shard))
        except AgentEvalError:
            return None
        suite = SuiteSource(ShardDocument(job.suite.document, shard, cases), job.suite.header)
        return cluster.executor.submit(score_task, replace(job, suite=suite), shard, cluster.versions)

    def receive(future: Future[ShardOutcome], shard: Shard) -> ShardOutcome:
        try:
            outcome = future.result()
        except AgentEvalError:
            raise
        # The executor may raise anything for a lost task: worker killed, connection lost, nothing installed.
        except Exception as error:
            words = f"{_cases_of(shard)} were not scored by the cluster: {words_of(error, 1000)}"
            raise NotEvaluable(
                words,
                remedy="Look at the workers' logs; agent-eval and the judges must be installed there.",
            ) from error
        for path, data in outcome.files.items():
            place = job.target.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_unsynced(place, data)
        outcome.files = {}
        return outcome

    return _Workers(cluster.at_once, submit, receive, cluster.check_alive)


def _sendable(outcome: ShardOutcome) -> ShardOutcome:
    """Leave out causes of an error, which pickle may refuse."""
    if outcome.error is not None:
        outcome.error.__cause__ = outcome.error.__context__ = None
    return outcome


def score_task(job: ScoringJob, shard: Shard, versions: Mapping[str, str | None]) -> ShardOutcome:
    """Score a shard into a temporary directory, and return the files. Runs on a worker of the cluster.

    Raises:
        NotEvaluable: Other versions are installed here, so verdicts could differ.
    """
    refuse_other_versions(versions)
    with TemporaryDirectory(prefix="agent-eval-shard-") as directory:
        root = Path(directory)
        target = replace(job.target, root=root)
        target.prepare()
        outcome = _sendable(score_shard(replace(job, target=target), job.plan.load(), shard))
        written = [path for path in root.rglob("*") if path.is_file() and outcome.error is None]
        outcome.files = {path.relative_to(root).as_posix(): path.read_bytes() for path in written}
        return outcome

"""Score a suite of recorded traces into a sealed evidence pack."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent_eval.contracts import Outcome, RunConfig, RunSummary, Tally
from agent_eval.engine.plan import JudgePlan, ScoringJob
from agent_eval.engine.progress import RunProgress
from agent_eval.engine.shard import ShardOutcome, score_shard, written_config
from agent_eval.errors import NothingMeasured
from agent_eval.evidence.layout import choose_layout, may_be_replaced
from agent_eval.evidence.writer import PackSealer, PackTarget
from agent_eval.judges.base import Judge
from agent_eval.storage.atomic import new_directory
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource
from agent_eval.suites.select import refuse_duplicates

if TYPE_CHECKING:
    from agent_eval.engine.remote import Cluster

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
        cluster: Scores the shards in place of this process.

    Raises:
        InvalidInput: The suite (its first fault, in suite order) or a judge is wrong; a name has a secret.
        NothingMeasured: The suite has no cases.
        UsageError: Something that is not an evidence pack is at `out`.
        NotEvaluable: The cluster lost a task, or the suite changed meanwhile.
        StorageError: The pack cannot be written.
    """
    if not suite.case_count:
        raise NothingMeasured(
            f"{suite.path}: the suite has no cases, so nothing would be measured",
            remedy="Add cases to it, or name another suite.",
            file=str(suite.path),
        )
    judges = plan.load()
    redactor = redactor or Redactor(())
    config = written_config(config, redactor)
    merged = _MergedShards()
    with new_directory(out, replace=may_be_replaced(out)) as root:
        target = PackTarget(root, choose_layout(layout, suite.case_count), config.run_id, config.dataset_id)
        target.prepare()
        job = ScoringJob(suite, plan, target, redactor)
        with PackSealer(target) as sealer:
            with closing(_outcomes(job, judges, cluster)) as outcomes:
                _merge(merged, suite, outcomes, sealer, on_progress)
            summary = merged.tally.summary(config.run_id, config.dataset_id)
            stated = _with_redactions(config, merged)
            sealer.seal_json(stated.to_json(), summary.to_json(), complete=complete)
    return summary


def _with_redactions(config: RunConfig, merged: _MergedShards) -> RunConfig:
    if not merged.redacted_cases:
        return config
    stated = config.execution_config.with_redactions(merged.redacted_cases, merged.redactions)
    return config.model_copy(update={"execution_config": stated})


def _outcomes(
    job: ScoringJob, judges: Sequence[Judge], cluster: Cluster | None
) -> Generator[ShardOutcome, None, None]:
    """Yield the outcomes of all shards up to the first that failed; those of a cluster in any order."""
    if cluster is not None:
        from agent_eval.engine.remote import score_on_cluster  # not needed on one machine

        yield from score_on_cluster(job, judges, cluster)
        return
    for shard in job.suite.shards:
        outcome = score_shard(job, judges, shard)
        yield outcome
        if outcome.error is not None:
            return


@dataclass(slots=True)
class _MergedShards:
    """Counts over the shards so far, which are added in suite order."""

    tally: Tally = field(default_factory=Tally)
    redacted_cases: int = 0
    redactions: int = 0
    ids: array[int] = field(default_factory=lambda: array("Q"))
    shards: int = 0
    began: float = field(default_factory=time.monotonic)

    def progress(self, total: int) -> RunProgress:
        cases = self.tally.cases
        return RunProgress(
            total=total,
            done=len(self.ids),
            passed=cases[Outcome.PASSED.value],
            errors=cases[Outcome.ERROR.value],
            seconds=time.monotonic() - self.began,
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


def _merge(
    merged: _MergedShards,
    suite: SuiteSource,
    outcomes: Iterator[ShardOutcome],
    sealer: PackSealer,
    on_progress: Progress | None,
) -> None:
    """Add outcomes in suite order, whatever order they arrive in."""
    waiting: dict[int, ShardOutcome] = {}
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

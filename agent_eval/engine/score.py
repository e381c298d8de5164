"""Scoring a suite of recorded traces into a sealed evidence pack."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent_eval.contracts import RunConfig, RunSummary, Tally
from agent_eval.engine.identity import refuse_duplicates
from agent_eval.engine.plan import JudgePlan, ScoringJob
from agent_eval.engine.redacted import REDACTED_CASES, written_config
from agent_eval.engine.shard import ShardOutcome, score_shard
from agent_eval.errors import NothingMeasured
from agent_eval.evidence.destination import may_be_replaced
from agent_eval.evidence.layout import choose_layout
from agent_eval.evidence.writer import PackSealer, PackTarget
from agent_eval.judges.protocol import Judge
from agent_eval.storage.atomic import new_directory
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource

Progress = Callable[[int, int], None]
"""Called now and then with the number of cases done and the number of all."""

MOST_PROCESSES = 3
"""Processes used unless the caller says otherwise: each takes some 45 MB."""

SHARDS_WORTH_A_PROCESS = 2
"""Below this many shards a process, starting one costs more than it saves."""


def score_suite(
    suite: SuiteSource,
    plan: JudgePlan,
    config: RunConfig,
    out: Path,
    *,
    layout: Literal["auto", "files", "compact"] = "auto",
    workers: int | None = None,
    redactor: Redactor | None = None,
    complete: bool = True,
    on_progress: Progress | None = None,
) -> RunSummary:
    """Judge every case of a suite by its recorded trace, and seal the evidence.

    The pack's bytes do not depend on the number of workers. Either the whole pack appears at `out` or
    nothing changes there.

    Args:
        suite: The suite.
        plan: The judges.
        config: What the pack says of the run.
        out: Where the pack shall stand. An evidence pack there is replaced.
        layout: `auto` is `compact` beyond 2,000 cases.
        workers: Processes, this one included; by default as many as help.
        redactor: Knows the secrets that must not be written; none by default.
        complete: False where cases are missing that the run should have.
        on_progress: Called in this process.

    Raises:
        InvalidInput: The first thing that is wrong with the suite, in suite order, or a judge's name or
            configuration; a secret stands in a name.
        NothingMeasured: The suite has no cases.
        UsageError: Something that is not an evidence pack is at `out`.
        NotEvaluable: A worker died, or the suite changed meanwhile.
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
    replace = may_be_replaced(out)
    with new_directory(out, replace=replace) as root:
        target = PackTarget(root, choose_layout(layout, suite.case_count), config.run_id, config.dataset_id)
        target.prepare()
        job = ScoringJob(suite, plan, target, redactor)
        with PackSealer(target) as sealer, closing(_outcomes(job, judges, workers)) as outcomes:
            joined = _join(suite, outcomes, sealer, on_progress)
            summary = joined.tally.summary(config.run_id, config.dataset_id)
            stated = _with_redactions(config, joined.redacted_cases)
            sealer.seal_json(stated.to_json(), summary.to_json(), complete=complete)
    return summary


def _with_redactions(config: RunConfig, count: int) -> RunConfig:
    if not count:
        return config
    return config.model_copy(update={"execution_config": {**config.execution_config, REDACTED_CASES: count}})


def _outcomes(
    job: ScoringJob, judges: Sequence[Judge], workers: int | None
) -> Generator[ShardOutcome, None, None]:
    shards = job.suite.shards
    processes = min(_default_processes(len(shards)) if workers is None else workers, len(shards))
    if processes > 1:
        from agent_eval.engine.workers import score_in_parallel  # not needed for small suites

        yield from score_in_parallel(job, judges, processes)
        return
    for shard in shards:
        outcome = score_shard(job, judges, shard)
        yield outcome
        if outcome.error is not None:
            return


def _default_processes(shards: int) -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, MOST_PROCESSES, shards // SHARDS_WORTH_A_PROCESS))


@dataclass(slots=True)
class _Joined:
    tally: Tally = field(default_factory=Tally)
    redacted_cases: int = 0


def _join(
    suite: SuiteSource, outcomes: Iterator[ShardOutcome], sealer: PackSealer, on_progress: Progress | None
) -> _Joined:
    """Take outcomes in suite order, whichever order they come in."""
    result = _Joined()
    ids = array("Q")
    waiting: dict[int, ShardOutcome] = {}
    joined = 0
    for outcome in outcomes:
        waiting[outcome.index] = outcome
        while joined in waiting and (written := waiting[joined].written) is not None:
            ready = waiting.pop(joined)
            joined += 1
            ids.extend(ready.ids)
            result.tally.merge(ready.tally)
            result.redacted_cases += ready.redacted_cases
            sealer.append(written)
        if on_progress is not None:
            on_progress(len(ids), suite.case_count)
    failed = waiting.get(joined)
    if failed is not None:
        ids.extend(failed.ids)
    # An id that stands twice before the failing case comes first.
    refuse_duplicates(suite, ids)
    if failed is not None and failed.error is not None:
        raise failed.error
    return result

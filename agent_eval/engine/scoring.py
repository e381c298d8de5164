"""Scoring a suite of recorded traces into a sealed evidence pack."""

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
from agent_eval.engine.progress import Standing
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
    from agent_eval.engine.remote import Elsewhere

Progress = Callable[[Standing], None]
"""Called now and then with how many cases are done and how they fared."""

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
    elsewhere: Elsewhere | None = None,
) -> RunSummary:
    """Judge every case of a suite by its recorded trace, and seal the evidence.

    The pack's bytes do not depend on the number of workers. Either the whole pack appears at `out` or
    nothing changes there.

    More than six parameters: only the first four are needed; each of the others switches one thing.

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
        elsewhere: Who scores the shards instead of this machine; then `workers` means nothing.

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
    joined = _Joined()
    with new_directory(out, replace=may_be_replaced(out)) as root:
        target = PackTarget(root, choose_layout(layout, suite.case_count), config.run_id, config.dataset_id)
        target.prepare()
        job = ScoringJob(suite, plan, target, redactor)
        with PackSealer(target) as sealer:
            with closing(_outcomes(job, judges, workers, elsewhere)) as outcomes:
                _join(joined, suite, outcomes, sealer, on_progress)
            summary = joined.tally.summary(config.run_id, config.dataset_id)
            stated = _with_redactions(config, joined.redacted_cases)
            sealer.seal_json(stated.to_json(), summary.to_json(), complete=complete)
    return summary


def _with_redactions(config: RunConfig, count: int) -> RunConfig:
    if not count:
        return config
    stated = config.execution_config.with_redacted_cases(count)
    return config.model_copy(update={"execution_config": stated})


def _outcomes(
    job: ScoringJob, judges: Sequence[Judge], workers: int | None, elsewhere: Elsewhere | None
) -> Generator[ShardOutcome, None, None]:
    """The outcomes of all shards, in any order."""
    if elsewhere is not None:
        from agent_eval.engine.remote import score_elsewhere  # not needed on one machine

        yield from score_elsewhere(job, judges, elsewhere)
        return
    shards = job.suite.shards
    processes = min(_default_processes(len(shards)) if workers is None else workers, len(shards))
    if processes > 1:
        from agent_eval.engine.parallel_scoring import score_in_parallel  # not needed for small suites

        yield from score_in_parallel(job, judges, processes)
        return
    for shard in shards:
        outcome = score_shard(job, judges, shard)
        yield outcome
        if outcome.error is not None:
            return


def _default_processes(shards: int) -> int:
    worth = min(MOST_PROCESSES, shards // SHARDS_WORTH_A_PROCESS)
    if worth <= 1:
        return 1
    from agent_eval.engine.workers import usable_processors  # all about processes, which few suites need

    return min(usable_processors(), worth)


@dataclass(slots=True)
class _Joined:
    """What the shards so far amount to; shards are added in suite order."""

    tally: Tally = field(default_factory=Tally)
    redacted_cases: int = 0
    ids: array[int] = field(default_factory=lambda: array("Q"))
    shards: int = 0
    began: float = field(default_factory=time.monotonic)

    def standing(self, total: int) -> Standing:
        cases = self.tally.cases
        return Standing(
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
        sealer.append(outcome.written)


def _join(
    result: _Joined,
    suite: SuiteSource,
    outcomes: Iterator[ShardOutcome],
    sealer: PackSealer,
    on_progress: Progress | None,
) -> None:
    """Take outcomes in suite order, whichever order they come in."""
    waiting: dict[int, ShardOutcome] = {}
    for outcome in outcomes:
        waiting[outcome.index] = outcome
        while result.shards in waiting and waiting[result.shards].written is not None:
            result.add(waiting.pop(result.shards), sealer)
        if on_progress is not None:
            on_progress(result.standing(suite.case_count))
    failed = waiting.get(result.shards)
    if failed is not None:
        result.ids.extend(failed.ids)
    # An id that stands twice before the failing case comes first.
    refuse_duplicates(suite, result.ids)
    if failed is not None and failed.error is not None:
        raise failed.error

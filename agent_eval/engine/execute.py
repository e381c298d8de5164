"""Running an agent over a suite, each finished trial on disk before it counts.

The journal has a record a trial, so that whatever ends the run, what was paid for is kept: `execute` runs
what the journal does not have. It records traces and verdicts; `score_suite` then writes the evidence from
`Execution.suite`, as for any suite of recorded traces.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from typing import Any, NamedTuple

from agent_eval.agents.tools import check_tools
from agent_eval.contracts import canonical_json
from agent_eval.contracts.trials import ALL, CasePolicy
from agent_eval.engine.concurrency import AdaptiveLimit, Crew, FixedLimit
from agent_eval.engine.identity import refuse_duplicates
from agent_eval.engine.limits import RunLimits, RunUse
from agent_eval.engine.progress import Counter, Standing
from agent_eval.engine.recorded import Slots, executed
from agent_eval.engine.redacted import written_result
from agent_eval.engine.repair import Interrupted, TrialOutcome, TrialPlan, run_trial
from agent_eval.engine.retries import Retries
from agent_eval.engine.shard import id_hash, refuse_unjudgeable
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.evidence.writer import result_row
from agent_eval.storage.journal import Journal, JournalReader
from agent_eval.storage.json_writer import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.cases import RawCase
from agent_eval.suites.reader import SuiteSource


@dataclass(frozen=True, kw_only=True)
class ExecutionPlan:
    """How a run of an agent goes.

    Attributes:
        trial: How every trial goes; retries, clocks and interruption are joined to the run here.
        trials: How often each case is run. Every case has its first trial before any has its second.
        policy: When a case with several trials passes.
        parallel: How many trials at once; None for as many as the provider takes.
        limits: What the whole run may use.
        retries: When requests are sent again.
        redactor: Knows the secrets that must not be written.
    """

    trial: TrialPlan
    trials: int = 1
    policy: CasePolicy = ALL
    parallel: int | None = 1
    limits: RunLimits = field(default_factory=RunLimits)
    retries: Retries = field(default_factory=Retries)
    redactor: Redactor = field(default_factory=lambda: Redactor(()))


@dataclass(frozen=True)
class Execution:
    """What a run of an agent came to.

    Attributes:
        suite: The cases that have been run, as recorded traces.
        stopped: Why it ended before its end, in words; empty when every case has been run.
        standing: Its counts.
    """

    suite: SuiteSource
    stopped: str
    standing: Standing

    @property
    def complete(self) -> bool:
        """Whether every case has been run."""
        return not self.stopped


class _Work(NamedTuple):
    trial: int
    position: int
    found: RawCase


def execute(
    suite: SuiteSource,
    plan: ExecutionPlan,
    journal: Journal,
    *,
    on_progress: Callable[[Standing], None] = lambda _: None,
) -> Execution:
    """Run what the journal does not have yet.

    Args:
        suite: The suite.
        plan: How.
        journal: Where finished trials are, and go.
        on_progress: Called in this thread several times a second. It may raise, as Ctrl-C does: what was
            begun then gets a moment to finish, and what has finished stays in the journal.

    Raises:
        InvalidInput: A case cannot be judged or run; nothing has been run then. Or the journal is of
            other cases.
        NothingMeasured: The suite has no cases.
        NotEvaluable: No attempt at any case can succeed, or the disk is full.
    """
    _check(suite, plan)
    run = _Run(suite, plan, journal)
    run.recall()
    run.go(on_progress)
    return run.result()


def _check(suite: SuiteSource, plan: ExecutionPlan) -> None:
    """Refuse what could never be evaluated before anything is paid for."""
    if not suite.case_count:
        raise NothingMeasured(
            f"{suite.path}: the suite has no cases, so nothing would be measured",
            remedy="Add cases to it, or name another suite.",
            file=str(suite.path),
        )
    ids = array("Q")
    for shard in suite.shards:
        for found, case in suite.read(shard):
            ids.append(id_hash(case.case_id))
            refuse_unjudgeable(plan.trial.judges, found, case, suite.path)
            check_tools(case)
            if plan.redactor.finds(case.case_id.encode()):
                raise InvalidInput(
                    f"{suite.path}: the value of a secret variable stands in a case_id",
                    remedy="Take it out of there.",
                    file=str(suite.path),
                    position=found.place.position,
                )
    refuse_duplicates(suite, ids)


class _Run:
    """The state of one execution."""

    def __init__(self, suite: SuiteSource, plan: ExecutionPlan, journal: Journal) -> None:
        self._suite, self._plan, self._journal = suite, plan, journal
        self._slots = Slots(suite.case_count, plan.trials)
        self._counter = Counter(len(self._slots))
        self._use = RunUse(plan.limits, time.monotonic)
        self._began = time.monotonic()
        self._interrupted = Flag()
        self._limit = FixedLimit(plan.parallel) if plan.parallel else AdaptiveLimit()
        plan.retries.stopping = self._interrupted
        if isinstance(self._limit, AdaptiveLimit):
            plan.retries.limit = self._limit
        self._trial = replace(plan.trial, retry=plan.retries, interrupted=self._interrupted.is_set)
        self._stopped = ""

    def recall(self) -> None:
        """Count what the journal has."""
        for offset, record in self._journal.entries():
            trial, position = _place(record)
            if not (0 <= position < self._slots.cases and 0 <= trial < self._slots.trials):
                raise InvalidInput(
                    f"{self._journal.path}: has a trial that the suite does not have",
                    remedy="Run again from the start.",
                    file=str(self._journal.path),
                )
            if not self._slots.has(trial, position):
                self._slots.put(trial, position, offset)
                self._use.add(record["cost_usd"])
                outcome = record["result"]["outcome"]
                self._counter.add(outcome, record["cost_usd"], record["retries"], resumed=True)

    def go(self, on_progress: Callable[[Standing], None]) -> None:
        """Run what is missing."""
        crew: Crew[_Work] = Crew(self._one, self._missing(), self._limit)

        def tick() -> None:
            on_progress(self._standing(crew.in_flight))
            if not self._stopped:
                self._stopped = self._use.reached()
                if self._stopped:
                    crew.stop()

        try:
            crew.run(tick)
        except BaseException:
            self._interrupted.set()
            crew.settle()
            raise
        on_progress(self._standing(0))

    def _standing(self, in_flight: int) -> Standing:
        return self._counter.standing(in_flight=in_flight, seconds=time.monotonic() - self._began)

    def _missing(self) -> Iterator[_Work]:
        for trial in range(self._slots.trials):
            for shard in self._suite.shards:
                positions = range(shard.first, shard.first + shard.count)
                if self._slots.has_all(trial, positions):
                    continue
                cases = self._suite.document.read(shard)
                for position, found in zip(positions, cases, strict=True):
                    if not self._slots.has(trial, position):
                        yield _Work(trial, position, found)

    def _one(self, work: _Work) -> None:
        try:
            outcome = run_trial(work.found.raw, self._trial)
        except Interrupted:
            return
        record = _record(work, outcome, self._plan.redactor)
        self._slots.put(work.trial, work.position, self._journal.append(record))
        self._use.add(outcome.use.cost_usd)
        self._counter.add(outcome.result.outcome.value, outcome.use.cost_usd, outcome.retries)

    def result(self) -> Execution:
        """What there is."""
        stopped = self._stopped if self._slots.missing() else ""
        reader = JournalReader(self._journal.path)
        suite = executed(self._suite, self._slots, reader, self._plan.policy)
        if not suite.case_count:
            raise NothingMeasured(
                f"{stopped} before any case was done", remedy="Raise the limit, and resume with --resume."
            )
        return Execution(suite, stopped, self._standing(0))


def _place(record: Any) -> tuple[int, int]:
    """Which trial of which case a record of the journal is; (-1, -1) for none."""
    if not isinstance(record, dict):
        return -1, -1
    trial, position = record.get("trial"), record.get("position")
    return (trial, position) if isinstance(trial, int) and isinstance(position, int) else (-1, -1)


def _record(work: _Work, outcome: TrialOutcome, redactor: Redactor) -> dict[str, Any]:
    """A trial as the journal keeps it, without secrets."""
    result = outcome.result
    line = dumps(result_row(result))
    recorded: dict[str, Any] = {**outcome.recorded}
    if redactor.finds(line) or redactor.finds(canonical_json(recorded)):
        result = written_result(result, line, redactor)
        recorded = redactor.redact_value(recorded)
    return {
        "position": work.position,
        "trial": work.trial,
        "case_id": work.found.raw["case_id"],
        **recorded,
        "result": result_row(result),
        "cost_usd": outcome.use.cost_usd,
        "retries": outcome.retries,
    }

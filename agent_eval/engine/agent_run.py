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

from agent_eval.agents.base import account_of
from agent_eval.agents.tools import check_tools
from agent_eval.contracts.limits import RunLimits
from agent_eval.contracts.trials import ALL, CasePolicy
from agent_eval.engine import scheduler
from agent_eval.engine.journaled_suite import ARTIFACTS, Slots, encoded_artifacts, executed
from agent_eval.engine.progress import Counter, Standing
from agent_eval.engine.scheduler import AdaptiveLimit, Crew, FixedLimit, Retries, limit_of
from agent_eval.engine.shard import id_hash, refuse_unjudgeable, written_result
from agent_eval.engine.trial import Interrupted, RunUse, TrialOutcome, TrialPlan, run_trial
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.evidence.writer import result_row
from agent_eval.storage.background import BackgroundWriter
from agent_eval.storage.journal import Journal, JournalReader, encode
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.document import RawCase
from agent_eval.suites.reader import SuiteSource
from agent_eval.suites.select import refuse_duplicates


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
        keep_calls: Told of the calls that live tools answered in each trial that has finished, those in the
            journal included; from several threads.
    """

    trial: TrialPlan
    trials: int = 1
    policy: CasePolicy = ALL
    parallel: int | None = 1
    limits: RunLimits = field(default_factory=RunLimits)
    retries: Retries = field(default_factory=Retries)
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    keep_calls: Callable[[list[dict[str, Any]]], None] = lambda _: None


@dataclass(frozen=True)
class Execution:
    """What a run of an agent came to.

    Attributes:
        suite: The cases that have been run, as recorded traces.
        stopped: Why it ended before its end, in words; empty when every case has been run.
        standing: Its counts.
        interrupted: Whether it ended because somebody asked it to.
    """

    suite: SuiteSource
    stopped: str
    standing: Standing
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        """Whether every case has been run."""
        return not self.stopped


class _Work(NamedTuple):
    trial: int
    position: int
    found: RawCase


class _Done(NamedTuple):
    """A trial that has finished and is being written."""

    work: _Work
    outcome: TrialOutcome
    calls: list[dict[str, Any]]


def execute(
    suite: SuiteSource,
    plan: ExecutionPlan,
    journal: Journal,
    *,
    on_progress: Callable[[Standing], None] = lambda _: None,
    stop: Callable[[], str] = lambda: "",
) -> Execution:
    """Run what the journal does not have yet.

    Args:
        suite: The suite.
        plan: How.
        journal: Where finished trials are, and go.
        on_progress: Called in this thread several times a second. It may raise, as Ctrl-C does: what was
            begun then gets a moment to finish, and what has finished stays in the journal.
        stop: Asked several times a second why the run shall end, in words; empty while it shall not. What was
            begun then gets a moment to finish.

    Raises:
        InvalidInput: A case cannot be judged or run; nothing has been run then. Or the journal is of
            other cases.
        NothingMeasured: The suite has no cases.
        NotEvaluable: No attempt at any case can succeed, or the disk is full.
    """
    _check(suite, plan)
    run = _Run(suite, plan, journal)
    run.recall()
    run.go(on_progress, stop)
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
        self._interrupted, self._abandoned = Flag(), Flag()
        agent = plan.trial.agent
        self._limit = FixedLimit(plan.parallel) if plan.parallel else limit_of(account_of(agent))
        plan.retries.stopping = self._interrupted
        if isinstance(self._limit, AdaptiveLimit):
            plan.retries.limit = self._limit
        self._trial = replace(
            plan.trial,
            retry=plan.retries,
            interrupted=self._interrupted.is_set,
            abandoned=self._abandoned.is_set,
        )
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
                self._plan.keep_calls(record.get("calls", []))

    def go(self, on_progress: Callable[[Standing], None], stop: Callable[[], str]) -> None:
        """Run what is missing."""
        with BackgroundWriter(self._journal, self._keep) as writer:
            crew = Crew(lambda work: self._one(work, writer), self._missing(), self._limit)

            def tick() -> None:
                writer.check()
                on_progress(self._standing(crew.in_flight))
                self._stop_if_due(crew, stop)

            try:
                crew.run(tick)
            except BaseException:
                if not self._interrupted.is_set():  # else what was begun had its moment
                    self._interrupted.set()
                    crew.settle()
                raise
            finally:
                self._abandoned.set()
        on_progress(self._standing(0))

    def _stop_if_due(self, crew: Crew[_Work], stop: Callable[[], str]) -> None:
        if not self._stopped and (reached := self._use.reached()):
            self._stopped = reached
            crew.stop()
        if self._interrupted.is_set():
            return
        if why := stop():
            self._stopped = why
            self._interrupted.set()
            crew.stop(within=scheduler.GRACE_SECONDS)

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
                    if self._use.is_spent():
                        return
                    if not self._slots.has(trial, position):
                        yield _Work(trial, position, found)

    def _one(self, work: _Work, writer: BackgroundWriter[_Done]) -> None:
        try:
            outcome = run_trial(work.found.raw, self._trial)
        except Interrupted:
            return
        self._use.add(outcome.use.cost_usd)
        line, calls = _line(work, outcome, self._plan.redactor)
        writer.put(_Done(work, outcome, calls), line)

    def _keep(self, done: _Done, offset: int) -> None:
        """A trial is on disk, so it counts."""
        work, outcome = done.work, done.outcome
        self._plan.keep_calls(done.calls)
        self._counter.add(outcome.result.outcome.value, outcome.use.cost_usd, outcome.retries)
        self._slots.put(work.trial, work.position, offset)

    def result(self) -> Execution:
        """What there is."""
        stopped = self._why_stopped() if self._slots.missing() else ""
        reader = JournalReader(self._journal.path)
        suite = executed(self._suite, self._slots, reader, self._plan.policy)
        if not suite.case_count:
            raise NothingMeasured(
                f"{stopped} before any case was done", remedy="Raise the limit, and resume with --resume."
            )
        return Execution(suite, stopped, self._standing(0), bool(stopped) and self._interrupted.is_set())

    def _why_stopped(self) -> str:
        """As it was said then; of a limit with what was spent in the end."""
        return self._stopped if self._interrupted.is_set() else self._use.reached() or self._stopped


def _place(record: Any) -> tuple[int, int]:
    """Which trial of which case a record of the journal is; (-1, -1) for none."""
    if not isinstance(record, dict):
        return -1, -1
    trial, position = record.get("trial"), record.get("position")
    return (trial, position) if isinstance(trial, int) and isinstance(position, int) else (-1, -1)


def _line(work: _Work, outcome: TrialOutcome, redactor: Redactor) -> tuple[bytes, list[dict[str, Any]]]:
    """A trial as the journal keeps it, and the calls of live tools in it; both without secrets."""
    row, calls = result_row(outcome.result), outcome.calls
    record = {
        "position": work.position,
        "trial": work.trial,
        "case_id": work.found.raw["case_id"],
        **outcome.recorded,
        "result": row,
        "cost_usd": outcome.use.cost_usd,
        "retries": outcome.retries,
    }
    if outcome.artifacts:
        record[ARTIFACTS] = encoded_artifacts(outcome.artifacts, redactor)
    if calls:
        record["calls"] = calls
    line = encode(record)
    if redactor.finds(line):
        calls = redactor.redact_value(calls)
        record.update(redactor.redact_value(outcome.recorded))
        record["result"] = result_row(written_result(outcome.result, dumps(row), redactor))
        line = encode({**record, "calls": calls} if calls else record)
    return line, calls

"""Running an agent over a suite, each finished trial on disk before it counts.

The journal has a record a trial, so that whatever ends the run, what was paid for is kept: `execute` runs
what the journal does not have. It records traces and verdicts; `score_suite` then writes the evidence from
`Execution.suite`, as for any suite of recorded traces.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from types import TracebackType
from typing import Any, Protocol

from agent_eval.agents.base import LocalAgent, account_of
from agent_eval.agents.tools import check_tools
from agent_eval.contracts.limits import RunLimits
from agent_eval.contracts.trials import ALL, CasePolicy
from agent_eval.engine import scheduler
from agent_eval.engine.journaled_suite import FinishedTrial, Slots, executed, finished_trial
from agent_eval.engine.progress import Counter, RunUse, Standing
from agent_eval.engine.scheduler import AdaptiveLimit, Crew, FixedLimit, Limit, Retries, limit_of
from agent_eval.engine.shard import id_hash, refuse_unjudgeable
from agent_eval.engine.trial import Interrupted, TrialPlan, run_trial
from agent_eval.engine.workers import can_fork, usable_processors
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.storage.background import BackgroundWriter
from agent_eval.storage.journal import Journal, JournalReader
from agent_eval.storage.redaction import Redactor
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
        workers: Processes for an agent that is Python code: None for as many as help, 1 for threads of this
            one.
        retries: When requests are sent again.
        redactor: Knows the secrets that must not be written.
        keep_calls: Told of the calls that live tools answered in each trial that has finished, those in the
            journal included; from several threads.
    """

    trial: TrialPlan
    trials: int = 1
    policy: CasePolicy = ALL
    parallel: int | None = 1
    workers: int | None = None
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


class TrialThreads:
    """Trials in threads of this process, and one more that writes what has finished. A context manager.

    Args:
        one: Runs a trial; None where the run is being ended.
        numbers: The trials to run.
        limit: How many at once.
        writer: Of the journal.
    """

    def __init__(
        self,
        one: Callable[[int], FinishedTrial | None],
        numbers: Iterator[int],
        limit: Limit,
        writer: BackgroundWriter[FinishedTrial],
    ) -> None:
        self._one, self._writer = one, writer
        self._crew = Crew(self._run, numbers, limit)

    @property
    def in_flight(self) -> int:
        """How many trials are being worked on."""
        return self._crew.in_flight

    def run(self, tick: Callable[[], object]) -> None:
        """See `Crew.run`. Raises what ended the writing, too."""

        def check_and_tick() -> None:
            self._writer.check()
            tick()

        self._crew.run(check_and_tick)

    def _run(self, number: int) -> None:
        done = self._one(number)
        if done is not None:
            self._writer.put(done, done.line)

    def stop(self, within: float | None = None) -> None:
        """See `Crew.stop`."""
        self._crew.stop(within)

    def settle(self) -> None:
        """See `Crew.settle`."""
        self._crew.settle()

    def __enter__(self) -> TrialThreads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)


class _Trials(Protocol):
    """Trials in threads or in workers; see `scheduler.Crew`."""

    @property
    def in_flight(self) -> int:
        """How many trials are being worked on."""

    def run(self, tick: Callable[[], object]) -> None:
        """Run trials until there are none left or `stop` was called."""

    def stop(self, within: float | None = None) -> None:
        """Begin nothing new."""

    def settle(self) -> None:
        """Give what was begun a moment to end."""


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
            number = trial * self._slots.cases + position
            if not self._slots.has(number):
                self._slots.put(number, offset)
                self._use.add(record["cost_usd"])
                outcome = record["result"]["outcome"]
                self._counter.add(outcome, record["cost_usd"], record["retries"], resumed=True)
                self._plan.keep_calls(record.get("calls", []))

    def go(self, on_progress: Callable[[Standing], None], stop: Callable[[], str]) -> None:
        """Run what is missing."""
        with self._workers() or self._threads() as trials:

            def tick() -> None:
                on_progress(self._standing(trials.in_flight))
                self._stop_if_due(trials, stop)

            try:
                trials.run(tick)
            except BaseException:
                if not self._interrupted.is_set():  # else what was begun had its moment
                    self._interrupted.set()
                    trials.settle()
                raise
            finally:
                self._abandoned.set()
        on_progress(self._standing(0))

    def _workers(self) -> AbstractContextManager[_Trials] | None:
        """Forked processes, for an agent that is Python code, where they are wanted and can be had."""
        agent, wanted = self._plan.trial.agent, self._plan.workers
        if not isinstance(agent, LocalAgent) or wanted == 1 or not can_fork():
            return None
        from agent_eval.engine.trial_workers import (  # not for most agents
            MOST_PROCESSES,
            TrialJob,
            TrialWorkers,
        )

        parallel = max(1, min(self._limit.current(), self._slots.missing()))
        processes = min(parallel, wanted or min(usable_processors(), MOST_PROCESSES))
        threads = tuple(len(range(number, parallel, processes)) for number in range(processes))
        return TrialWorkers(
            TrialJob(self._suite, self._trial, self._plan.redactor, self._journal),
            self._missing(),
            threads=threads,
            sequential=self._plan.limits.cost_usd is not None,
            finished=self._count_cost,
            kept=self._keep,
        )

    def _threads(self) -> AbstractContextManager[_Trials]:
        if isinstance(self._trial.agent, LocalAgent):
            self._trial.agent.load()
        return TrialThreads(
            self._one, self._missing(), self._limit, BackgroundWriter(self._journal, self._keep)
        )

    def _stop_if_due(self, trials: _Trials, stop: Callable[[], str]) -> None:
        if not self._stopped and (reached := self._use.reached()):
            self._stopped = reached
            trials.stop()
        if self._interrupted.is_set():
            return
        if why := stop():
            self._stopped = why
            self._interrupted.set()
            trials.stop(within=scheduler.GRACE_SECONDS)

    def _standing(self, in_flight: int) -> Standing:
        return self._counter.standing(in_flight=in_flight, seconds=time.monotonic() - self._began)

    def _missing(self) -> Iterator[int]:
        for number in range(len(self._slots)):
            if self._use.is_spent():
                return
            if not self._slots.has(number):
                yield number

    def _one(self, number: int) -> FinishedTrial | None:
        cases = self._slots.cases
        raw = self._suite.document.case_at(number % cases).raw
        try:
            outcome = run_trial(raw, self._trial)
        except Interrupted:
            return None
        done = finished_trial(number, cases, raw["case_id"], outcome, self._plan.redactor)
        self._count_cost(done)
        return done

    def _count_cost(self, done: FinishedTrial) -> None:
        self._use.add(done.cost_usd)

    def _keep(self, done: FinishedTrial, offset: int) -> None:
        """A trial is on disk, so it counts."""
        self._plan.keep_calls(done.calls)
        self._counter.add(done.outcome, done.cost_usd, done.retries)
        self._slots.put(done.number, offset)

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

"""Run an agent over a suite. A trial counts once its record is on disk.

The journal has one record for each trial, so that no finished trial is lost when a run ends early: `execute`
runs only the trials that the journal does not have. It records traces and verdicts; `score_suite` then writes
the evidence from `Execution.suite`, as for any suite of recorded traces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from types import TracebackType
from typing import Any

from typing_extensions import override

from agent_eval.agents.base import LocalAgent, account_of
from agent_eval.contracts.limits import RunLimits
from agent_eval.contracts.trials import ALL, CasePolicy
from agent_eval.engine import scheduler
from agent_eval.engine.journaled_suite import UNANSWERED, FinishedTrial, Slots, check_record, executed
from agent_eval.engine.progress import Counter, RunProgress, RunUse
from agent_eval.engine.runnable import refuse_unrunnable
from agent_eval.engine.scheduler import CostPace, Crew, FixedLimit, TrialRunner
from agent_eval.engine.trial import TrialPlan
from agent_eval.engine.trial_record import TrialNumber, record_trial
from agent_eval.engine.workers import can_fork, usable_processors
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.models.limits import AdaptiveLimit, Limit, limit_of
from agent_eval.models.retries import Retries
from agent_eval.storage.background import BackgroundWriter
from agent_eval.storage.journal import Journal, JournalReader, RecordsChanged
from agent_eval.storage.records import record_digest
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource


@dataclass(frozen=True, kw_only=True)
class ExecutionPlan:
    """Settings of a run of an agent. Pass it to `execute`.

    Attributes:
        trial: Settings of every trial; `execute` sets its `retry`, `interrupted` and `abandoned`.
        trials: Number of trials of each case. Every case has its first trial before any has its second,
            unless the run has a limit.
        policy: Decides when a case with several trials passes.
        parallel: Number of trials at once; None for as many as the provider accepts.
        limits: Limits of the whole run.
        workers: Processes for an agent that is Python code: None for as many as help, 1 for threads in this
            process.
        retries: Decides when requests are sent again.
        redactor: Replaces secrets before anything is written.
        keep_calls: Receives the calls that live tools answered in each finished trial, those in the journal
            included. Called from several threads.

    Example:
        >>> from agent_eval.agents.recorded import RecordedAgent
        >>> from agent_eval.agents.tools import CaseTools
        >>> from agent_eval.engine import JudgePlan
        >>> judges = JudgePlan(("policy",)).load()
        >>> trial = TrialPlan(agent=RecordedAgent(), judges=judges, tools=CaseTools)
        >>> ExecutionPlan(trial=trial, trials=3, parallel=8).limits.cost_usd is None
        True
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
    """Result of `execute`.

    Attributes:
        suite: The cases that have been run, as recorded traces.
        stopped: Reason why the run ended early, as a clause; empty when every case has been run.
        progress: Counts of trials, and what they cost.
        interrupted: Whether the run ended early because `stop` gave a reason.
        slots: Where in the journal its trials are, and their digests; for a run with more trials of them.

    Example:
        >>> from agent_eval.agents.recorded import RecordedAgent
        >>> from agent_eval.agents.tools import CaseTools
        >>> from agent_eval.engine import JudgePlan
        >>> from agent_eval.suites import open_suite
        >>> from pathlib import Path
        >>> _ = Path("suite.json").write_text('{"dataset_id": "orders", "cases": [{"case_id": "refund"}]}')
        >>> judges = JudgePlan(("policy",)).load()
        >>> plan = ExecutionPlan(trial=TrialPlan(agent=RecordedAgent(), judges=judges, tools=CaseTools))
        >>> with Journal.create(Path("run.journal"), {}) as journal:
        ...     execution = execute(open_suite(Path("suite.json")), plan, journal)
        >>> execution.complete, execution.suite.case_count, execution.progress.done
        (True, 1, 1)
    """

    suite: SuiteSource
    stopped: str
    progress: RunProgress
    interrupted: bool = False
    slots: Slots | None = None

    @property
    def complete(self) -> bool:
        """Whether every case has been run."""
        return not self.stopped


def execute(
    suite: SuiteSource,
    plan: ExecutionPlan,
    journal: Journal,
    *,
    on_progress: Callable[[RunProgress], None] = lambda _: None,
    stop: Callable[[], str] = lambda: "",
    earlier: Slots | None = None,
) -> Execution:
    """Run the trials that the journal does not have yet.

    Use `operations.run_agent` for a whole run with its evidence pack.

    Args:
        suite: The suite to run.
        plan: Settings of the run.
        journal: Has the finished trials of an earlier start, and receives those of this one.
        on_progress: Called in this thread several times a second. It may raise, as Ctrl-C does: trials in
            progress then get a moment to finish, and finished ones stay in the journal.
        stop: Called several times a second. Returns why the run must end, as a clause, or an empty text to
            go on. Trials in progress then get a moment to finish.
        earlier: Trials that this process has run with the same journal, which are kept and not run again;
            None to take those that the journal has. Only the records that they name count.

    Raises:
        InvalidInput: A case cannot be judged or run, and no trial has been run; or the journal has trials
            of other cases.
        RecordsChanged: Another program rewrote finished records of the journal; the others are kept.
        NothingMeasured: The suite has no cases.
        NotEvaluable: No attempt at any case can succeed, or the disk is full.
    """
    refuse_unrunnable(suite, plan.trial, plan.redactor)
    run = _AgentRun(suite, plan, journal)
    if earlier is None:
        run.load_journal()
    else:
        run.keep(earlier)
    run.run_missing(on_progress, stop)
    return run.result()


class TrialThreads(TrialRunner):
    """Runs trials in threads of this process; one more thread writes finished trials. A context manager.

    Used for agents that wait for a program or a server; `trial_workers.TrialWorkers` runs Python code.

    Args:
        run_one: Runs a trial; returns None if the run is being ended.
        numbers: The trials to run.
        limit: Decides how many run at once.
        writer: Writes the journal.

    Example:
        >>> from pathlib import Path
        >>> from agent_eval.storage.records import encode
        >>> def run_one(number):
        ...     return FinishedTrial(number, "passed", None, 0, [], encode({"trial": number}))
        >>> recorded = []
        >>> with Journal.create(Path("run.journal"), {}) as journal:
        ...     writer = BackgroundWriter(journal, lambda trial, offset: recorded.append(trial.number))
        ...     with TrialThreads(run_one, iter(range(3)), FixedLimit(1), writer) as trials:
        ...         trials.run(lambda: None)
        >>> recorded
        [0, 1, 2]
    """

    def __init__(
        self,
        run_one: Callable[[int], FinishedTrial | None],
        numbers: Iterator[int],
        limit: Limit,
        writer: BackgroundWriter[FinishedTrial],
    ) -> None:
        self._run_one, self._writer = run_one, writer
        self._crew = Crew(self._run, numbers, limit)

    @property
    @override
    def in_flight(self) -> int:
        return self._crew.in_flight

    @override
    def run(self, tick: Callable[[], object]) -> None:

        def check_and_tick() -> None:
            self._writer.check()
            tick()

        self._crew.run(check_and_tick)

    def _run(self, number: int) -> None:
        done = self._run_one(number)
        if done is not None:
            self._writer.put(done, done.line)

    @override
    def stop(self, within: float | None = None) -> None:
        self._crew.stop(within)

    @override
    def settle(self) -> None:
        self._crew.settle()

    def __enter__(self) -> TrialThreads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)


class _AgentRun:
    """The state of one call of `execute`."""

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

    def load_journal(self) -> None:
        """Count the trials that the journal has."""
        for offset, record, digest in self._journal.entries():
            trial, position = _place(record)
            if not (0 <= position < self._slots.cases and 0 <= trial < self._slots.trials):
                raise InvalidInput(
                    f"{self._journal.path}: has a trial that the suite does not have",
                    remedy="Run again from the start.",
                    file=str(self._journal.path),
                )
            check_record(record, str(self._journal.path))
            number = trial * self._slots.cases + position
            if not self._slots.has(number):
                self._slots.put(number, offset, digest)
                self._count_earlier(record)
                self._plan.keep_calls(record.get("calls", []))

    def keep(self, earlier: Slots) -> None:
        """Keep the trials that this process has run before, and no other record of the journal.

        Raises:
            RecordsChanged: Another program has rewritten one since.
        """
        self._slots = earlier.extended(self._plan.trials)
        with JournalReader(self._journal.path) as reader:
            for place in earlier.finished():
                self._count_earlier(reader.read(*place))

    def _count_earlier(self, record: dict[str, Any]) -> None:
        self._use.add(record["cost_usd"])
        outcome = record["result"]["outcome"]
        self._counter.add(outcome, record["cost_usd"], record["retries"], resumed=True)
        self._counter.add_unanswered(record.get(UNANSWERED, 0))

    def run_missing(self, on_progress: Callable[[RunProgress], None], stop: Callable[[], str]) -> None:
        """Run the trials that the journal does not have."""
        with self._workers() or self._threads() as trials:

            def tick() -> None:
                on_progress(self._progress(trials.in_flight))
                self._stop_if_due(trials, stop)

            try:
                trials.run(tick)
            except BaseException:
                if not self._interrupted.is_set():  # otherwise trials in progress had their moment
                    self._interrupted.set()
                    trials.settle()
                raise
            finally:
                self._abandoned.set()
        on_progress(self._progress(0))

    def _workers(self) -> AbstractContextManager[TrialRunner] | None:
        """Make forked workers for an agent that is Python code; None if they are not wanted or impossible."""
        agent, wanted = self._plan.trial.agent, self._plan.workers
        if not isinstance(agent, LocalAgent) or wanted == 1 or not can_fork():
            return None
        if self._plan.trial.simulation is not None:
            return None  # a model's client does not survive a fork
        from agent_eval.engine.trial_workers import (  # most agents need no workers
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
            allowed=self._use.most_at_once if self._plan.limits.cost_usd is not None else None,
            on_finished=self._count_cost,
            on_recorded=self._count_recorded,
        )

    def _threads(self) -> AbstractContextManager[TrialRunner]:
        if isinstance(self._trial.agent, LocalAgent):
            self._trial.agent.load()
        return TrialThreads(
            self._run_trial,
            self._missing(),
            CostPace(self._limit, self._use.most_at_once),
            BackgroundWriter(self._journal, self._count_recorded),
        )

    def _stop_if_due(self, trials: TrialRunner, stop: Callable[[], str]) -> None:
        if not self._stopped and (reached := self._use.reached()):
            self._stopped = reached
            trials.stop()
        if self._interrupted.is_set():
            return
        if reason := stop():
            self._stopped = reason
            self._interrupted.set()
            trials.stop(within=scheduler.GRACE_SECONDS)

    def _progress(self, in_flight: int) -> RunProgress:
        seconds = time.monotonic() - self._began
        progress = self._counter.progress(in_flight=in_flight, seconds=seconds)
        return replace(progress, damaged=self._journal.damaged)

    def _missing(self) -> Iterator[int]:
        for number in self._order():
            if self._use.is_spent():
                return
            if not self._slots.has(number):
                yield number

    def _order(self) -> Iterable[int]:
        """Return all trials in the order in which they are started.

        Every case has its first trial before any has its second; but a run that may end at its limit
        finishes one case after the other, so that there are whole ones.
        """
        cases, every = self._slots.cases, range(len(self._slots))
        if self._plan.limits == RunLimits():
            return every
        return (number for position in range(cases) for number in every[position::cases])

    def _run_trial(self, number: int) -> FinishedTrial | None:
        cases = self._slots.cases
        raw = self._suite.document.case_at(number % cases).raw
        done = record_trial(raw, TrialNumber(number, cases), self._trial, self._plan.redactor)
        if done is not None:
            self._count_cost(done)
        return done

    def _count_cost(self, done: FinishedTrial) -> None:
        self._use.add(done.cost_usd)

    def _count_recorded(self, done: FinishedTrial, offset: int) -> None:
        """Count a trial whose record is on disk."""
        self._plan.keep_calls(done.calls)
        self._counter.add(done.outcome, done.cost_usd, done.retries)
        self._counter.add_unanswered(done.unanswered)
        self._slots.put(done.number, offset, record_digest(done.line))

    def result(self) -> Execution:
        """Return the cases with their finished trials."""
        stopped = self._stop_reason() if self._slots.missing() else ""
        if changed := self._journal.restore(self._slots.finished()):
            raise RecordsChanged(self._journal.path, changed)
        reader = JournalReader(self._journal.path)
        suite = executed(self._suite, self._slots, reader, self._plan.policy)
        if not suite.case_count:
            raise NothingMeasured(
                f"{stopped} before any case was done", remedy="Raise the limit, and resume with --resume."
            )
        interrupted = bool(stopped) and self._interrupted.is_set()
        return Execution(suite, stopped, self._progress(0), interrupted, self._slots)

    def _stop_reason(self) -> str:
        """Return why the run ended; for a limit, with the cost of trials that finished since."""
        return self._stopped if self._interrupted.is_set() else self._use.reached() or self._stopped


def _place(record: Any) -> tuple[int, int]:
    """Read the trial's number and the case's position from a journal record; (-1, -1) if it has none."""
    if not isinstance(record, dict):
        return -1, -1
    trial, position = record.get("trial"), record.get("position")
    return (trial, position) if isinstance(trial, int) and isinstance(position, int) else (-1, -1)

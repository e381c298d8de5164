"""Run an agent over a suite. A trial counts once its record is on disk.

The journal has one record for each trial, so that no finished trial is lost when a run ends early: `execute`
runs only the trials that the journal does not have. It records traces and verdicts; `score_suite` then writes
the evidence from `Execution.suite`, as for any suite of recorded traces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event as Flag
from typing import Any

from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import Case
from agent_eval.contracts.execution import RunLimits
from agent_eval.contracts.trials import ALL, CasePolicy
from agent_eval.conversation.loop import planned_turns
from agent_eval.engine import scheduler
from agent_eval.engine.cluster import Cluster
from agent_eval.engine.journaled_suite import (
    ExecutedDocument,
    FinishedTrial,
    Slots,
    TrialNumber,
    check_record,
    loaded_trial,
    place_of,
    record_trial,
)
from agent_eval.engine.progress import Counter, RunProgress, RunUse
from agent_eval.engine.scheduler import Scheduler
from agent_eval.engine.shard import refuse_unjudgeable
from agent_eval.engine.trial import TrialPlan
from agent_eval.engine.usage import OUTAGE, Costs, Outage, is_repeated
from agent_eval.errors import (
    AgentEvalError,
    InvalidInput,
    NotEvaluable,
    NothingMeasured,
    UsageError,
    words_of,
)
from agent_eval.models.retries import Retries, limit_of, within
from agent_eval.processes.thread_pool import ThreadPool
from agent_eval.storage.journal import Journal, RecordsChanged, record_digest
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource
from agent_eval.suites.select import refuse_duplicates

_MOST_THREADS = 256
STATE_A_PRICE = (
    "State its price for a million tokens: `prices: MODEL=INPUT/OUTPUT` in agent-eval.yml, or with --set"
)


@dataclass(frozen=True)
class Elsewhere:
    """Where trials are run in place of this process.

    `run`, which is pickled, runs one: given the case, its number, and the versions that must be there.
    """

    cluster: Cluster
    run: Callable[[Mapping[str, Any], TrialNumber, Mapping[str, str | None]], FinishedTrial | None]

    def places(self, parallel: int | None) -> int:
        """Return how many trials run at once: one a thread of the cluster, or fewer where asked for."""
        at_once = self.cluster.at_once
        return at_once if parallel is None or parallel == 1 else min(parallel, at_once)


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
        redactor: Replaces secrets before anything is written.
        elsewhere: Where the trials are run; None for threads of this process.
        keep_calls: Receives the calls that live tools answered in each finished trial, those in the journal
            included. Called from several threads.
    """

    trial: TrialPlan
    trials: int = 1
    policy: CasePolicy = ALL
    parallel: int | None = 1
    limits: RunLimits = field(default_factory=RunLimits)
    retries: Retries = field(default_factory=Retries)
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
    elsewhere: Elsewhere | None = None
    keep_calls: Callable[[list[dict[str, Any]]], None] = lambda _: None


@dataclass(frozen=True)
class Execution:
    """Result of `execute`.

    Attributes:
        suite: The cases that have been run, as recorded traces.
        stopped: Reason why the run ended early, as a clause; empty when every case has been run.
        interrupted: Whether the run ended early because `stop` gave a reason.
        outage: Reason why the run ended early, if that is an outage; else empty.
    """

    suite: SuiteSource
    stopped: str
    progress: RunProgress
    interrupted: bool = False
    outage: str = ""

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
) -> Execution:
    """Run the trials that the journal does not have yet.

    Use `operations.run_agent` for a whole run with its evidence pack.

    Args:
        journal: Has the finished trials of an earlier start, and receives those of this one.
        on_progress: Called in this thread several times a second. It may raise, as Ctrl-C does: trials in
            progress then get a moment to finish, and finished ones stay in the journal.
        stop: Called several times a second. Returns why the run must end, as a clause, or an empty text to
            go on. Trials in progress then get a moment to finish.

    Raises:
        InvalidInput: A case cannot be judged or run, and none was; or the journal has trials of other cases.
        RecordsChanged: Another program rewrote finished records of the journal; the others are kept.
        NothingMeasured: The suite has no cases.
        NotEvaluable: No attempt at any case can succeed, or the disk is full.
    """
    refuse_unrunnable(suite, plan.trial, plan.redactor)
    run = _AgentRun(suite, plan, journal)
    run.load_journal()
    run.run_missing(on_progress, stop)
    return run.result()


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
        plan.retries.stopping = self._interrupted
        plan.retries.limit = limit_of(agent.account) if agent.account is not None else None
        self._adaptive = None
        if plan.elsewhere is not None:
            self._places = plan.elsewhere.places(plan.parallel)
        elif plan.parallel is not None:
            self._places = plan.parallel
        else:
            self._adaptive = plan.retries.limit = limit_of(agent.account)
            self._places = self._adaptive.current()
        self._outage = Outage(max(OUTAGE, self._places))
        self._trial = replace(
            plan.trial,
            retry=plan.retries,
            interrupted=self._interrupted.is_set,
            out_of_time=lambda: self._use.seconds_left == 0,
            abandoned=self._abandoned.is_set,
        )
        self._stopped = ""
        self._is_ended_by_caller = False
        self._notes: tuple[str, ...] = (_unseen_note(agent.unseen),) if agent.unseen else ()
        self._is_ceiling_checked = False

    def load_journal(self) -> None:
        """Count the trials that the journal has; those that were lost are run again."""
        for line in self._journal.entries():
            record = line.record
            trial, position = place_of(record)
            if not (0 <= position < self._slots.cases and 0 <= trial < self._slots.trials):
                raise InvalidInput(
                    f"{self._journal.path}: has a trial that the suite does not have",
                    remedy="Run again from the start.",
                    file=str(self._journal.path),
                )
            result = check_record(record, str(self._journal.path))
            number = trial * self._slots.cases + position
            if number in self._slots.places:
                continue
            self._use.add(Costs.of_record(record).total)
            if not is_repeated(result, record["trace"]):
                self._slots.places[number] = line.offset, line.digest
                self._count(loaded_trial(number, record, result), resumed=True)

    def run_missing(self, on_progress: Callable[[RunProgress], None], stop: Callable[[], str]) -> None:
        """Run the trials that the journal does not have, until a limit, an outage or the caller ends it."""
        elsewhere = self._plan.elsewhere
        with ThreadPool(_MOST_THREADS if self._adaptive is not None else self._places) as threads:
            trials = Scheduler(
                journal=self._journal,
                start=partial(self._start, threads if elsewhere is None else elsewhere),
                numbers=self._missing(),
                places=self._places,
                may_start=self._use.may_start if self._plan.limits.cost_usd is not None else None,
                adaptive=self._adaptive,
                on_recorded=self._count_recorded,
            )

            def tick() -> None:
                on_progress(self._progress(trials.in_flight))
                self._stop_if_due(trials, stop)
                if elsewhere is not None:
                    elsewhere.cluster.check_alive()

            ended = False
            try:
                trials.run(tick)
                ended = not self._stopped
            except BaseException as error:
                if not self._interrupted.is_set():  # otherwise trials in progress had their moment
                    self._interrupted.set()
                    with suppress(Exception):  # the first error counts
                        trials.settle()
                # The executor of a cluster may raise anything for a trial that it did not run.
                if elsewhere is None or isinstance(error, AgentEvalError) or not isinstance(error, Exception):
                    raise
                raise NotEvaluable(
                    f"trials were not run by the cluster: {words_of(error, 1000)}",
                    remedy="Look at the workers' logs; then run the rest with --resume.",
                ) from error
            finally:
                if not ended:
                    self._abandoned.set()
        if self._slots.missing:
            self._stopped = self._stopped or self._outage.in_words
        on_progress(self._progress(0))

    def _stop_if_due(self, trials: Scheduler, stop: Callable[[], str]) -> None:
        if not self._stopped and (reached := self._use.reached() or self._outage.in_words):
            self._stopped = reached
            trials.stop()
        if self._interrupted.is_set():
            return
        reason = stop()
        self._is_ended_by_caller = bool(reason)
        if reason or self._use.seconds_left == 0:
            self._stopped = reason or self._use.reached()
            self._interrupted.set()
            trials.stop(within=scheduler.GRACE_SECONDS)

    def _progress(self, in_flight: int) -> RunProgress:
        seconds = time.monotonic() - self._began
        progress = self._counter.progress(in_flight=in_flight, seconds=seconds)
        return replace(progress, damaged=self._journal.damaged, notes=self._notes)

    def _missing(self) -> Iterator[int]:
        """Yield the trials in the order in which they are started.

        Every case has its first trial before any has its second; but a run that may end at its limit
        finishes one case after the other, so that there are whole ones.
        """
        cases, every = self._slots.cases, range(len(self._slots))
        in_order: Iterable[int] = every
        if self._plan.limits != RunLimits():
            in_order = (number for position in range(cases) for number in every[position::cases])
        for number in in_order:
            if self._use.is_spent() or self._outage.in_words:
                return
            if number not in self._slots.places:
                yield number

    def _start(self, place: ThreadPool | Elsewhere, number: int) -> Future[FinishedTrial | None]:
        if isinstance(place, ThreadPool):
            return place.submit(self._run_trial, number)
        raw = self._suite.document.case_at(number % self._slots.cases).raw
        task = raw, TrialNumber(number, self._slots.cases), place.cluster.versions
        return place.cluster.executor.submit(place.run, *task)

    def _run_trial(self, number: int) -> FinishedTrial | None:
        if self._use.is_spent() or self._outage.in_words:
            return None  # since the trial was scheduled
        cases = self._slots.cases
        raw = self._suite.document.case_at(number % cases).raw
        with within(self._use.seconds_left):
            done = record_trial(raw, TrialNumber(number, cases), self._trial, self._plan.redactor)
        if done is not None:
            self._count_ended(done)
        return done

    def _count_ended(self, done: FinishedTrial) -> None:
        """Count what is known as soon as a trial ends: what it cost, and whether it is lost."""
        self._use.add(done.costs.total)
        self._outage.see(done.loss)

    def _count_recorded(self, done: FinishedTrial, offset: int) -> None:
        """Count a trial whose record is on disk."""
        if self._plan.elsewhere is not None:
            self._count_ended(done)
        self._count(done)
        self._slots.places[done.number] = offset, record_digest(done.line)
        if done.loss is None:
            self._check_ceiling(done.costs)

    def _check_ceiling(self, costs: Costs) -> None:
        """Say at once where a limit of cost does not count all that is spent; refuse one that counts nothing.

        Raises:
            UsageError: Only models are paid for, and none has a price.
        """
        limits = (self._plan.limits.cost_usd, self._plan.trial.limits.cost_usd)
        if limits == (None, None) or self._is_ceiling_checked or not costs.unpriced:
            return
        self._is_ceiling_checked = True
        named = dict.fromkeys(repr(model) for model in costs.unpriced.values() if model)
        models = " and ".join(named)
        if costs.total is None and named:
            raise UsageError(
                f"the limit of cost cannot be held: there is no published price for {models}, and no cost is "
                "reported",
                remedy=f"{STATE_A_PRICE}, or leave out the limit.",
                field="price",
            )
        spenders = " and ".join(f"the {who.replace('_', ' ')}" for who in costs.unpriced)
        without = f" ({models}: no published price, and no reported cost)" if models else ""
        self._notes += (f"The limit of cost leaves out what {spenders} cost{without}. {STATE_A_PRICE}.",)

    def _count(self, done: FinishedTrial, *, resumed: bool = False) -> None:
        self._plan.keep_calls(done.calls)
        self._counter.add(
            done.outcome, done.costs, retries=done.retries, unanswered=done.unanswered, resumed=resumed
        )

    def result(self) -> Execution:
        """Return the cases with their finished trials."""
        stopped = ""
        if self._slots.missing:  # for a limit, with the cost of trials that finished since
            stopped = self._stopped if self._is_ended_by_caller else self._use.reached() or self._stopped
        if changed := self._journal.restore(self._slots.finished()):
            raise RecordsChanged(self._journal.path, changed)
        document = ExecutedDocument(self._suite.document, self._slots, self._journal.path, self._plan.policy)
        suite = SuiteSource(document, self._suite.header)
        if not suite.case_count:
            raise NothingMeasured(
                f"{stopped} before any case was done", remedy="Raise the limit, and resume with --resume."
            )
        is_interrupted = bool(stopped) and self._is_ended_by_caller
        outage = stopped if self._outage.in_words else ""
        return Execution(suite, stopped, self._progress(0), is_interrupted, outage)


_MOST_NAMED = 8


def _unseen_note(names: Sequence[str]) -> str:
    """Say which variables the agent does not get that may be its own, and how it gets them."""
    first, more = names[:_MOST_NAMED], len(names) - _MOST_NAMED
    and_more = f" and {more} more" if more > 0 else ""
    verb = "is" if len(names) == 1 else "are"
    return (
        f"The agent's program does not see {', '.join(first)}{and_more}, which {verb} set here. If it needs "
        f"them: --agent-env {','.join(first)}"
    )


def refuse_unrunnable(suite: SuiteSource, plan: TrialPlan, redactor: Redactor) -> None:
    """Refuse cases that could never be evaluated, before any trial costs money.

    `redactor` finds secrets, which no case's id may have.

    Raises:
        NothingMeasured: The suite has no cases.
        InvalidInput: A case cannot be judged or run.
    """
    suite.refuse_empty()
    ids: list[str] = []
    for shard in suite.shards:
        for raw_case, case in suite.read(shard):
            ids.append(case.case_id)
            refuse_unjudgeable(plan.judges, raw_case, case, suite.path)
            CaseTools(case)  # refuses malformed answers
            if (reason := _why_unrunnable(case, plan)) is not None:
                problem, remedy, place = reason
                raise InvalidInput(
                    f"{suite.path}: case {case.case_id!r} has {problem}",
                    remedy=remedy,
                    file=str(suite.path),
                    case_id=case.case_id,
                    **place,
                )
            if redactor.finds(case.case_id.encode()):
                raise InvalidInput(
                    f"{suite.path}: a case_id contains the value of a secret variable",
                    remedy="Take it out of the case_id.",
                    file=str(suite.path),
                    position=raw_case.place.position,
                )
    refuse_duplicates(suite, ids)


def _why_unrunnable(case: Case, plan: TrialPlan) -> tuple[str, str, Mapping[str, str]] | None:
    """Say what a case has that this run cannot do, the remedy, and the field of the case; None for nothing.

    Recorded traces need neither commands nor a user.
    """
    if (case.setup or case.teardown) and plan.commands is None and not plan.agent.replays:
        return (
            "a setup or teardown command, which is not allowed to run",
            "Read the suite's commands, and allow them with --case-commands; those of a pack never run.",
            {"field": "setup" if case.setup else "teardown"},
        )
    if refused := plan.agent.refuse(case):
        return refused, "Remove it from the suite, or run another kind of agent.", {}
    is_played = case.conversation is not None and any(turn.auto for turn in planned_turns(case))
    if is_played and plan.simulation is None and not plan.agent.replays:
        return (
            "turns of a simulated user, and no model plays it",
            "Name one with --llm-key or --provider, or give every turn an input and set max_turns to "
            "their number.",
            {"field": "conversation"},
        )
    return None

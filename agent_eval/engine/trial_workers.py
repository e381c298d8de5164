"""Run trials in forked processes. Their parent alone writes the journal.

An agent that is Python code gets only one processor in threads, and a thread that hangs cannot be ended. If
this process can be forked (see `workers.can_fork`), its trials therefore run in workers:

* Each worker imports the agent itself. Workers share nothing that the agent's module opens or starts at
  import, and this process can be forked again.
* There are few processes, with several threads each if many trials run at once: most functions wait for a
  model, and each process has all of the agent's modules in memory.
* Workers send finished trials to this process, which appends many records with one sync.
* A function that exceeds its time, or ends its process (a crash, `os._exit`, out of memory), fails its
  attempt, and the run goes on. The parent kills the process with all that it started, and starts another. If
  several trials ran in a process that crashed, they run again one at a time, to find the one that crashed it.

On other systems, and if this process has more than one thread, trials run in threads: a lock that another
thread holds during a fork would stay locked in the worker for ever.
"""

from __future__ import annotations

import os
import pickle
import selectors
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from typing_extensions import override

from agent_eval.agents.base import LocalAgent
from agent_eval.contracts import AttemptLimits
from agent_eval.engine.board import AtWork, Board
from agent_eval.engine.journaled_suite import FinishedTrial
from agent_eval.engine.lost_attempt import LostAttempt
from agent_eval.engine.scheduler import GRACE_SECONDS, TICK_SECONDS, Crew, FixedLimit, TrialRunner
from agent_eval.engine.trial import Attempts, TrialPlan, TrialWatch
from agent_eval.engine.trial_record import TrialNumber, record_trial
from agent_eval.engine.workers import Claims, ForkedWorker, Outbox, WorkerDied, claim
from agent_eval.errors import FailureKind, NotEvaluable
from agent_eval.storage.journal import Journal
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource

MOST_PROCESSES = 4
"""Maximum number of processes unless the caller sets one: each has all of the agent's modules in memory."""

AHEAD = 1024
"""Number of trials that workers can claim ahead, so that none waits for this process."""

GATHER_SECONDS = 0.002
"""How long results are collected while workers have enough to do, so that many share one sync."""

LATE_SECONDS = 3.0
"""Time beyond an attempt's limit after which its process is killed. Before that, the worker tries to end the
attempt itself, which keeps the events so far."""

MOST_IDLE_DEATHS = 3
"""Number of workers that may die in a row without running a trial, before the run ends with an error."""


@dataclass(frozen=True, slots=True)
class _AgentLoaded:
    """Message of a worker: it has imported the agent."""


@dataclass(frozen=True, slots=True)
class _RepairBegins:
    """Message of a worker: it begins another attempt at a trial. `attempts` are pickled."""

    number: int
    attempts: bytes


@dataclass(frozen=True, slots=True)
class _AssignedTrial:
    """A trial for a worker, with the attempts that an earlier process made at it."""

    number: int
    attempts: bytes | None = None
    lost: LostAttempt | None = None


@dataclass(frozen=True)
class TrialJob:
    """Everything that workers need to run any trial of a run.

    The agent of `trial` is a `LocalAgent`. `journal` receives finished trials from the parent;
    workers only close it.
    """

    suite: SuiteSource
    trial: TrialPlan
    redactor: Redactor
    journal: Journal


class TrialWorkers(TrialRunner):
    """Runs trials in forked workers. A context manager; leaving it ends every worker.

    Args:
        numbers: The trials to run, as `trial * cases + position`.
        threads: For each worker, the number of trials that it runs at once.
        allowed: Returns how many trials a cost limit allows at once; None where workers may claim ahead.
        on_finished: Called with each finished trial as soon as this process receives it.
        on_recorded: Called with a finished trial and its record's offset, once the record is on disk.
    """

    def __init__(
        self,
        job: TrialJob,
        numbers: Iterator[int],
        *,
        threads: Sequence[int],
        allowed: Callable[[], int] | None,
        on_finished: Callable[[FinishedTrial], None],
        on_recorded: Callable[[FinishedTrial, int], None],
    ) -> None:
        self._job, self._allowed = job, allowed
        self._on_finished, self._on_recorded = on_finished, on_recorded
        self._vacancies, self._places = list(threads), sum(threads)
        self._claims, self._board = Claims(numbers), Board(self._places)
        self._workers: list[_TrialWorker] = []
        self._selector = selectors.DefaultSelector()
        self._unfinished: set[int] = set()
        """Trials that workers can claim or have claimed, and that have not finished."""
        self._attempts: dict[int, bytes] = {}
        """Pickled attempts of trials that are being repaired."""
        self._reruns: list[_AssignedTrial] = []
        self._unwritten: list[FinishedTrial] = []
        self._stopping = False
        self._deadline: float | None = None
        self._idle_deaths = 0

    @property
    @override
    def in_flight(self) -> int:
        return max(0, len(self._unfinished) - self._claims.waiting())

    @override
    def run(self, tick: Callable[[], object]) -> None:
        try:
            self._work(tick)
        except BaseException:
            self.stop()
            raise

    @override
    def stop(self, within: float | None = None) -> None:
        if within is not None:
            self._board.interrupt()
            self._stopping = True
            self._deadline = self._deadline or time.monotonic() + within
        self._unfinished.difference_update(self._claims.withdraw())

    @override
    def settle(self) -> None:
        self.stop(within=GRACE_SECONDS)
        with suppress(Exception):  # the caller handles the exception of `run`
            self._work(lambda: None)

    def _work(self, tick: Callable[[], object]) -> None:
        next_tick = time.monotonic() + TICK_SECONDS
        while True:
            self._refill_claims()
            if not self._keep_staffed() or self._is_late():
                break
            self._receive(max(0.0, next_tick - time.monotonic()))
            self._write()
            if time.monotonic() >= next_tick:
                self._check_workers()
                tick()
                next_tick = time.monotonic() + TICK_SECONDS
        self._write()

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _refill_claims(self) -> None:
        most = AHEAD if self._allowed is None else min(self._places, self._allowed())
        free = most - (self._claims.waiting() if self._allowed is None else len(self._unfinished))
        if free > 0:
            self._unfinished.update(self._claims.refill(free))

    def _keep_staffed(self) -> bool:
        """Start workers for the trials that are left. Returns whether there are any workers."""
        if not self._stopping:
            if not self._workers and not self._reruns and not self._claims.waiting():
                # A worker claimed these, and died before it noted so on the board.
                self._reruns = [
                    _AssignedTrial(number, self._attempts.get(number)) for number in sorted(self._unfinished)
                ]
            while self._vacancies and (self._reruns or self._claims.waiting()):
                self._hire(self._vacancies.pop())
        return bool(self._workers)

    def _hire(self, threads: int) -> None:
        reruns, self._reruns = self._reruns, []
        places = self._board.take(threads)
        worker = _TrialWorker(self._job, self._board, self._claims, places, reruns, self._workers)
        self._workers.append(worker)
        self._selector.register(worker.results.fileno(), selectors.EVENT_READ, worker)

    def _dismiss(self, worker: _TrialWorker) -> None:
        self._workers.remove(worker)
        self._selector.unregister(worker.results.fileno())
        worker.stop()
        self._board.give_back(worker.places)
        self._vacancies.append(len(worker.places))

    def _receive(self, seconds: float) -> None:
        ready = self._selector.select(seconds)
        if ready and self._allowed is None and self._claims.waiting():
            time.sleep(GATHER_SECONDS)
            ready = self._selector.select(0)
        for key, _ in ready:
            worker: _TrialWorker = key.data
            try:
                self._handle(worker, worker.receive())
            except WorkerDied as death:
                self._replace_dead(worker, death)
                continue
            if worker.finished:
                self._dismiss(worker)

    def _handle(self, worker: _TrialWorker, messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, FinishedTrial):
                self._unfinished.discard(message.number)
                self._attempts.pop(message.number, None)
                self._on_finished(message)
                self._unwritten.append(message)
                self._idle_deaths = 0
            elif isinstance(message, _RepairBegins):
                self._attempts[message.number] = message.attempts
            else:
                worker.is_ready = True

    def _write(self) -> None:
        """Append finished trials to the journal, and report them as recorded."""
        if not self._unwritten:
            return
        batch, self._unwritten = self._unwritten, []
        offset = self._job.journal.append_lines([done.line for done in batch])
        for done in batch:
            self._on_recorded(done, offset)
            offset += len(done.line)

    def _check_workers(self) -> None:
        """Kill workers whose attempts take too long; replace dead ones whose pipe is still open elsewhere."""
        now = time.monotonic()
        for worker in list(self._workers):
            if any(work is not None and now > work.until + LATE_SECONDS for work in self._trials_at(worker)):
                worker.is_late = True
                worker.kill()
            if worker.has_ended() and not self._has_unread(worker):
                self._replace_dead(worker, WorkerDied(worker.exit_code()))

    def _has_unread(self, worker: _TrialWorker) -> bool:
        """Tell whether messages of the worker, or the end of its pipe, can still be read."""
        return any(key.data is worker for key, _ in self._selector.select(0))

    def _trials_at(self, worker: _TrialWorker) -> list[AtWork | None]:
        return [self._board.at(place) for place in worker.places]

    def _replace_dead(self, worker: _TrialWorker, death: WorkerDied) -> None:
        """Remove a dead worker, and have the trials that it ran run again."""
        begun = [
            work for work in self._trials_at(worker) if work is not None and work.number in self._unfinished
        ]
        self._dismiss(worker)
        if self._stopping:
            return
        if not worker.is_ready:
            raise NotEvaluable(
                f"a worker process died {death.how} while it loaded the agent",
                remedy="Import the agent's module in a Python of your own to see why.",
                exit_code=death.code,
            )
        if not begun:
            self._count_idle_death(death)
        now = time.monotonic()
        # A function that never releases the interpreter delays the other threads, too.
        suspects = [work for work in begun if worker.is_late and now > work.until] or begun
        for work in begun:
            lost = _lost(work, death, now) if suspects == [work] else None
            self._reruns.append(_AssignedTrial(work.number, self._attempts.get(work.number), lost))
        numbers = {work.number for work in begun}
        self._reruns += [rerun for rerun in worker.reruns if rerun.number in self._unfinished - numbers]

    def _count_idle_death(self, death: WorkerDied) -> None:
        self._idle_deaths += 1
        if self._idle_deaths > MOST_IDLE_DEATHS:
            raise NotEvaluable(
                f"worker processes die {death.how} between trials",
                remedy="They may run out of memory: run again with more memory or with fewer at once.",
                exit_code=death.code,
            )

    def close(self) -> None:
        """End every worker."""
        for worker in list(self._workers):
            worker.kill()
            self._dismiss(worker)
        self._selector.close()
        self._claims.close()
        self._board.close()

    def __enter__(self) -> TrialWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lost(work: AtWork, death: WorkerDied, now: float) -> LostAttempt:
    if now > work.until:
        seconds = work.until - work.began
        return LostAttempt(FailureKind.TIMEOUT, f"did not end within {seconds:g} s", seconds)
    return LostAttempt(FailureKind.AGENT_ERROR, f"ended its process: it died {death.how}", now - work.began)


class _TrialWorker(ForkedWorker):
    """A worker of `TrialWorkers`.

    Attributes:
        reruns: Trials that it runs first.
        is_ready: Whether it has imported the agent.
        is_late: Whether it was killed because an attempt took too long.
    """

    def __init__(
        self,
        job: TrialJob,
        board: Board,
        claims: Claims,
        places: list[int],
        reruns: list[_AssignedTrial],
        siblings: list[_TrialWorker],
    ) -> None:
        self.places, self.reruns = places, reruns
        self.is_ready = self.is_late = False

        def work(results: Outbox) -> None:
            _WorkerLoop(job, board, claims.reader, places, results).work(reruns)

        super().__init__(work, claims, siblings)


class _WorkerThread(TrialWatch):
    """A thread of a worker, which notes on the board what it does."""

    def __init__(self, plan: TrialPlan, board: Board, place: int, results: Outbox) -> None:
        self._board, self._place, self._results = board, place, results
        self._number = 0
        self.plan = replace(plan, watch=self, interrupted=lambda: board.interrupted)

    def begin(self, number: int) -> None:
        self._number = number
        self._board.note(self._place, number)

    def end(self) -> None:
        """Note that the trial ended and its result was sent."""
        self._board.note(self._place, None)

    @override
    def attempt_begins(self, before: Attempts, limits: AttemptLimits) -> None:
        if before.history:
            self._results.send(_RepairBegins(self._number, pickle.dumps(before)))
        self._board.note(self._place, self._number, limits.seconds)

    @override
    def attempt_ended(self) -> None:
        self._board.note(self._place, self._number)


class _WorkerLoop:
    """The code that runs inside a worker."""

    def __init__(self, job: TrialJob, board: Board, reader: int, places: list[int], results: Outbox) -> None:
        self._job, self._board, self._reader, self._results = job, board, reader, results
        agent = job.trial.agent
        assert isinstance(agent, LocalAgent)
        self._agent = agent
        self._process = os.getpid()
        self._threads = len(places)
        self._free, self._own = iter(places), threading.local()

    def work(self, reruns: list[_AssignedTrial]) -> None:
        """Run trials until none is left; first those of dead workers, one at a time."""
        self._job.journal.close()
        self._agent.load(alone=self._threads == 1)
        self._results.send(_AgentLoaded())
        for rerun in reruns:
            self._run(rerun)
        if self._threads == 1:
            for work in self._claimed():
                self._run(work)
        else:
            Crew(self._run, self._claimed(), FixedLimit(self._threads)).run(lambda: None)
        if not self._agent.left_behind:
            self._agent.close()

    def _claimed(self) -> Iterator[_AssignedTrial]:
        """Claim trials until none is left, or until this process has a function that never returns."""
        while not self._agent.left_behind and (number := claim(self._reader)) is not None:
            yield _AssignedTrial(number)

    def _run(self, work: _AssignedTrial) -> None:
        thread, suite, redactor = self._current_thread(), self._job.suite, self._job.redactor
        thread.begin(work.number)
        raw = suite.document.case_at(work.number % suite.case_count).raw
        attempts = None if work.attempts is None else pickle.loads(work.attempts)  # noqa: S301 - pickled by a worker
        number = TrialNumber(work.number, suite.case_count)
        done = record_trial(raw, number, thread.plan, redactor, attempts=attempts, lost=work.lost)
        if os.getpid() != self._process:
            os._exit(0)  # a child that the agent forked, and that returned into this code
        if done is not None:
            self._results.send(done)
        thread.end()

    def _current_thread(self) -> _WorkerThread:
        if not hasattr(self._own, "thread"):
            self._own.thread = _WorkerThread(self._job.trial, self._board, next(self._free), self._results)
        thread: _WorkerThread = self._own.thread
        return thread

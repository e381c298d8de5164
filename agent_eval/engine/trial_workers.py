"""Trials in forked processes, whose parent alone writes the journal.

Threads give an agent that is Python code one processor, and nothing ends its function when it hangs. So where
this process can be forked (see `workers.can_fork`), its trials run in workers:

* Each worker imports the agent itself. Nothing that the agent's module opens or starts at import is shared,
  and this process stays one that can be forked again.
* There are few processes, with several threads each where many trials run at once: most functions wait for a
  model, and a process has all of the agent's modules in memory.
* What has finished goes to this process, which appends many records with one sync. It counts once on disk.
* A function that takes longer than it may, or ends its process (a crash, `os._exit`, out of memory), has
  failed its attempt, and the run goes on. The process is killed with all that it started, and another takes
  its place. Which of several trials crashed their process is found out by running them again, one at a time.

On other systems, and where this process has more than one thread, trials run in threads: a lock that another
thread holds during a fork would stay held in the worker for ever.
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
from agent_eval.engine.journaled_suite import FinishedTrial, finished_trial
from agent_eval.engine.scheduler import GRACE_SECONDS, TICK_SECONDS, Crew, FixedLimit
from agent_eval.engine.trial import Attempts, Interrupted, LostAttempt, TrialPlan, TrialWatch, run_trial
from agent_eval.engine.workers import Claims, ForkedWorker, Outbox, WorkerDied, claim
from agent_eval.errors import FailureKind, NotEvaluable
from agent_eval.storage.journal import Journal
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource

MOST_PROCESSES = 4
"""Processes used unless the caller says otherwise: each has all of the agent's modules in memory."""

AHEAD = 1024
"""Numbers that lie ready for workers, so that none waits for this process."""

GATHER_SECONDS = 0.002
"""How long results are gathered while workers have enough to do: many share one sync."""

LATE_SECONDS = 3.0
"""How much longer than it may an attempt takes until its process is killed. The worker itself ends what it
can, and knows what the agent had done by then."""

MOST_IDLE_DEATHS = 3
"""Workers that may die one after the other with no trial at work; then something else is wrong."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A worker has imported the agent."""


@dataclass(frozen=True, slots=True)
class _Repairing:
    """A worker is about to make another attempt at a trial."""

    number: int
    attempts: bytes


@dataclass(frozen=True, slots=True)
class _Work:
    """A trial, and what is left of it where an earlier process did not finish it."""

    number: int
    attempts: bytes | None = None
    lost: LostAttempt | None = None


@dataclass(frozen=True)
class TrialJob:
    """What workers need to run any trial of a run.

    Attributes:
        suite: The cases.
        trial: How a trial goes; its agent is a `LocalAgent`.
        redactor: Knows the secrets that must not be written.
        journal: Where trials go that have finished; workers only close it.
    """

    suite: SuiteSource
    trial: TrialPlan
    redactor: Redactor
    journal: Journal


class TrialWorkers:
    """Runs trials in forked workers. A context manager; leaving it ends every worker.

    Args:
        job: What workers do.
        numbers: The trials to run, as `trial * cases + position`.
        threads: For each worker, how many trials it runs at once.
        sequential: Whether none is handed out before a place is free, for a limit that has to see every cost.
        finished: Called with what has finished, as soon as this process knows of it.
        kept: Called with it and its record's offset, once it is on disk.
    """

    def __init__(
        self,
        job: TrialJob,
        numbers: Iterator[int],
        *,
        threads: Sequence[int],
        sequential: bool,
        finished: Callable[[FinishedTrial], None],
        kept: Callable[[FinishedTrial, int], None],
    ) -> None:
        self._job, self._sequential = job, sequential
        self._finished, self._kept = finished, kept
        self._vacancies, self._places = list(threads), sum(threads)
        self._claims, self._board = Claims(numbers), Board(self._places)
        self._workers: list[_TrialWorker] = []
        self._selector = selectors.DefaultSelector()
        self._out: set[int] = set()
        """Trials that were handed out and have not finished."""
        self._begun: dict[int, bytes] = {}
        """Attempts at trials that are being repaired."""
        self._reruns: list[_Work] = []
        self._unwritten: list[FinishedTrial] = []
        self._stopping = False
        self._deadline: float | None = None
        self._idle_deaths = 0

    @property
    def in_flight(self) -> int:
        """How many trials are being worked on."""
        return max(0, len(self._out) - self._claims.waiting())

    def run(self, tick: Callable[[], object]) -> None:
        """Run trials until there are none left, `stop` was called or something was raised.

        Args:
            tick: Called several times a second; may raise, as Ctrl-C does. Nothing new is begun then; see
                `settle`.

        Raises:
            AgentEvalError: No attempt at any case can succeed, workers keep dying, or the disk is full.
        """
        try:
            self._work(tick)
        except BaseException:
            self.stop()
            raise

    def stop(self, within: float | None = None) -> None:
        """Begin nothing new.

        Args:
            within: Seconds after which what was begun is killed; without it `run` waits for all of it.
        """
        if within is not None:
            self._board.interrupt()
            self._stopping = True
            self._deadline = self._deadline or time.monotonic() + within
        self._out.difference_update(self._claims.withdraw())

    def settle(self) -> None:
        """After `run` raised: give what was begun a moment to end, and kill the rest."""
        self.stop(within=GRACE_SECONDS)
        with suppress(Exception):  # what `run` raised is what counts
            self._work(lambda: None)

    def _work(self, tick: Callable[[], object]) -> None:
        next_tick = time.monotonic() + TICK_SECONDS
        while True:
            self._hand_out()
            if not self._keep_staffed() or self._is_late():
                break
            self._receive(max(0.0, next_tick - time.monotonic()))
            self._write()
            if time.monotonic() >= next_tick:
                self._look_after_workers()
                tick()
                next_tick = time.monotonic() + TICK_SECONDS
        self._write()

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _hand_out(self) -> None:
        free = self._places - len(self._out) if self._sequential else AHEAD - self._claims.waiting()
        if free > 0:
            self._out.update(self._claims.refill(free))

    def _keep_staffed(self) -> bool:
        """Have as many workers as there is work for. Returns whether there are any."""
        if not self._stopping:
            if not self._workers and not self._reruns and not self._claims.waiting():
                # Claimed by a worker that died before it could say so.
                self._reruns = [_Work(number, self._begun.get(number)) for number in sorted(self._out)]
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
        if ready and not self._sequential and self._claims.waiting():
            time.sleep(GATHER_SECONDS)
            ready = self._selector.select(0)
        for key, _ in ready:
            worker: _TrialWorker = key.data
            try:
                self._take(worker, worker.receive())
            except WorkerDied as death:
                self._bury(worker, death)
                continue
            if worker.finished:
                self._dismiss(worker)

    def _take(self, worker: _TrialWorker, messages: list[Any]) -> None:
        for message in messages:
            if isinstance(message, FinishedTrial):
                self._out.discard(message.number)
                self._begun.pop(message.number, None)
                self._finished(message)
                self._unwritten.append(message)
                self._idle_deaths = 0
            elif isinstance(message, _Repairing):
                self._begun[message.number] = message.attempts
            else:
                worker.is_ready = True

    def _write(self) -> None:
        """Put what has finished on disk; then it counts."""
        if not self._unwritten:
            return
        batch, self._unwritten = self._unwritten, []
        offset = self._job.journal.append_lines([done.line for done in batch])
        for done in batch:
            self._kept(done, offset)
            offset += len(done.line)

    def _look_after_workers(self) -> None:
        """Kill workers in which an attempt takes too long, and bury the dead whose pipe others keep open."""
        now = time.monotonic()
        for worker in list(self._workers):
            if any(work is not None and now > work.until + LATE_SECONDS for work in self._at_work(worker)):
                worker.is_late = True
                worker.kill()
            if worker.has_ended() and not self._selector_has(worker):
                self._bury(worker, WorkerDied(worker.exit_code()))

    def _selector_has(self, worker: _TrialWorker) -> bool:
        """Whether something that the worker sent is still to be read, or the end of it."""
        return any(key.data is worker for key, _ in self._selector.select(0))

    def _at_work(self, worker: _TrialWorker) -> list[AtWork | None]:
        return [self._board.at(place) for place in worker.places]

    def _bury(self, worker: _TrialWorker, death: WorkerDied) -> None:
        """See to the trials that a dead worker had begun."""
        begun = [work for work in self._at_work(worker) if work is not None and work.number in self._out]
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
        # One that never lets another thread run makes the others late, too.
        suspects = [work for work in begun if worker.is_late and now > work.until] or begun
        for work in begun:
            lost = _lost(work, death, now) if suspects == [work] else None
            self._reruns.append(_Work(work.number, self._begun.get(work.number), lost))
        numbers = {work.number for work in begun}
        self._reruns += [rerun for rerun in worker.reruns if rerun.number in self._out - numbers]

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
        places: Its places on the board.
        reruns: What it begins with.
        is_ready: Whether it has imported the agent.
        is_late: Whether it was killed since an attempt took too long.
    """

    def __init__(
        self,
        job: TrialJob,
        board: Board,
        claims: Claims,
        places: list[int],
        reruns: list[_Work],
        siblings: list[_TrialWorker],
    ) -> None:
        self.places, self.reruns = places, reruns
        self.is_ready = self.is_late = False

        def work(results: Outbox) -> None:
            _Inside(job, board, claims.reader, places, results).work(reruns)

        super().__init__(work, claims, siblings)


class _Thread(TrialWatch):
    """A thread of a worker, which shows on the board what it does.

    Attributes:
        plan: How its trials go.
    """

    def __init__(self, plan: TrialPlan, board: Board, place: int, results: Outbox) -> None:
        self._board, self._place, self._results = board, place, results
        self._number = 0
        self.plan = replace(plan, watch=self, interrupted=lambda: board.interrupted)

    def begin(self, number: int) -> None:
        """A trial begins."""
        self._number = number
        self._board.note(self._place, number)

    def end(self) -> None:
        """It ended, and what became of it was sent."""
        self._board.note(self._place, None)

    @override
    def begins(self, before: Attempts, limits: AttemptLimits) -> None:
        if before.history:
            self._results.send(_Repairing(self._number, pickle.dumps(before)))
        self._board.note(self._place, self._number, limits.seconds)

    @override
    def ended(self) -> None:
        self._board.note(self._place, self._number)


class _Inside:
    """What happens inside a worker."""

    def __init__(self, job: TrialJob, board: Board, reader: int, places: list[int], results: Outbox) -> None:
        self._job, self._board, self._reader, self._results = job, board, reader, results
        agent = job.trial.agent
        assert isinstance(agent, LocalAgent)
        self._agent = agent
        self._process = os.getpid()
        self._threads = len(places)
        self._free, self._own = iter(places), threading.local()

    def work(self, reruns: list[_Work]) -> None:
        """Run trials until there is nothing left; those of other processes first, one at a time."""
        self._job.journal.close()
        self._agent.load(alone=self._threads == 1)
        self._results.send(_Ready())
        for rerun in reruns:
            self._run(rerun)
        if self._threads == 1:
            for work in self._claimed():
                self._run(work)
        else:
            Crew(self._run, self._claimed(), FixedLimit(self._threads)).run(lambda: None)
        if not self._agent.left_behind:
            self._agent.close()

    def _claimed(self) -> Iterator[_Work]:
        """What to run, until there is nothing left or a function that never returns is in this process."""
        while not self._agent.left_behind and (number := claim(self._reader)) is not None:
            yield _Work(number)

    def _run(self, work: _Work) -> None:
        own, cases = self._own_plan(), self._job.suite.case_count
        own.begin(work.number)
        raw = self._job.suite.document.case_at(work.number % cases).raw
        attempts = None if work.attempts is None else pickle.loads(work.attempts)  # noqa: S301 - one of our own
        try:
            outcome = run_trial(raw, own.plan, attempts=attempts, lost=work.lost)
        except Interrupted:
            own.end()
            return
        if os.getpid() != self._process:
            os._exit(0)  # a process that the agent forked, and that came back here
        self._results.send(finished_trial(work.number, cases, raw["case_id"], outcome, self._job.redactor))
        own.end()

    def _own_plan(self) -> _Thread:
        """What this thread of the worker has of its own."""
        if not hasattr(self._own, "thread"):
            self._own.thread = _Thread(self._job.trial, self._board, next(self._free), self._results)
        thread: _Thread = self._own.thread
        return thread

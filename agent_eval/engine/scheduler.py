"""Keep many trials in progress on an executor, and write those that finish to the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from agent_eval.engine.journaled_suite import FinishedTrial
from agent_eval.models.retries import AdaptiveLimit
from agent_eval.storage.journal import Journal

TICK_SECONDS = 0.2
"""Interval at which `tick` is called."""

GRACE_SECONDS = 2.0
"""How long an interrupted run waits for trials in progress."""

AHEAD = 64
"""Trials that may wait for a place, so that none is free while finished ones are written."""

Ended = Future[FinishedTrial | None]


@dataclass(kw_only=True)
class Scheduler:
    """Runs trials. The thread that calls `run` alone writes the journal: many records share one sync.

    Attributes:
        start: Starts a trial; its result is None if the run is being ended.
        numbers: The trials, in the order in which they are started.
        places: Number of trials at once.
        may_start: Tells whether another may begin beside so many, so that a limit of costs is kept; None
            where there is none.
        adaptive: The limit of an account that several runs share, in place of `places`.
        on_recorded: Called with each trial once its record is on disk, and with the record's offset.
    """

    journal: Journal
    start: Callable[[int], Ended]
    numbers: Iterator[int]
    places: int
    on_recorded: Callable[[FinishedTrial, int], None]
    may_start: Callable[[int], bool] | None = None
    adaptive: AdaptiveLimit | None = None

    def __post_init__(self) -> None:
        self._running: set[Ended] = set()
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._unwritten: list[FinishedTrial] = []
        self._is_stopped = False
        self._deadline = float("inf")
        self._error: BaseException | None = None

    @property
    def in_flight(self) -> int:
        """Number of trials that are being run."""
        return min(len(self._running), self._places())

    def run(self, tick: Callable[[], object]) -> None:
        """Run trials until none is left, `stop` was called or a trial raised.

        `tick` is called several times a second. It may raise, as Ctrl-C does: no further trial is started
        then. Call `settle` afterwards.

        Raises:
            AgentEvalError: No attempt at any case can succeed, or the disk is full.
        """
        try:
            self._run(tick)
        except BaseException:
            self.stop()
            raise
        if self._error is not None:
            raise self._error

    def stop(self, within: float | None = None) -> None:
        """Start no further trial.

        After `within` seconds `run` no longer waits for trials in progress; None waits for all of them.
        """
        self._is_stopped = True
        if within is not None:
            self._deadline = min(self._deadline, time.monotonic() + within)
        for future in list(self._running):
            future.cancel()

    def settle(self) -> None:
        """Wait a moment for trials in progress to end. Call it after `run` raised."""
        self.stop(within=GRACE_SECONDS)
        if self._error is None:  # otherwise they had their time, or nothing can be written
            self._run(lambda: None)

    def _run(self, tick: Callable[[], object]) -> None:
        next_tick = time.monotonic() + TICK_SECONDS
        while True:
            self._start_more()
            now = time.monotonic()
            is_over = self._is_stopped and not (self._running or self._unwritten)
            if is_over or now >= self._deadline:
                return
            with suppress(Empty):
                self._take(self._ended.get(timeout=max(0.0, min(next_tick, self._deadline) - now)))
                while True:
                    self._take(self._ended.get_nowait())
            self._write()
            if time.monotonic() >= next_tick:
                tick()
                next_tick = time.monotonic() + TICK_SECONDS

    def _places(self) -> int:
        return self.places if self.adaptive is None else self.adaptive.current()

    def _start_more(self) -> None:
        while not self._is_stopped:
            # Where a limit counts what is in progress, nothing waits: it may have to stay.
            is_exact = self.may_start is not None or self.adaptive is not None
            most, running = self._places() + (0 if is_exact else AHEAD), len(self._running)
            if running >= most:
                return
            if self.may_start is not None and not self.may_start(running):
                self._is_stopped |= not running
                return
            if self.adaptive is not None and not self.adaptive.take():
                return
            number = next(self.numbers, None)
            if number is None:
                self._is_stopped = True
                self._give_back()
                return
            future = self.start(number)
            self._running.add(future)
            future.add_done_callback(self._ended.put)

    def _give_back(self) -> None:
        if self.adaptive is not None:
            self.adaptive.give_back()

    def _take(self, future: Ended) -> None:
        self._running.discard(future)
        self._give_back()
        try:
            done = future.result()
        except CancelledError:
            return
        except BaseException as error:
            self._error = self._error or error
            self.stop()
            return
        if done is not None:
            self._unwritten.append(done)

    def _write(self) -> None:
        """Append finished trials to the journal, and report them as recorded."""
        if not self._unwritten:
            return
        batch = list(self._unwritten)
        try:
            offset = self.journal.append_lines([done.line for done in batch])
        except Exception as error:
            self._error = error
            raise
        del self._unwritten[: len(batch)]
        for done in batch:
            self.on_recorded(done, offset)
            offset += len(done.line)

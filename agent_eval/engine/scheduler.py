"""Run many trials at once: a fixed number, or as many as a provider accepts.

Threads do the work, since an agent is synchronous Python that mostly waits. They start trials in order.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from typing_extensions import override

from agent_eval.models.retries import Limit

T = TypeVar("T")

TICK_SECONDS = 0.2
"""Interval at which the waiting thread calls `tick`."""

GRACE_SECONDS = 2.0
"""How long an interrupted run waits for trials in progress."""


class FixedLimit(Limit):
    """A constant number of places, for one crew.

    A crew has no more threads than the limit has places, so a place is always free.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    @override
    def current(self) -> int:
        return self._number

    @override
    def take(self) -> bool:
        return True

    @override
    def give_back(self) -> None:
        pass


class CostPace(Limit):
    """Starts no trial that could exceed a cost limit, if those in progress cost as much as earlier ones.

    Besides, `limit` applies. `allowed` returns how many trials may be in progress, at least one.
    """

    def __init__(self, limit: Limit, allowed: Callable[[], int]) -> None:
        self._limit, self._allowed = limit, allowed
        self._in_progress = 0
        self._lock = threading.Lock()

    @override
    def current(self) -> int:
        return self._limit.current()

    @override
    def take(self) -> bool:
        with self._lock:
            if self._in_progress >= self._allowed() or not self._limit.take():
                return False
            self._in_progress += 1
            return True

    @override
    def give_back(self) -> None:
        with self._lock:
            self._in_progress -= 1
            self._limit.give_back()


class Crew(Generic[T]):
    """Threads that call a function with each item of an iterator.

    An exception of `work` ends the crew, and `run` raises it. Items are started in their order;
    `limit` decides how many are worked on at once.
    """

    def __init__(self, work: Callable[[T], None], items: Iterator[T], limit: Limit) -> None:
        self._work, self._items, self._limit = work, items, limit
        self._threads: list[threading.Thread] = []
        self._take = threading.Lock()
        self._place_free = threading.Condition()
        self._over = threading.Event()
        self._in_flight = self._waiting = 0
        self._finished = False
        self._deadline: float | None = None
        self._error: BaseException | None = None

    @property
    def in_flight(self) -> int:
        """Number of items that are being worked on."""
        return self._in_flight

    def run(self, tick: Callable[[], object]) -> None:
        """Work until no item is left, `stop` was called or an exception was raised.

        `tick` is called in this thread several times a second. It may raise, as Ctrl-C does: no further item
        is started then. Call `settle` afterwards.

        Raises:
            BaseException: The first exception of `work` or `tick`.
        """
        try:
            while not self._over.is_set() and not self._is_late():
                self._hire()
                self._over.wait(TICK_SECONDS)
                tick()
        except BaseException:
            self.stop()
            raise
        self._join(self._deadline)
        if self._error is not None:
            raise self._error

    def stop(self, within: float | None = None) -> None:
        """Start no further item.

        After `within` seconds `run` no longer waits for items in progress, whose threads do not keep the
        process alive; None waits for all of them.
        """
        if within is not None and self._deadline is None:
            self._deadline = time.monotonic() + within
        self._stop_with(None)

    def settle(self) -> None:
        """Wait a moment for items in progress to end. Call it after `run` raised."""
        self._join(time.monotonic() + GRACE_SECONDS)

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _hire(self) -> None:
        while len(self._threads) < self._limit.current() and not self._finished:
            thread = threading.Thread(target=self._loop, name=f"trials-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _loop(self) -> None:
        while self._enter():
            try:
                with self._take:
                    # Another thread may have stopped the crew while this one waited for its turn.
                    item = None if self._finished else next(self._items, None)
                if item is None:
                    self._stop_with(None)
                else:
                    self._work(item)
            except BaseException as error:
                self._stop_with(error)
            finally:
                self._leave()

    def _enter(self) -> bool:
        """Wait for a place. Returns False once the crew was stopped."""
        with self._place_free:
            while not self._finished:
                if self._limit.take():
                    self._in_flight += 1
                    return True
                self._waiting += 1
                # With a timeout: another crew may return a place, or the limit may grow, without notice.
                self._place_free.wait(TICK_SECONDS)
                self._waiting -= 1
            return False

    def _leave(self) -> None:
        with self._place_free:
            self._in_flight -= 1
            self._limit.give_back()
            if self._waiting:
                self._place_free.notify()
            if self._finished and not self._in_flight:
                self._over.set()

    def _stop_with(self, error: BaseException | None) -> None:
        with self._place_free:
            self._finished = True
            self._error = self._error or error
            self._place_free.notify_all()
            if not self._in_flight:
                self._over.set()

    def _join(self, deadline: float | None) -> None:
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))


class TrialRunner(ABC):
    """Runs the trials of a run. `TrialThreads` does so in threads, `TrialWorkers` in processes."""

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """Number of trials that are being run."""

    @abstractmethod
    def run(self, tick: Callable[[], object]) -> None:
        """Run trials until none is left, `stop` was called or an exception was raised.

        `tick` is called several times a second. It may raise, as Ctrl-C does: no further trial is started
        then. Call `settle` afterwards.

        Raises:
            AgentEvalError: No attempt at any case can succeed, workers keep dying, or the disk is full.
        """

    @abstractmethod
    def stop(self, within: float | None = None) -> None:
        """Start no further trial.

        After `within` seconds `run` no longer waits for trials in progress; None waits for all of them.
        """

    @abstractmethod
    def settle(self) -> None:
        """Wait a moment for trials in progress to end. Call it after `run` raised."""

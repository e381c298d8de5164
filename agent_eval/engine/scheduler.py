"""Run many trials at once: a fixed number, or as many as a provider accepts.

Threads do the work, since an agent is synchronous Python that mostly waits. They start trials in order.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from typing_extensions import override

from agent_eval.agents.base import Reply
from agent_eval.http.retry import Patience, backoff

T = TypeVar("T")

TICK_SECONDS = 0.2
"""Interval at which the waiting thread calls `tick`."""

GRACE_SECONDS = 2.0
"""How long an interrupted run waits for trials in progress."""


class Limit(Protocol):
    """Limits how many items are worked on at once. All methods are safe to call from any thread."""

    def current(self) -> int:
        """Return the current number of places."""
        ...

    def take(self) -> bool:
        """Take a place. Returns False if all are taken."""
        ...

    def give_back(self) -> None:
        """Return a place taken before."""
        ...


class FixedLimit(Limit):
    """A constant number of places, for one crew.

    A crew has no more threads than the limit has places, so a place is always free.

    Example:
        >>> FixedLimit(8).current()
        8
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

    Args:
        limit: The limit that applies besides.
        allowed: Returns how many trials may be in progress, at least one.

    Example:
        >>> pace = CostPace(FixedLimit(8), allowed=lambda: 1)
        >>> pace.take(), pace.take()
        (True, False)
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


class AdaptiveLimit(Limit):
    """Grows while requests succeed and all places are taken; shrinks when a provider limits the rate.

    The rule of Inspect's adaptive connections (https://inspect.aisi.org.uk/parallelism.html): double after
    a clean round of as many successes as there are places until the first refusal, from then on add a
    twentieth; on a refusal take four fifths, once per wait that the provider asked for, and count no success
    meanwhile; grow only if at least four fifths of the places were taken. Other failures of the
    infrastructure restart the round. All runs of a process share one limit for each account at a provider:
    get it from `limit_of`.

    Args:
        first: Number of places at the start.
        most: Maximum number of places.
        clock: Returns seconds that never decrease.

    Example:
        >>> limit = AdaptiveLimit(first=10)
        >>> limit.report(failed=True, refused=True)
        >>> limit.current()
        8
    """

    SHORTEST_ROUND = 4
    COOL_DOWN_SECONDS = 15.0

    def __init__(
        self, first: int = 4, most: int = 64, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places, self._most, self._clock = float(first), most, clock
        self._successes = 0
        self._in_use = self._peak = 0
        self._doubling = True
        self._cool_until = float("-inf")
        self._lock = threading.Lock()

    @override
    def current(self) -> int:
        return int(self._places)

    @override
    def take(self) -> bool:
        with self._lock:
            if self._in_use >= self.current():
                return False
            self._in_use += 1
            self._peak = max(self._peak, self._in_use)
            return True

    @override
    def give_back(self) -> None:
        with self._lock:
            self._in_use -= 1

    def report(self, *, failed: bool, refused: bool = False, asked_wait: float | None = None) -> None:
        """Adapt the limit to the result of a request.

        Args:
            failed: Whether the infrastructure failed.
            refused: Whether it failed because of too many requests.
            asked_wait: Seconds that the provider asked to wait; None if it did not say.
        """
        with self._lock:
            now = self._clock()
            if refused:
                self._shrink(now, asked_wait)
            elif failed:
                self._successes = 0
            elif now >= self._cool_until:
                self._successes += 1
                if self._successes >= max(self.current(), self.SHORTEST_ROUND):
                    self._grow()

    def _shrink(self, now: float, asked_wait: float | None) -> None:
        if now < self._cool_until:
            return
        self._places = max(1.0, int(self._places) * 0.8)
        self._doubling = False
        self._cool_until = now + (self.COOL_DOWN_SECONDS if asked_wait is None else asked_wait)
        self._begin_round()

    def _grow(self) -> None:
        saturated = self._peak >= 0.8 * self.current()
        self._begin_round()
        if saturated:
            grown = self._places * (2 if self._doubling else 1.05)
            self._places = min(float(self._most), grown)

    def _begin_round(self) -> None:
        self._successes, self._peak = 0, self._in_use


_limits: dict[str, AdaptiveLimit] = {}
_limits_lock = threading.Lock()


def limit_of(account: str | None) -> AdaptiveLimit:
    """Return the limit of an account at a provider, the same for all runs of this process.

    Args:
        account: From `agents.base.account_of`; None for an agent without an account, which gets a new limit.
    """
    if account is None:
        return AdaptiveLimit()
    with _limits_lock:
        return _limits.setdefault(account, AdaptiveLimit())


class Crew(Generic[T]):
    """Threads that call a function with each item of an iterator.

    Args:
        work: Called with each item. An exception ends the crew, and `run` raises it.
        items: Items in the order in which they are started.
        limit: Decides how many items are worked on at once.

    Example:
        >>> done = []
        >>> Crew(done.append, iter(["refund", "order"]), FixedLimit(1)).run(tick=lambda: None)
        >>> done
        ['refund', 'order']
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

        Args:
            tick: Called in this thread several times a second. It may raise, as Ctrl-C does: no further
                item is started then. Call `settle` afterwards.

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

        Args:
            within: Seconds after which `run` no longer waits for items in progress. Their threads do not
                keep the process alive. None to wait for all of them.
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

        Args:
            tick: Called several times a second. It may raise, as Ctrl-C does: no further trial is started
                then. Call `settle` afterwards.

        Raises:
            AgentEvalError: No attempt at any case can succeed, workers keep dying, or the disk is full.
        """

    @abstractmethod
    def stop(self, within: float | None = None) -> None:
        """Start no further trial.

        Args:
            within: Seconds after which `run` no longer waits for trials in progress; None to wait for all.
        """

    @abstractmethod
    def settle(self) -> None:
        """Wait a moment for trials in progress to end. Call it after `run` raised."""


PATIENCE = Patience(attempts=5, first_wait=1.0, longest_wait=90.0, total_wait=300.0)
"""Number of attempts and length of waits, unless the caller sets others."""


@dataclass
class Retries:
    """Sends requests again when the infrastructure fails. All threads of a run share one.

    Implements `agents.base.Retry`.

    Attributes:
        patience: Number of attempts, and lengths of waits, for each request.
        stopping: Set when the run stops; ends every wait.
        limit: Receives the result of every request; None if the limit does not adapt.
        chance: Returns a number from 0 to 1, which spreads the retries of threads that failed together.
        wait: Waits for that many seconds; returns True if the run stopped meanwhile.
        count: Number of requests that were sent again.

    Example:
        >>> from agent_eval.errors import FailureKind
        >>> replies = iter([Reply(failure=FailureKind.INFRASTRUCTURE, problem="HTTP 503"), Reply("refunded")])
        >>> reply, times = Retries(wait=lambda seconds: False)(lambda: next(replies))
        >>> reply.value, times
        ('refunded', 1)
    """

    patience: Patience = PATIENCE
    stopping: threading.Event = field(default_factory=threading.Event)
    limit: AdaptiveLimit | None = None
    chance: Callable[[], float] = random.random
    wait: Callable[[float], bool] | None = None
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
        """Send until the infrastructure does not fail, or patience ends.

        Returns:
            The last reply, and how often the request was sent again.
        """
        waited, attempt = 0.0, 1
        while True:
            sent = send()
            if self.limit is not None:
                self.limit.report(
                    failed=sent.is_infrastructure, refused=sent.rate_limited, asked_wait=sent.asked_wait
                )
            if not sent.is_infrastructure or attempt >= self.patience.attempts:
                return sent, attempt - 1
            seconds = sent.asked_wait
            if seconds is None:
                seconds = backoff(attempt, self.patience, self.chance())
            waited += seconds
            if seconds > self.patience.longest_wait or waited > self.patience.total_wait:
                return sent, attempt - 1
            if (self.wait or self.stopping.wait)(seconds):
                return sent, attempt - 1
            attempt += 1
            with self._lock:
                self.count += 1

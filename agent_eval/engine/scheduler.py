"""Many trials at once: a fixed number, or as many as a provider takes.

Threads, since an agent is plain synchronous Python that mostly waits. They take their work in the order in
which it is given, so no case waits for another one's repeats.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from agent_eval.agents.base import Reply
from agent_eval.http.retry import Patience, backoff

T = TypeVar("T")

TICK_SECONDS = 0.2
"""How often the waiting thread looks around."""

GRACE_SECONDS = 2.0
"""How long an interrupted run waits for what is nearly done."""


class Limit(Protocol):
    """How many may be at work. Any thread may ask."""

    def current(self) -> int:
        """The number now."""
        ...

    def take(self) -> bool:
        """Take a place. Returns false when all are taken."""
        ...

    def give_back(self) -> None:
        """Let go of a place."""
        ...


class FixedLimit:
    """Always the same number. For one crew, which has no more threads than that: a place is always free."""

    def __init__(self, number: int) -> None:
        self._number = number

    def current(self) -> int:
        """That number."""
        return self._number

    def take(self) -> bool:
        """There is one."""
        return True

    def give_back(self) -> None:
        """Nothing follows from it."""


class AdaptiveLimit:
    """Grows while requests succeed and all places are taken, shrinks when a provider says it is too much.

    The rule of Inspect's adaptive connections (https://inspect.aisi.org.uk/parallelism.html): double after
    a clean round of as many successes as there are places until the first refusal, from then on add a
    twentieth; on a refusal take four fifths, once per wait that the provider asked for, and count no success
    meanwhile; grow only if at least four fifths of the places were taken. Other failures of the
    infrastructure begin the round anew. One controller serves one account at one provider, whichever runs
    ask it; see `limit_of`.

    Args:
        first: Places to begin with.
        most: Places at most.
        clock: Seconds that only grow.
    """

    SHORTEST_ROUND = 4
    COOL_DOWN_SECONDS = 15.0

    def __init__(
        self, first: int = 4, most: int = 64, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places, self._most, self._clock = float(first), most, clock
        self._successes = 0
        self._taken = self._peak = 0
        self._doubling = True
        self._cool_until = float("-inf")
        self._lock = threading.Lock()

    def current(self) -> int:
        """Places now."""
        return int(self._places)

    def take(self) -> bool:
        """Take a place, and remember how many were taken at most in this round."""
        with self._lock:
            if self._taken >= self.current():
                return False
            self._taken += 1
            self._peak = max(self._peak, self._taken)
            return True

    def give_back(self) -> None:
        """Let go of a place."""
        with self._lock:
            self._taken -= 1

    def report(self, *, failed: bool, refused: bool = False, asked_wait: float | None = None) -> None:
        """Be told how a request fared.

        Args:
            failed: The infrastructure failed.
            refused: It failed because there were too many requests.
            asked_wait: Seconds the provider asked to wait.
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
        self._successes, self._peak = 0, self._taken


_limits: dict[str, AdaptiveLimit] = {}
_limits_lock = threading.Lock()


def limit_of(account: str | None) -> AdaptiveLimit:
    """The controller of an account at a provider, the same for all runs of this process.

    Args:
        account: From `agents.base.account_of`; None for what has no account, and so a controller of its
            own each time.
    """
    if account is None:
        return AdaptiveLimit()
    with _limits_lock:
        return _limits.setdefault(account, AdaptiveLimit())


class Crew(Generic[T]):
    """Threads that work off an iterator.

    Args:
        work: Done for each item; what it raises ends everything.
        items: In the order in which they are begun.
        limit: How many at once.
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
        """How many items are being worked on."""
        return self._in_flight

    def run(self, tick: Callable[[], object]) -> None:
        """Work until there is nothing left, `stop` was called or something was raised.

        Args:
            tick: Called in this thread several times a second; may raise, as Ctrl-C does. Nothing new is
                begun then; see `settle`.

        Raises:
            BaseException: What `work` or `tick` raised first.
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
        """Begin nothing new.

        Args:
            within: Seconds after which what was begun is left behind, in threads that do not keep the
                process alive; without it `run` waits for all of it.
        """
        if within is not None and self._deadline is None:
            self._deadline = time.monotonic() + within
        self._stop_with(None)

    def settle(self) -> None:
        """After `run` raised: give what was begun a moment to end, and leave the rest behind."""
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
                    # A stop while this thread waited for its turn.
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
        """Wait for a place. Returns false when nothing new is begun any more."""
        with self._place_free:
            while not self._finished:
                if self._limit.take():
                    self._in_flight += 1
                    return True
                self._waiting += 1
                # Not for ever: places are also let go of by other crews, or are there when the limit grows.
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


PATIENCE = Patience(attempts=5, first_wait=1.0, longest_wait=90.0, total_wait=300.0)
"""How often and how long, unless the caller says otherwise."""


@dataclass
class Retries:
    """When to send again, and how often that was done. One for all threads of a run; see `agents.Retry`.

    Args:
        patience: Attempts, waits and their sum, for each request.
        stopping: Set when the run stops; ends every wait.
        limit: Is told how requests fare; None where nothing adapts.
        chance: From 0 to 1; spreads threads that failed together.
        wait: Waits for that many seconds; true when the run stops meanwhile.
    """

    patience: Patience = PATIENCE
    stopping: threading.Event = field(default_factory=threading.Event)
    limit: AdaptiveLimit | None = None
    chance: Callable[[], float] = random.random
    wait: Callable[[float], bool] | None = None
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
        """Send until the infrastructure lets it through, or patience ends.

        Returns:
            The last answer, and how often it was sent again.
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

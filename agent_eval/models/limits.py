"""Limits of requests in progress: the interface, and the limit that adapts to what a provider accepts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from typing_extensions import override


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


class AdaptiveLimit(Limit):
    """Grows while requests succeed and all places are taken; shrinks when a provider limits the rate.

    The rule of Inspect's adaptive connections (https://inspect.aisi.org.uk/parallelism.html): double after
    a clean round of as many successes as there are places until the first refusal, from then on add a
    twentieth; on a refusal take four fifths, once per wait that the provider asked for, and count no success
    meanwhile; grow only if at least four fifths of the places were taken. Other failures of the
    infrastructure restart the round. All runs of a process share one limit for each account at a provider:
    get it from `limit_of`.
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

    @property
    def was_refused(self) -> bool:
        """Whether the provider has ever refused because of too many requests."""
        return not self._doubling

    def note_use(self, number: int) -> None:
        """Note that `number` requests are in progress whose places are counted elsewhere."""
        with self._lock:
            self._peak = max(self._peak, number)

    def report(self, *, failed: bool, refused: bool = False, asked_wait: float | None = None) -> None:
        """Adapt the limit to the result of a request, and to the seconds that the provider asked to wait."""
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
    """Return the limit of an account, the same for all runs of this process; None gets a new one."""
    if account is None:
        return AdaptiveLimit()
    with _limits_lock:
        return _limits.setdefault(account, AdaptiveLimit())

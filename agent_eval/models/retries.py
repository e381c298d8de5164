"""Requests to agents and models: their results, who repeats them, and how many are in progress at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import override

from agent_eval.contracts import digest
from agent_eval.errors import FailureKind
from agent_eval.http.retry import Patience, backoff

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """Result of one request to an agent or a model: its answer, or why there is none.

    Attributes:
        value: The answer; None if there is none.
        failure: Why there is none. `INFRASTRUCTURE` means that a retry may help.
        rate_limited: Whether the service refused because of too many requests (429); the scheduler then
            sends fewer requests at a time.
        received: What came instead of an answer, for the case's artifacts.
        block_reason: What kept the answer back, such as a content filter; None if nothing is known to have.
        delivered: Whether the request may have reached the service although there is no answer of use.
    """

    value: T | None = None
    failure: FailureKind | None = None
    problem: str = ""
    asked_wait: float | None = None
    rate_limited: bool = False
    received: bytes = b""
    block_reason: str | None = None
    delivered: bool = False

    def without_value(self) -> Reply[Any]:
        """Return the same failure, typed for another kind of answer."""
        return replace(self, value=None)

    @property
    def is_infrastructure(self) -> bool:
        """Whether something between this program and the agent failed."""
        return self.failure is FailureKind.INFRASTRUCTURE


class Retry(Protocol):
    """Repeats a request while the infrastructure fails, up to a limit."""

    def __call__(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
        """Send the request; return the last result, and the number of repetitions."""
        ...


def send_once(send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
    """Send the request once; the `Retry` that repeats nothing."""
    return send(), 0


def account_name(address: str, *credentials: str) -> str:
    """Identify an account at a provider, without revealing its credentials.

    Only scheme and host of the address count, and only a digest of the credentials is in the name.
    """
    origin = "/".join(address.split("/", 3)[:3]).lower()
    return f"{origin} {digest(sorted(credentials))}"


class Limit(Protocol):
    """Limits how many items are worked on at once. All methods are safe to call from any thread."""

    def current(self) -> int:
        """Return the current number of places."""
        ...

    def take(self) -> bool:
        """Take a place; False if all are taken."""
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
            if refused and now >= self._cool_until:
                self._places = max(1.0, int(self._places) * 0.8)
                self._doubling = False
                self._cool_until = now + (self.COOL_DOWN_SECONDS if asked_wait is None else asked_wait)
                self._successes, self._peak = 0, self._in_use
            elif failed and not refused:
                self._successes = 0
            elif not failed and now >= self._cool_until:
                self._successes += 1
                if self._successes >= max(self.current(), self.SHORTEST_ROUND):
                    if self._peak >= 0.8 * self.current():
                        grown = self._places * (2 if self._doubling else 1.05)
                        self._places = min(float(self._most), grown)
                    self._successes, self._peak = 0, self._in_use


_limits: dict[str, AdaptiveLimit] = {}
_limits_lock = threading.Lock()


def limit_of(account: str | None) -> AdaptiveLimit:
    """Return the limit of an account, the same for all runs of this process; None gets a new one."""
    if account is None:
        return AdaptiveLimit()
    with _limits_lock:
        return _limits.setdefault(account, AdaptiveLimit())


PATIENCE = Patience(attempts=5, first_wait=1.0, longest_wait=90.0, total_wait=300.0)
"""Number of attempts and length of waits, unless the caller sets others."""


@dataclass
class Retries:
    """Sends requests again when the infrastructure fails. All threads of a run share one.

    Implements `reply.Retry`.

    Attributes:
        limit: Receives the result of every request; None if the limit does not adapt.
        chance: Returns a number from 0 to 1, which spreads the retries of threads that failed together.
        wait: Waits for that many seconds; returns True if the run stopped meanwhile.
    """

    patience: Patience = PATIENCE
    stopping: threading.Event = field(default_factory=threading.Event)
    limit: AdaptiveLimit | None = None
    chance: Callable[[], float] = random.random
    wait: Callable[[float], bool] | None = None
    count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
        """Send until the infrastructure does not fail, or patience ends; return the number of repetitions."""
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

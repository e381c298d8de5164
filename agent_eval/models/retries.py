"""Requests to agents and models: their results, who repeats them, when they are sent, how many at once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from agent_eval.contracts import digest
from agent_eval.errors import FailureKind
from agent_eval.http.retry import Patience, backoff

T = TypeVar("T")

_deadline: ContextVar[tuple[float, float]] = ContextVar("deadline", default=(float("inf"), float("inf")))
"""The moment at which time is over, and how many seconds there were."""
_AT_ONCE_SECONDS = 0.05


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Bound all requests and waits in this block by a time from now; None for no bound of its own.

    Threads of a `ThreadPool` that the block submits to are bound as well. A block within another has the
    shorter bound.
    """
    own = _deadline.get() if seconds is None else (time.monotonic() + seconds, seconds)
    token = _deadline.set(min(own, _deadline.get()))
    try:
        yield
    finally:
        _deadline.reset(token)


def time_left(seconds: float | None = None) -> float | None:
    """Return `seconds`, or what is left of the bound of `within` if that is less, 0.001 at least."""
    rest = _deadline.get()[0] - time.monotonic()
    if rest == float("inf"):
        return seconds
    return max(0.001, rest if seconds is None else min(seconds, rest))


def timed_out(seconds: float | None) -> str:
    """Say of what had `time_left(seconds)`, and used it up, which of the two limits that was."""
    rest = time_left()
    is_bound = rest is not None and (seconds is None or rest < _AT_ONCE_SECONDS)
    return f"did not end within {_deadline.get()[1] if is_bound else seconds:g} s"


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
        is_final: Whether it must not be sent again, though the infrastructure failed: it may have arrived.
    """

    value: T | None = None
    failure: FailureKind | None = None
    problem: str = ""
    asked_wait: float | None = None
    rate_limited: bool = False
    received: bytes = b""
    block_reason: str | None = None
    delivered: bool = False
    is_final: bool = False

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


class Pace:
    """When requests to an account may be sent. All methods are safe to call from any thread.

    The first few go at once, and one more for each that was answered; those beyond follow one after the
    other, so that few of them meet a limit, however slow this machine or the provider is. After a refusal
    nothing is sent until the moment that the provider states, and then no faster than it took requests
    before, pause included. Answers make it faster again, slowly once that has led to a refusal.
    """

    FREE = 4
    """Requests in progress that need not wait, as long as nothing was answered or refused."""
    STAGGER_SECONDS = 0.25
    CLEAN = 32
    """Answers after which requests are not staggered any more."""
    UNSTATED_SECONDS = 1.0
    """Pause after a refusal that states none; doubles for each in a row."""
    _LEAST_SECONDS = 0.001
    _MARGIN, _FASTER, _MUCH_FASTER, _ROUND = 1.05, 0.97, 0.85, 10

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._epoch = 0
        """Number of pauses."""
        self._next = self._began = self._until = float("-inf")
        self._interval = 0.0
        self._in_progress = self._sent = self._answered = self._in_a_row = 0
        self._waiting: list[object] = []
        """A ticket of each request that waits, in order."""
        self._window = (0.0, 0)
        """Seconds up to the end of the last pause, and requests that were sent and not refused in them."""

    def wait_for_turn(self, wait: Callable[[float], bool]) -> int | None:
        """Wait until a request may be sent; None where `wait` returns True. Pass the result to `report`."""
        ticket = object()
        with self._lock:
            self._waiting.append(ticket)
        try:
            while True:
                # Each waking thread decides anew, so that a machine that was suspended sends no burst.
                with self._lock:
                    seconds = self._seconds_left(self._waiting.index(ticket))
                    if seconds < self._LEAST_SECONDS:
                        return self._start()
                if wait(seconds):
                    return None
        finally:
            with self._lock:
                self._waiting.remove(ticket)

    def _seconds_left(self, ahead: int) -> float:
        """Return for how long a request waits that has `ahead` others before it."""
        rest = self._next - self._clock()
        if self._epoch:
            return rest + ahead * self._interval
        if self._answered >= self.CLEAN or self._in_progress < self.FREE + self._answered:
            return 0.0
        return min(rest + ahead * self.STAGGER_SECONDS, self.STAGGER_SECONDS)  # or until answers come

    def _start(self) -> int:
        now = self._clock()
        if not self._sent and not self._epoch:
            self._began = now
        self._next = now + (self._interval if self._epoch else self.STAGGER_SECONDS)
        self._sent += 1
        self._in_progress += 1
        return self._epoch

    def report(self, epoch: int, *, refused: bool, asked_wait: float | None, chance: float) -> None:
        """Note the result of a request that was sent in `epoch`; `chance` (0 to 1) spreads what follows."""
        with self._lock:
            self._in_progress -= 1
            if not refused:
                self._answered += 1
                if epoch == self._epoch:
                    self._in_a_row = 0
                    if self._answered % self._ROUND == 0:
                        self._interval *= self._FASTER if self._epoch > 1 else self._MUCH_FASTER
                return
            now = self._clock()
            is_new = epoch == self._epoch
            if asked_wait is None:
                asked_wait = self.UNSTATED_SECONDS * 2 ** min(self._in_a_row, 6) if is_new else 0.0
            until = max(self._until, now + asked_wait)
            if is_new:
                self._window = (until - self._began, self._sent - 1)
                self._epoch, self._sent, self._answered = self._epoch + 1, 0, 0
                self._in_a_row += 1
            else:  # of the same burst
                self._window = (self._window[0] + until - self._until, self._window[1] - 1)
            measured = self._MARGIN * self._window[0] / max(1, self._window[1])
            known = self._interval
            if self._epoch == 1:
                self._interval = measured
            elif is_new:
                self._interval = min(max(measured, 1.1 * known), 1.5 * known)
            if is_new or until > self._until:
                self._next = until + chance * self._interval
                self._began = self._until = until


class AdaptiveLimit:
    """How many requests are sent at once: more while all places are taken and succeed, fewer after refusals.

    The rule of Inspect's adaptive connections (https://inspect.aisi.org.uk/parallelism.html): double after
    a clean round of as many successes as there are places until the first refusal, from then on add a
    twentieth; on a refusal take four fifths, once per wait that the provider asked for, and count no success
    meanwhile; grow only if at least four fifths of the places were taken. Other failures of the
    infrastructure restart the round. All runs of a process share one limit for each account at a provider:
    get it from `limit_of`. Any thread may use it.
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
        self.pace = Pace(clock)

    def current(self) -> int:
        """Return the current number of places."""
        return int(self._places)

    def take(self) -> bool:
        """Take a place; False if all are taken."""
        with self._lock:
            if self._in_use >= self.current():
                return False
            self._in_use += 1
            self._peak = max(self._peak, self._in_use)
            return True

    def give_back(self) -> None:
        """Return a place taken before."""
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
        limit: Says when requests of the account may be sent, and receives the result of each; None without
            an account.
        chance: Returns a number from 0 to 1, which spreads the retries of threads that failed together.
        wait: Waits for that many seconds; returns True if the run stopped meanwhile.
    """

    patience: Patience = PATIENCE
    stopping: threading.Event = field(default_factory=threading.Event)
    limit: AdaptiveLimit | None = None
    chance: Callable[[], float] = random.random
    wait: Callable[[float], bool] | None = None

    def __call__(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], int]:
        """Send until the infrastructure does not fail, or patience ends; return the number of repetitions."""
        waited, attempt, refusal = 0.0, 1, None
        while True:
            turn = 0 if self.limit is None else self.limit.pace.wait_for_turn(self._is_no_turn)
            if turn is None:
                problem = "was not asked: the provider refuses this account for longer than there is time"
                problem = problem if refusal is None else refusal.problem
                down = FailureKind.INFRASTRUCTURE
                return Reply(failure=down, problem=problem, rate_limited=True), attempt - 1
            sent = send()
            if self.limit is not None:
                refused, asked_wait = sent.rate_limited, sent.asked_wait
                self.limit.pace.report(turn, refused=refused, asked_wait=asked_wait, chance=self.chance())
                self.limit.report(failed=sent.is_infrastructure, refused=refused, asked_wait=asked_wait)
            if refusal is not None and sent.failure is FailureKind.TIMEOUT:  # it had what the waits left
                return replace(sent, failure=FailureKind.INFRASTRUCTURE, problem=refusal.problem), attempt - 1
            if not sent.is_infrastructure or sent.is_final or attempt >= self.patience.attempts:
                return sent, attempt - 1
            seconds = sent.asked_wait
            if seconds is None:
                seconds = backoff(attempt, self.patience, self.chance())
            waited += seconds
            if seconds > self.patience.longest_wait or waited > self.patience.total_wait:
                return sent, attempt - 1
            is_paced = self.limit is not None and sent.rate_limited
            if not is_paced and self._ends_before(seconds):
                return sent, attempt - 1
            attempt, refusal = attempt + 1, sent

    def _is_no_turn(self, seconds: float) -> bool:
        """Wait for the account's turn; True at once where it comes too late for anybody to wait for it."""
        return seconds > self.patience.total_wait or self._ends_before(seconds)

    def _ends_before(self, seconds: float) -> bool:
        """Wait; tell whether the run, or the time of the request, ended before that."""
        rest = time_left(seconds)
        if rest is not None and rest < seconds:
            return True
        return (self.wait or self.stopping.wait)(seconds)

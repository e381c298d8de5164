"""How far a run of an agent has come and what it has used, counted by the threads that do it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_eval.contracts import Outcome
from agent_eval.contracts.limits import RunLimits


@dataclass(frozen=True, slots=True)
class Standing:
    """A moment of a run.

    Attributes:
        total: Trials that the run has.
        done: Trials that are finished and on disk, those of an earlier start included.
        resumed: How many of them an earlier start had finished.
        passed: How many of them passed.
        errors: How many could not be evaluated: agent crashed, limit reached.
        in_flight: Trials that are being worked on.
        retries: Requests that were sent again.
        cost_usd: What is known to have been spent, in US dollars.
        unknown_cost: Finished trials whose cost nothing tells.
        seconds: Since this start.
        unit: What is counted; recorded traces are judged case by case.
    """

    total: int
    done: int = 0
    resumed: int = 0
    passed: int = 0
    errors: int = 0
    in_flight: int = 0
    retries: int = 0
    cost_usd: float = 0.0
    unknown_cost: int = 0
    seconds: float = 0.0
    unit: str = "trials"

    @property
    def failed(self) -> int:
        """Trials that are finished and neither passed nor errors."""
        return self.done - self.passed - self.errors

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this pace; None before the first trial of this start is done."""
        finished = self.done - self.resumed
        if not finished or not self.seconds:
            return None
        return (self.total - self.done) * self.seconds / finished


@dataclass
class Counter:
    """Counts finished trials; any thread may.

    Args:
        total: Trials that the run has.
    """

    total: int
    _standing: Standing = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._standing = Standing(self.total)

    def add(self, outcome: str, cost_usd: float | None, retries: int, *, resumed: bool = False) -> None:
        """Count a finished trial."""
        with self._lock:
            before = self._standing
            self._standing = replace(
                before,
                done=before.done + 1,
                resumed=before.resumed + resumed,
                passed=before.passed + (outcome == Outcome.PASSED.value),
                errors=before.errors + (outcome == Outcome.ERROR.value),
                retries=before.retries + retries,
                cost_usd=before.cost_usd + (cost_usd or 0.0),
                unknown_cost=before.unknown_cost + (cost_usd is None),
            )

    def standing(self, *, in_flight: int = 0, seconds: float = 0.0) -> Standing:
        """The moment."""
        with self._lock:
            return replace(self._standing, in_flight=in_flight, seconds=seconds)


@dataclass
class RunUse:
    """What a run has used, counted by many threads.

    Args:
        limits: The run's limits.
        clock: Seconds that only grow.
    """

    limits: RunLimits
    clock: Callable[[], float]
    cost_usd: float = 0.0
    unknown_cost: int = 0
    """Finished trials whose cost nothing tells."""
    _began: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def add(self, cost_usd: float | None) -> None:
        """Count a finished trial."""
        with self._lock:
            if cost_usd is None:
                self.unknown_cost += 1
            else:
                self.cost_usd += cost_usd

    def is_spent(self) -> bool:
        """Whether the limit of cost is reached."""
        return self.limits.cost_usd is not None and self.cost_usd >= self.limits.cost_usd

    def reached(self) -> str:
        """Which limit was reached, in words; empty while within both."""
        seconds, cost = self.limits.seconds, self.limits.cost_usd
        if seconds is not None and self.clock() - self._began >= seconds:
            return f"the run's time limit of {seconds:g} s is reached"
        if self.is_spent():
            return f"the run's cost limit of {cost:g} US dollars is reached ({self.cost_usd:.4g} spent)"
        return ""

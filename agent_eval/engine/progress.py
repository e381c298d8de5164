"""How far a run of an agent has come, counted by the threads that do it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from agent_eval.contracts import Outcome


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

"""Progress of a run and what it has used, counted by the threads that run trials."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_eval.contracts import Outcome
from agent_eval.contracts.execution import RunLimits


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Counts of a run at one moment. Callbacks named `on_progress` receive it.

    Attributes:
        done: Trials that are finished and on disk, including those of an earlier start.
        resumed: Trials of `done` that an earlier start finished.
        passed: Trials of `done` that passed.
        errors: Trials of `done` that could not be evaluated: the agent crashed, or reached a limit.
        damaged: Damaged records in the journal of an earlier start; their trials are run again.
        retries: Requests that were sent again.
        cost_usd: Known cost so far, in US dollars.
        unknown_cost: Finished trials whose cost is unknown.
        seconds: Time since this start.
        seconds_done: Time from this start to when `done` last grew, as far as it was looked at; None for now.
        unit: Name of what is counted: `trials`, or `cases` when recorded traces are judged.
        unanswered_calls: Tool calls that got no answer.
    """

    total: int
    done: int = 0
    resumed: int = 0
    damaged: int = 0
    passed: int = 0
    errors: int = 0
    in_flight: int = 0
    retries: int = 0
    cost_usd: float = 0.0
    unknown_cost: int = 0
    seconds: float = 0.0
    seconds_done: float | None = None
    unit: str = "trials"
    unanswered_calls: int = 0

    @property
    def failed(self) -> int:
        """Finished trials that are neither passed nor errors."""
        return self.done - self.passed - self.errors

    @property
    def seconds_left(self) -> float | None:
        """Estimated time until the end; None before the first trial of this start is done.

        It is estimated when a trial ends, and counts down until the next does.
        """
        finished = self.done - self.resumed
        if not finished or not self.seconds:
            return None
        took = self.seconds if self.seconds_done is None else self.seconds_done
        return max(0.0, (self.total - self.done) * took / finished - (self.seconds - took))


@dataclass
class Counter:
    """Counts finished trials. All methods are safe to call from any thread."""

    total: int
    _progress: RunProgress = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looked_at: tuple[int, float] = (0, 0.0)
    """Number of finished trials, and the seconds when it was first seen."""

    def __post_init__(self) -> None:
        self._progress = RunProgress(self.total)

    def add(
        self,
        outcome: str,
        cost_usd: float | None,
        retries: int,
        *,
        resumed: bool = False,
    ) -> None:
        """Count a finished trial."""
        with self._lock:
            before = self._progress
            self._progress = replace(
                before,
                done=before.done + 1,
                resumed=before.resumed + resumed,
                passed=before.passed + (outcome == Outcome.PASSED.value),
                errors=before.errors + (outcome == Outcome.ERROR.value),
                retries=before.retries + retries,
                cost_usd=before.cost_usd + (cost_usd or 0.0),
                unknown_cost=before.unknown_cost + (cost_usd is None),
            )

    def add_unanswered(self, calls: int) -> None:
        """Count tool calls without an answer."""
        if calls:
            with self._lock:
                before = self._progress
                self._progress = replace(before, unanswered_calls=before.unanswered_calls + calls)

    def progress(self, *, in_flight: int = 0, seconds: float = 0.0) -> RunProgress:
        """Return the counts so far."""
        with self._lock:
            progress = self._progress
            if progress.done != self._looked_at[0]:
                self._looked_at = progress.done, seconds
            return replace(progress, in_flight=in_flight, seconds=seconds, seconds_done=self._looked_at[1])


@dataclass
class RunUse:
    """Counts what a run has used against its limits. All methods are safe to call from any thread.

    `clock` returns seconds that never decrease.
    """

    limits: RunLimits
    clock: Callable[[], float]
    cost_usd: float = 0.0
    unknown_cost: int = 0
    """Number of finished trials whose cost is unknown."""
    largest: float | None = None
    """Largest known cost of a trial; 0 if costs are unknown, None before any trial has finished."""
    _began: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def add(self, cost_usd: float | None) -> None:
        """Count a finished trial."""
        with self._lock:
            self.largest = max(self.largest or 0.0, cost_usd or 0.0)
            if cost_usd is None:
                self.unknown_cost += 1
            else:
                self.cost_usd += cost_usd

    def most_at_once(self) -> int:
        """Return how many trials may be in progress, if each costs as much as the dearest so far.

        That is one until the first cost is seen. The last of them may exceed the limit, as one that is
        started alone may.
        """
        limit = self.limits.cost_usd
        if limit is None or self.largest == 0:
            return sys.maxsize
        if self.largest is None:
            return 1
        return max(1, math.ceil(min((limit - self.cost_usd) / self.largest, float(sys.maxsize // 2))))

    def is_spent(self) -> bool:
        """Tell whether the cost limit is reached."""
        return self.limits.cost_usd is not None and self.cost_usd >= self.limits.cost_usd

    def reached(self) -> str:
        """Describe the limit that was reached; an empty text if none was."""
        seconds, cost = self.limits.seconds, self.limits.cost_usd
        if seconds is not None and self.clock() - self._began >= seconds:
            return f"the run's time limit of {seconds:g} s is reached"
        if self.is_spent():
            return f"the run's cost limit of {cost:g} US dollars is reached ({self.cost_usd:.4g} spent)"
        return ""

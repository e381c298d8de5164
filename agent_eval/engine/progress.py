"""Progress of a run, and what it has used against its limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_eval.contracts import Outcome
from agent_eval.contracts.execution import RunLimits
from agent_eval.engine.usage import NO_COSTS, Costs


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
        costs: Known cost so far, in US dollars, by who spent it.
        unknown_cost: Finished trials whose cost is unknown, at least in part.
        seconds: Time since this start.
        ends_at: Seconds from this start to the estimated end; None before a wave of trials is done.
        unit: Name of what is counted: `trials`, or `cases` when recorded traces are judged.
        unanswered_calls: Tool calls that got no answer.
        notes: What the user must know at once, as sentences.
    """

    total: int
    done: int = 0
    resumed: int = 0
    damaged: int = 0
    passed: int = 0
    errors: int = 0
    in_flight: int = 0
    retries: int = 0
    costs: Costs = NO_COSTS
    unknown_cost: int = 0
    seconds: float = 0.0
    ends_at: float | None = None
    unit: str = "trials"
    unanswered_calls: int = 0
    notes: tuple[str, ...] = ()

    @property
    def cost_usd(self) -> float:
        """Known cost so far, all that was bought together."""
        return self.costs.total or 0.0

    @property
    def failed(self) -> int:
        """Finished trials that are neither passed nor errors."""
        return self.done - self.passed - self.errors

    @property
    def seconds_left(self) -> float | None:
        """Estimated time until the end; None before anything can be estimated."""
        return None if self.ends_at is None else max(0.0, self.ends_at - self.seconds)


@dataclass
class Counter:
    """Counts finished trials, in the thread that records them."""

    total: int
    _progress: RunProgress = field(init=False)
    _at_once: int = 1
    _estimated: tuple[int, float | None] = (0, None)
    """Number of trials that this start had finished at the last estimate, and `ends_at` by it."""

    def __post_init__(self) -> None:
        self._progress = RunProgress(self.total)

    def add(
        self, outcome: str, costs: Costs, *, retries: int = 0, unanswered: int = 0, resumed: bool = False
    ) -> None:
        """Count a finished trial."""
        before = self._progress
        self._progress = replace(
            before,
            done=before.done + 1,
            resumed=before.resumed + resumed,
            passed=before.passed + (outcome == Outcome.PASSED.value),
            errors=before.errors + (outcome == Outcome.ERROR.value),
            retries=before.retries + retries,
            costs=before.costs.plus(costs),
            unknown_cost=before.unknown_cost + bool(costs.unpriced),
            unanswered_calls=before.unanswered_calls + unanswered,
        )

    def progress(self, *, in_flight: int = 0, seconds: float = 0.0) -> RunProgress:
        """Return the counts so far.

        The end is estimated anew when as many trials have ended as run at once: those that began together end
        together, and of a part of them the estimate would be too late.
        """
        progress = self._progress
        finished, remaining = progress.done - progress.resumed, progress.total - progress.done
        self._at_once = max(self._at_once, in_flight)
        if finished and (not remaining or finished >= self._estimated[0] + self._at_once):
            self._estimated = finished, seconds + remaining * seconds / finished
        return replace(progress, in_flight=in_flight, seconds=seconds, ends_at=self._estimated[1])


@dataclass
class RunUse:
    """Counts what a run has used against its limits. All methods are safe to call from any thread.

    `clock` returns seconds that never decrease.
    """

    limits: RunLimits
    clock: Callable[[], float]
    cost_usd: float = 0.0
    priced: int = 0
    """Number of finished trials of which a cost is known."""
    finished: int = 0
    _began: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def add(self, cost_usd: float | None) -> None:
        """Count a finished trial."""
        with self._lock:
            self.finished += 1
            self.priced += cost_usd is not None
            self.cost_usd += cost_usd or 0.0

    @property
    def average(self) -> float:
        """What a trial costs on average, in US dollars; 0 while no cost is known."""
        return self.cost_usd / self.priced if self.priced else 0.0

    def may_start(self, in_progress: int) -> bool:
        """Tell whether a trial may begin beside those in progress, if each costs as much as the average.

        That is one alone until the first cost is seen.
        """
        limit = self.limits.cost_usd
        if limit is None:
            return True
        if not self.finished:
            return not in_progress
        return self.cost_usd + (in_progress + 1) * self.average <= limit * _ROUNDING

    def is_spent(self) -> bool:
        """Tell whether another trial would exceed the cost limit, or the limit is reached."""
        limit = self.limits.cost_usd
        if limit is None or not self.finished:
            return limit == 0
        return self.cost_usd >= limit or not self.may_start(0)

    @property
    def seconds_left(self) -> float | None:
        """Time until the run's limit; None without one."""
        limit = self.limits.seconds
        return None if limit is None else max(0.0, limit - (self.clock() - self._began))

    def reached(self) -> str:
        """Describe the limit that was reached; an empty text if none was."""
        if self.seconds_left == 0:
            return f"the run's time limit of {self.limits.seconds:g} s is reached"
        if not self.is_spent():
            return ""
        words = f"{COST_LIMIT} of {self.limits.cost_usd:g} US dollars is reached"
        another = (
            "" if self.cost_usd >= (self.limits.cost_usd or 0) else f", and a trial costs {self.average:.4g}"
        )
        return f"{words} ({self.cost_usd:.4g} spent{another})"


COST_LIMIT = "the run's cost limit"
"""How the reason of a run begins that its limit of cost ended."""
_ROUNDING = 1 + 1e-9
"""Three times 0.1 are not more than 0.3."""

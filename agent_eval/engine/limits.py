"""What a trial and a whole run may use, and what they have used.

Reaching a limit of a trial is a verdict on its case; reaching one of the run stops it cleanly. A figure
that is not known is never taken for 0: where a limit needs it, that is said.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_eval.agents.recorder import TOOL_ANSWER_SOURCE
from agent_eval.contracts import Case, Trace
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind
from agent_eval.judges.cost_budget import published_price
from agent_eval.judges.usage import spent


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """What one trial of a case may use, all its attempts together; None is without limit.

    Attributes:
        seconds: Time in the agent's hands; waiting in our own queue or for a retry is not counted.
        steps: Events of the agent: its messages and tool calls.
        tool_calls: Calls of tools.
        tokens: Input and output tokens.
        cost_usd: US dollars, recorded or by published prices.
    """

    seconds: float | None = None
    steps: int | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The limits that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


_SAYS_NOTHING_OF_USE = frozenset({TOOL_ANSWER_SOURCE})
"""Attributes that most events of tools have. Looking for tokens and cost takes longer than all the rest."""


@dataclass(slots=True)
class TrialUse:
    """What a trial has used so far. Tokens and cost are None while nothing says."""

    seconds: float = 0.0
    steps: int = 0
    tool_calls: int = 0
    tokens: float | None = None
    cost_usd: float | None = None

    def add(self, case: Case, trace: Trace, seconds: float) -> None:
        """Add an attempt.

        Args:
            case: The case without what earlier attempts recorded.
            trace: The attempt's events.
            seconds: How long the agent took.
        """
        self.seconds += seconds
        self.steps += sum(event.is_agent and event.type != TOOL_RESULT for event in trace.events)
        self.tool_calls += sum(event.type == TOOL_CALL for event in trace.events)
        if any(not _SAYS_NOTHING_OF_USE.issuperset(event.attributes) for event in trace.events):
            used = spent(case, trace, published_price)
            tokens = [count for count in (used.input_tokens, used.output_tokens) if count is not None]
            if tokens:
                self.tokens = (self.tokens or 0) + sum(tokens)
            if used.cost_usd is not None or used.known_cost_usd:
                self.cost_usd = (self.cost_usd or 0.0) + (used.cost_usd or used.known_cost_usd)

    def reached(self, limits: TrialLimits) -> tuple[FailureKind, str] | None:
        """The first limit that was passed, as failure and words; None while within all."""
        for name, unit in _UNITS.items():
            limit, used = getattr(limits, name), getattr(self, name)
            if limit is not None and used is not None and used > limit:
                kind = FailureKind.TIMEOUT if name == "seconds" else FailureKind.BUDGET_EXCEEDED
                return kind, f"used {used:.6g} {unit}, more than the {limit:.6g} that a case may take"
        return None

    def is_spent(self, limits: TrialLimits) -> bool:
        """Whether nothing is left for another attempt."""
        return any(
            (limit := getattr(limits, name)) is not None
            and (used := getattr(self, name)) is not None
            and used >= limit
            for name in _UNITS
        )


_UNITS = {
    "seconds": "seconds",
    "steps": "steps",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "cost_usd": "US dollars",
}


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What a whole run may use; None is without limit. They change no verdict, only where a run stops."""

    seconds: float | None = None
    cost_usd: float | None = None


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

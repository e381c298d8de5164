"""What a trial has used so far, and which of its limits that exceeds."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.agents.recorder import TOOL_ANSWER_SOURCE
from agent_eval.contracts import Case, Event, Trace, TrialLimits
from agent_eval.contracts.trace import TOOL_CALL
from agent_eval.errors import FailureKind
from agent_eval.judges.builtin.cost_budget import published_price, spent

_NO_USE = frozenset({TOOL_ANSWER_SOURCE})
"""Attributes without tokens and cost. Most events of tools have only these; searching them would be slow."""


@dataclass(slots=True)
class TrialUse:
    """What a trial has used so far. Tokens and cost are None while unknown."""

    seconds: float = 0.0
    steps: int = 0
    tool_calls: int = 0
    tokens: float | None = None
    cost_usd: float | None = None

    def add(self, case: Case, trace: Trace, seconds: float) -> None:
        """Add an attempt.

        `case` is without what earlier attempts recorded; `seconds` is the time that the agent took.
        """
        self.seconds += seconds
        self.steps += sum(event.type == TOOL_CALL or event.is_message for event in trace.events)
        self.tool_calls += sum(event.type == TOOL_CALL for event in trace.events)
        if any(_may_have_use(event) for event in trace.events):
            used = spent(case, trace, published_price)
            counts = [used.figures["input_tokens"], used.figures["output_tokens"]]
            if tokens := [number for number in counts if number is not None]:
                self.tokens = (self.tokens or 0) + sum(tokens)
            if used.figures["cost_usd"] is not None or used.known["cost_usd"]:
                self.cost_usd = (self.cost_usd or 0.0) + float(used.known["cost_usd"])

    def reached(self, limits: TrialLimits) -> tuple[FailureKind, str] | None:
        """Return the first limit that was exceeded, as failure and words; None if none was."""
        for name, unit in _UNITS.items():
            limit, used = getattr(limits, name), getattr(self, name)
            if limit is not None and used is not None and used > limit:
                kind = FailureKind.TIMEOUT if name == "seconds" else FailureKind.BUDGET_EXCEEDED
                return kind, f"used {used:.6g} {unit}, more than the {limit:.6g} that a case may take"
        return None

    def is_spent(self, limits: TrialLimits) -> bool:
        """Tell whether a limit leaves nothing for another attempt."""
        return any(
            (limit := getattr(limits, name)) is not None
            and (used := getattr(self, name)) is not None
            and used >= limit
            for name in _UNITS
        )


def _may_have_use(event: Event) -> bool:
    return event.usage is not None or event.cost_usd is not None or not _NO_USE.issuperset(event.attributes)


_UNITS = {
    "seconds": "seconds",
    "steps": "steps",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "cost_usd": "US dollars",
}

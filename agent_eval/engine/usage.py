"""What trials use, against their limits, and what they are lost to: when a run has an outage.

A trial that is lost through no fault of the agent is an error, and no run repeats it: that would raise a rate
p to p + (1 - p)p. Only a run that is resumed, as after an outage, runs what was lost before again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.agents.recorder import TOOL_ANSWER_SOURCE
from agent_eval.contracts import Case, Event, Outcome, Trace, TrialLimits
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.trace import TOOL_CALL
from agent_eval.contracts.verdict import EXECUTION, TrialResult
from agent_eval.errors import FailureKind, Fault
from agent_eval.judges.builtin.cost_budget import published_price, spent
from agent_eval.text.escape import one_line

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


OUTAGE = 5
"""Trials lost in a row from which a run has an outage; as many as run at once, where those are more.

Of runs of 1,000 trials that lose each with a chance of 5 %, one in 3,400 is stopped without an outage:
0.05**5 * 0.95 * 1000.
"""

_REASON_LIMIT = 300
_UNSCORED = (Outcome.ERROR, Outcome.INCONCLUSIVE)

Loss = tuple[Fault, str]
"""What a trial was lost to, and the reason as a sentence."""


def loss_of(result: TrialResult) -> Loss | None:
    """Tell what a trial was lost to; None where it says something of the agent."""
    if not result.is_lost or result.fault is None:
        return None
    unscored = [verdict for verdict in result.verdicts if verdict.outcome in _UNSCORED]
    # How the agent's attempt ended comes first: what judges miss follows from it.
    unscored.sort(key=lambda verdict: (verdict.judge_id != EXECUTION, verdict.outcome is not Outcome.ERROR))
    return result.fault, one_line(unscored[0].reason, limit=_REASON_LIMIT)


def is_repeated(result: TrialResult, events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a resumed run repeats a trial: it is lost, and no hard judge failed what the agent did.

    The trial in its place would take that verdict out of the evidence.
    """
    if not result.is_lost:
        return False
    failed = any(verdict.hard and verdict.outcome is Outcome.FAILED for verdict in result.verdicts)
    return not failed or not Trace([Event.model_validate(event, context=EARLIER) for event in events]).has_act


class Outage:
    """Watches the trials of a run, in whichever thread they end.

    `most` lost trials in a row are an outage.
    """

    def __init__(self, most: int = OUTAGE) -> None:
        self._most = most
        self._in_a_row: list[Loss] = []
        self._lock = threading.Lock()
        self.in_words = ""
        """Why the run must stop, as a clause; empty as long as it need not."""

    def see(self, loss: Loss | None) -> None:
        """Count a trial that has ended."""
        with self._lock:
            if loss is None:
                self._in_a_row.clear()
                return
            self._in_a_row.append(loss)
            if len(self._in_a_row) >= self._most and not self.in_words:
                [(fault, _)] = Counter(fault for fault, _ in self._in_a_row).most_common(1)
                reason = next(reason for other, reason in self._in_a_row if other is fault)
                self.in_words = (
                    f"{len(self._in_a_row)} trials in a row were lost to the {fault.value} "
                    f"({reason.rstrip('.')})"
                )

"""What trials use, against their limits, and what they are lost to: when a run has an outage.

A trial that is lost through no fault of the agent is an error, and no run repeats it: that would raise a rate
p to p + (1 - p)p. Only a run that is resumed, as after an outage, runs what was lost before again.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from agent_eval.agents.recorder import TOOL_ANSWER_SOURCE
from agent_eval.contracts import Case, Event, Outcome, Trace, TrialLimits
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.conversation import conversation_end
from agent_eval.contracts.trace import TOOL_CALL
from agent_eval.contracts.verdict import EXECUTION, JUDGING, TrialResult
from agent_eval.errors import FailureKind, Fault
from agent_eval.judges.builtin.cost_budget import UNNAMED, Usage, published_price, spent
from agent_eval.models.usage import Prices, figure_of, own_price
from agent_eval.text.escape import one_line

Price = Callable[[Usage], Fraction | None]
"""Prices the tokens of an answer in US dollars; None where the price is unknown."""

_NO_USE = frozenset({TOOL_ANSWER_SOURCE})
"""Attributes without tokens and cost. Most events of tools have only these; searching them would be slow."""


AGENT, JUDGES, USERS = "agent", "judges", "simulated_users"
"""Who spends the money of a trial."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What a trial cost in US dollars, as far as it is known.

    Attributes:
        agent: None while unknown.
        unpriced: Whose cost is unknown, at least in part, with the name of the model; empty for no model.
    """

    agent: float | None = None
    judges: float = 0.0
    simulated_users: float = 0.0
    unpriced: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> float | None:
        """All that is known; None where nothing is."""
        others = self.judges + self.simulated_users
        return others or None if self.agent is None else self.agent + others

    def to_json(self) -> dict[str, float | None]:
        """Return the cost of each who spends, without the models."""
        return {AGENT: self.agent, JUDGES: self.judges, USERS: self.simulated_users}

    def plus(self, other: Costs) -> Costs:
        """Add the costs of another trial."""
        agent = self.agent if other.agent is None else (self.agent or 0.0) + other.agent
        users = self.simulated_users + other.simulated_users
        return Costs(agent, self.judges + other.judges, users, {**self.unpriced, **other.unpriced})

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Costs:
        """Read the costs from a trial's record in the journal; earlier versions knew the agent's alone."""
        stated = record.get(COSTS)
        if not isinstance(stated, Mapping):
            return cls(record["cost_usd"])
        agent, judges, users = (figure_of(stated.get(who)) for who in (AGENT, JUDGES, USERS))
        models = stated.get("unpriced")
        unpriced = {str(who): str(model) for who, model in models.items()} if isinstance(models, dict) else {}
        return cls(agent, judges or 0.0, users or 0.0, unpriced)


NO_COSTS = Costs()
COSTS = "costs"
"""Key of a record in the journal: the fields of `Costs`."""


def priced(prices: Prices, usage: Usage) -> Fraction | None:
    """Price the tokens of an answer by the user's own prices, else by published ones; None if unknown."""
    own = own_price(usage.model or "", usage.figures, prices)
    return published_price(usage) if own is None else own


@dataclass(slots=True)
class TrialUse:
    """What a trial has used so far; tokens are None while unknown."""

    seconds: float = 0.0
    steps: int = 0
    tool_calls: int = 0
    tokens: float | None = None
    costs: Costs = field(default_factory=Costs)

    @property
    def cost_usd(self) -> float | None:
        """What the trial cost, all that it bought together; None while unknown."""
        return self.costs.total

    def add(self, case: Case, trace: Trace, seconds: float, price: Price = published_price) -> None:
        """Add an attempt, but for its judging.

        `case` is without what earlier attempts recorded; `seconds` is the time that the agent took; `price`
        prices tokens whose cost is not recorded.
        """
        self.seconds += seconds
        self.steps += sum(event.type == TOOL_CALL or event.is_message for event in trace.events)
        self.tool_calls += sum(event.type == TOOL_CALL for event in trace.events)
        used = None
        if any(
            event.usage is not None or event.cost_usd is not None or not _NO_USE.issuperset(event.attributes)
            for event in trace.events
        ):
            used = spent(case, trace, price)
            counts = [used.figures["input_tokens"], used.figures["output_tokens"]]
            if tokens := [number for number in counts if number is not None]:
                self.tokens = (self.tokens or 0) + sum(tokens)
            if used.figures["cost_usd"] is not None or used.known["cost_usd"]:
                cost = (self.costs.agent or 0.0) + float(used.known["cost_usd"])
                self.costs = replace(self.costs, agent=cost)
        if used is None or used.figures["cost_usd"] is None:
            named = [name for name in used.unpriced if name != UNNAMED] if used is not None else []
            self._add_unpriced(AGENT, named[0] if named else "")
        end = conversation_end(trace)
        if end is not None and (simulator := end.simulator):
            cost = self.costs.simulated_users + (figure_of(simulator.get("cost_usd")) or 0.0)
            self.costs = replace(self.costs, simulated_users=cost)
            if simulator.get("unpriced"):
                self._add_unpriced(USERS, str(simulator.get("model")))

    def add_judging(self, result: TrialResult) -> None:
        """Add what judging an attempt cost."""
        for verdict in result.verdicts:
            if isinstance(judging := verdict.evidence.get(JUDGING), Mapping):
                cost = self.costs.judges + (figure_of(judging.get("cost_usd")) or 0.0)
                self.costs = replace(self.costs, judges=cost)
                if judging.get("unpriced"):
                    judge = verdict.evidence.get("judge")
                    self._add_unpriced(JUDGES, str(judge.get("model")) if isinstance(judge, Mapping) else "")

    def _add_unpriced(self, who: str, model: str) -> None:
        self.costs = replace(self.costs, unpriced={**self.costs.unpriced, who: model})

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

_TOO_MANY_REQUESTS = re.compile(r"HTTP (?:429|529)\b")
_ADAPT = "that is the limit of requests of this account, to which --parallel auto adapts"
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
    reason = unscored[0].reason
    if result.fault is Fault.JUDGE:
        # Of a criterion, whose text stands before it, the problem alone.
        _, model, problem = reason.partition("the judge's model")
        reason = f"judge `{unscored[0].judge_id}`: {f'{model}{problem}' or reason}"
    return result.fault, one_line(reason, limit=_REASON_LIMIT)


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
                adapts = f"; {_ADAPT}" if _TOO_MANY_REQUESTS.search(reason) else ""
                self.in_words = (
                    f"{len(self._in_a_row)} trials in a row were lost to the {fault.value} "
                    f"({reason.rstrip('.')}){adapts}"
                )

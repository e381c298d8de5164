"""The `cost_budget` judge: hold a case to limits on tokens and money.

Recorded usage is counted once, and tokens are priced where no cost is recorded. Costs are added as decimals,
so that three times 0.10 is 0.30. What is known in part is not a total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from pydantic import Field
from typing_extensions import override

from agent_eval.contracts import Case, Event, Trace, Verdict
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge, SoftJudgeConfig, listed, quoted
from agent_eval.judges.matching.values import exact
from agent_eval.models.usage import NEWEST, price_of, priced_counts


class CostBudgetConfig(SoftJudgeConfig):
    """Limits on tokens and cost. A limit that is not set is not checked; equal to the limit is within it."""

    max_input_tokens: int | None = Field(default=None, ge=0)
    """Tokens sent to models, cached ones included."""
    max_output_tokens: int | None = Field(default=None, ge=0)
    """Tokens in the models' answers."""
    max_total_tokens: int | None = Field(default=None, ge=0)
    """Input and output tokens together."""
    max_cost_usd: float | None = Field(default=None, ge=0)
    """US dollars."""
    input_cost_per_1k: float | None = Field(default=None, ge=0)
    """US dollars for 1,000 input tokens of any model; replaces published prices."""
    output_cost_per_1k: float | None = Field(default=None, ge=0)
    """US dollars for 1,000 output tokens of any model; replaces published prices."""


class CostBudgetJudge(BaseJudge[CostBudgetConfig]):
    """Compares tokens and cost of a case with limits.

    Figures come from event attributes and the case's metadata; usage repeated for one answer counts
    once (`spent`). If no cost is recorded, the judge prices the tokens: by the configured prices if
    both are set, else by those that `genai-prices` publishes for the model and day. A figure that has a
    limit and is unknown is an error verdict, never 0. The score is the share of limits kept.
    """

    judge_id = "cost_budget"
    reads = frozenset()
    needs_all = False
    Config = CostBudgetConfig

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        limits = {
            name: limit for name in _LIMITED if (limit := getattr(self.config, f"max_{name}")) is not None
        }
        if not limits:
            return self.skipped(case, "no cost or token budget is configured")
        used = spent(case, trace, self._price if "cost_usd" in limits else lambda _: None)
        # A figure known in part can already be too much.
        exceeded = [name for name, limit in limits.items() if used.known[name] > exact(limit)]
        figures = {**used.figures}
        figures |= {name: float(used.known[name]) for name in exceeded if figures[name] is None}
        unknown = [name for name in limits if figures[name] is None]
        evidence = {**figures, "tokens_from": used.tokens_from, "cost_from": used.cost_from}
        if unknown and not exceeded:
            words = f"{listed(unknown)} unknown, so the budget cannot be checked"
            if "cost_usd" in unknown and used.unpriced:
                models = listed(quoted(model) for model in dict.fromkeys(used.unpriced))
                words += f": no cost is recorded and there is no price for {models}"
            elif used.known["total_tokens"]:
                words += ": the trace does not record it for every answer"
            else:
                words += ": the trace records no usage"
            return self.error(case, words, FailureKind.MISSING_OUTPUT, evidence=evidence)
        named, relation = (exceeded, "exceeds") if exceeded else (list(limits), "of")
        words = listed(
            f"{name} {_figure(figures[name])} {relation} {_figure(limits[name])}" for name in named
        )
        cost_from = used.cost_from if used.cost_from != "unknown" else "known in part"
        sources = [f"cost: {cost_from}"] if "cost_usd" in named else []
        sources += [f"tokens: {used.tokens_from}"] if set(named) - {"cost_usd"} else []
        words = f"{words} ({', '.join(sources)})"
        if not exceeded:
            return self.passed(case, words, evidence=evidence)
        score = 1 - len(exceeded) / len(limits)
        return self.failed(case, words, FailureKind.BUDGET_EXCEEDED, score=score, evidence=evidence)

    def _price(self, usage: Usage) -> Fraction | None:
        per_input, per_output = self.config.input_cost_per_1k, self.config.output_cost_per_1k
        if per_input is not None and per_output is not None:
            of_input = exact(usage.figures.get("input_tokens", 0)) * exact(per_input)
            return (of_input + exact(usage.figures.get("output_tokens", 0)) * exact(per_output)) / 1000
        return published_price(usage)


UNNAMED = "an unnamed model"
_TOKENS = ("input_tokens", "output_tokens")
_LIMITED = (*_TOKENS, "total_tokens", "cost_usd")


def _figure(value: float | None) -> str:
    return f"{value:.6g}" if isinstance(value, float) and not value.is_integer() else f"{value or 0:.0f}"


@dataclass(slots=True)
class Usage:
    """Usage of one answer of a model: its known figures by name, counts of tokens and US dollars."""

    figures: dict[str, float] = field(default_factory=dict)
    model: str | None = None
    at: str | None = None

    @property
    def token_counts(self) -> int:
        """How many of its two token counts are known. With one of them the price is only a lower bound."""
        return sum(name in self.figures for name in _TOKENS)

    def absorb(self, other: Usage) -> None:
        """Merge another record of the same answer, keeping the larger figures: they grow during streaming."""
        for name, figure in other.figures.items():
            self.figures[name] = max(self.figures.get(name, figure), figure)
        self.model, self.at = other.model or self.model, self.at or other.at


def published_price(usage: Usage) -> Fraction | None:
    """Price tokens in US dollars by `genai-prices` of that day; None for a model that it does not know."""
    if not usage.model:
        return None
    tokens = {name: int(value) for name, value in usage.figures.items() if name != "cost_usd"}
    try:
        at = datetime.fromisoformat(usage.at or "")
    except ValueError:
        at = NEWEST
    return price_of(usage.model, tokens, at if at.tzinfo else at.replace(tzinfo=UTC))


@dataclass(slots=True)
class Spent:
    """Totals of a case with their source in words.

    `figures` are input, output and total tokens and cost in US dollars; None is unknown, never 0. `known` is
    what is known of each, even if the total is not. `unpriced` names models (or "an unnamed model") whose
    cost is neither recorded nor known.
    """

    figures: dict[str, float | None]
    known: dict[str, Fraction]
    tokens_from: str
    cost_from: str = "unknown"
    unpriced: list[str] = field(default_factory=list)


def spent(case: Case, trace: Trace, price: Callable[[Usage], Fraction | None]) -> Spent:
    """Add up tokens and cost of a case.

    Usage that several events repeat for one answer (same response id, or same span) counts once.
    Totals in the case's metadata (`usage` or `token_usage`, `cost_usd`) apply if events record nothing,
    and if they are larger, because a trace may leave answers out. A count that some of the answers lack has
    no total, because the sum of the others is too small. `price` prices the tokens of an answer in US
    dollars; None if the price is unknown.
    """
    answers = _answers(trace.events)
    stated = _read_usage(case.metadata)
    for name in ("usage", "token_usage"):
        if isinstance(nested := case.metadata.get(name), Mapping):
            stated.absorb(_read_usage(nested))
    figures: dict[str, float | None] = {}
    known: dict[str, Fraction] = {}
    sources = set()
    for name in _TOKENS:
        counts = [answer.figures.get(name) for answer in answers if answer.token_counts]
        recorded = [number for number in counts if number is not None]
        from_events = sum(recorded) if recorded else None
        from_metadata = stated.figures.get(name)
        if from_metadata is not None and (from_events is None or from_metadata > from_events):
            figures[name] = from_metadata
            sources.add("metadata")
        else:
            figures[name] = None if None in counts else from_events
            sources.update([] if from_events is None else ["events"])
        known[name] = exact(max(from_events or 0, from_metadata or 0))
    numbers = [figures[name] for name in _TOKENS]
    figures["total_tokens"] = None if None in numbers else sum(number or 0 for number in numbers)
    known["total_tokens"] = known["input_tokens"] + known["output_tokens"]
    total = Spent(figures, known, " and ".join(sorted(sources)) or "unknown")
    # The cost: as it is recorded for each answer, else by its tokens.
    sources, is_whole = set(), True
    sum_of_known = Fraction(0)
    for answer in answers or [stated]:
        cost: Fraction | None = None
        if "cost_usd" in answer.figures:
            cost = exact(answer.figures["cost_usd"])
            sources.add("recorded")
        elif answer.token_counts:
            answer.model = answer.model or stated.model
            cost = price(answer)
            if cost is None:
                total.unpriced.append(answer.model or UNNAMED)
            elif answer.token_counts == len(_TOKENS):
                sources.add("priced from tokens")
            else:
                is_whole = False
        sum_of_known += cost or 0
    if "cost_usd" in stated.figures and exact(stated.figures["cost_usd"]) >= sum_of_known:
        sum_of_known, sources = exact(stated.figures["cost_usd"]), {"metadata"}
        total.unpriced, is_whole = [], True
    is_known = bool(sources) and not total.unpriced and is_whole
    total.known["cost_usd"] = sum_of_known
    total.figures["cost_usd"] = float(sum_of_known) if is_known else None
    if is_known:
        total.cost_from = " and ".join(sorted(sources))
    return total


_RESPONSE_NAMES = ("gen_ai.response.id", "response_id", "message_id")
"""Attributes that identify the model's answer to which an event belongs."""


def _answers(events: Iterable[Event]) -> list[Usage]:
    """Read the usage of each answer: from an event's own fields, and what they leave out from attributes."""
    answers: dict[Any, Usage] = {}
    for event in events:
        attributes = event.attributes
        usage = _read_usage(attributes)
        if (own := event.usage) is not None:
            # One record: its figures are not mixed with those of another.
            cost = {"cost_usd": usage.figures["cost_usd"]} if "cost_usd" in usage.figures else {}
            usage.figures = priced_counts(own) | cost
        if event.cost_usd is not None:
            usage.figures["cost_usd"] = event.cost_usd
        if not usage.token_counts and "cost_usd" not in usage.figures:
            continue
        usage.model, usage.at = event.model or usage.model, event.ts
        response = next((attributes[name] for name in _RESPONSE_NAMES if attributes.get(name)), None)
        key = ("response", str(response)) if response else ("span", event.span_id or f"event {event.idx}")
        if key in answers:
            answers[key].absorb(usage)
        else:
            answers[key] = usage
    return list(answers.values())


_NAMES = {
    "input_tokens": "gen_ai.usage.input_tokens usage.input_tokens input_tokens prompt_tokens",
    "output_tokens": "gen_ai.usage.output_tokens usage.output_tokens output_tokens completion_tokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens cache_read_input_tokens cache_read_tokens",
    "cache_write_tokens": (
        "gen_ai.usage.cache_creation.input_tokens cache_creation_input_tokens cache_write_tokens"
    ),
    "cost_usd": "cost_usd gen_ai.usage.cost usage.cost_usd",
}
"""The names under which recorders write each figure, best first."""

_MODEL_NAMES = ("gen_ai.response.model", "gen_ai.request.model", "model")


def _read_usage(source: Mapping[str, Any]) -> Usage:
    if not source:
        return Usage()
    usage = Usage(
        model=next((source[name] for name in _MODEL_NAMES if isinstance(source.get(name), str)), None)
    )
    for figure, names in _NAMES.items():
        for name in names.split():
            value = source.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
                usage.figures[figure] = value
                break
    return usage

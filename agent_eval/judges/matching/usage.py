"""Add up tokens and cost of a case: recorded usage, counted once, and prices where no cost is recorded.

Costs are added as decimals, so that three times 0.10 is 0.30. What is known in part is not a total.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from agent_eval.contracts import Case, Event, Trace
from agent_eval.judges.matching.decimals import exact

INPUT_NAMES = ("gen_ai.usage.input_tokens", "usage.input_tokens", "input_tokens", "prompt_tokens")
OUTPUT_NAMES = ("gen_ai.usage.output_tokens", "usage.output_tokens", "output_tokens", "completion_tokens")
CACHE_READ_NAMES = ("gen_ai.usage.cache_read.input_tokens", "cache_read_input_tokens", "cache_read_tokens")
CACHE_WRITE_NAMES = (
    "gen_ai.usage.cache_creation.input_tokens",
    "cache_creation_input_tokens",
    "cache_write_tokens",
)
COST_NAMES = ("cost_usd", "gen_ai.usage.cost", "usage.cost_usd")
MODEL_NAMES = ("gen_ai.response.model", "gen_ai.request.model", "model")
RESPONSE_NAMES = ("gen_ai.response.id", "response_id", "message_id")
"""Attributes that identify the model's answer to which an event belongs."""


@dataclass(slots=True)
class Usage:
    """Usage of one answer of a model. Tokens are counts, cost is in US dollars; None is unknown."""

    input_tokens: float | None = None
    output_tokens: float | None = None
    cache_read_tokens: float | None = None
    cache_write_tokens: float | None = None
    cost_usd: float | None = None
    model: str | None = None
    at: str | None = None

    @property
    def has_tokens(self) -> bool:
        """Whether any token count is known."""
        return self.input_tokens is not None or self.output_tokens is not None

    @property
    def has_all_tokens(self) -> bool:
        """Whether both token counts are known. With one of them the price is only a lower bound."""
        return self.input_tokens is not None and self.output_tokens is not None

    def absorb(self, other: Usage) -> None:
        """Merge another record of the same answer, keeping the larger figures: they grow during streaming."""
        for name in _FIGURES:
            own_figure, other_figure = getattr(self, name), getattr(other, name)
            if other_figure is not None:
                setattr(self, name, other_figure if own_figure is None else max(own_figure, other_figure))
        self.model = other.model or self.model
        self.at = self.at or other.at


_FIGURES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd")


@dataclass(slots=True)
class Spent:
    """Totals of a case with their source in words. None is unknown, never 0.

    `unpriced` names models (or "an unnamed model") whose cost is neither recorded nor known.
    `half_counted` names those with only one of the two token counts.
    `known_cost_usd` is the part of the cost that is known even if the total is not, and `known_tokens` are
    such parts of the token counts, by name.
    """

    input_tokens: float | None = None
    output_tokens: float | None = None
    cost_usd: float | None = None
    known_cost_usd: Fraction = Fraction(0)
    known_tokens: dict[str, float] = field(default_factory=dict)
    tokens_from: str = "unknown"
    cost_from: str = "unknown"
    unpriced: list[str] = field(default_factory=list)
    half_counted: list[str] = field(default_factory=list)


Price = Callable[[Usage], Fraction | None]
"""Function that prices a model's known tokens in US dollars; None if the price is unknown."""


def spent(case: Case, trace: Trace, price: Price) -> Spent:
    """Add up tokens and cost of a case.

    Usage that several events repeat for one answer (same response id, or same span) counts once.
    Totals in the case's metadata (`usage` or `token_usage`, `cost_usd`) apply if events record nothing,
    and if they are larger, because a trace may leave answers out. A count that some of the answers lack has
    no total, because the sum of the others is too small.
    """
    answers = list(_answers(trace.events))
    in_metadata = _usage_in_metadata(case)
    total = Spent()
    sources = set()
    for name in ("input_tokens", "output_tokens"):
        with_tokens = [getattr(answer, name) for answer in answers if answer.has_tokens]
        known = [figure for figure in with_tokens if figure is not None]
        from_events = sum(known) if known else None
        from_metadata = getattr(in_metadata, name)
        if from_metadata is not None and (from_events is None or from_metadata > from_events):
            setattr(total, name, from_metadata)
            sources.add("metadata")
        elif from_events is not None:
            setattr(total, name, None if None in with_tokens else from_events)
            sources.add("events")
        total.known_tokens[name] = max(from_events or 0, from_metadata or 0)
    total.tokens_from = " and ".join(sorted(sources)) or total.tokens_from
    _add_cost(total, answers, in_metadata, price)
    return total


def _add_cost(total: Spent, answers: list[Usage], in_metadata: Usage, price: Price) -> None:
    sources = set()
    for answer in answers or [in_metadata]:
        cost = None if answer.cost_usd is None else exact(answer.cost_usd)
        if cost is not None:
            sources.add("recorded")
        elif answer.has_tokens:
            answer.model = answer.model or in_metadata.model
            cost = price(answer)
            if cost is None:
                total.unpriced.append(answer.model or "an unnamed model")
            elif not answer.has_all_tokens:
                total.half_counted.append(answer.model or "an unnamed model")
            else:
                sources.add("priced from tokens")
        total.known_cost_usd += cost or 0
    if in_metadata.cost_usd is not None and exact(in_metadata.cost_usd) >= total.known_cost_usd:
        total.known_cost_usd, sources = exact(in_metadata.cost_usd), {"metadata"}
        total.unpriced, total.half_counted = [], []
    if sources and not total.unpriced and not total.half_counted:
        total.cost_usd = float(total.known_cost_usd)
        total.cost_from = " and ".join(sorted(sources))


def moment(text: str | None) -> datetime:
    """Parse the time at which tokens were used, for the price of that day; unknown means the newest price."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return datetime(9999, 1, 1, tzinfo=UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _answers(events: Iterable[Event]) -> Iterable[Usage]:
    answers: dict[Any, Usage] = {}
    before: Usage | None = None
    for event in events:
        usage = _usage_of(event)
        if not usage.has_tokens and usage.cost_usd is None:
            continue
        usage.at = event.ts
        response = next(
            (event.attributes[name] for name in RESPONSE_NAMES if event.attributes.get(name)), None
        )
        key = ("response", str(response)) if response else ("span", event.span_id or f"event {event.idx}")
        is_anonymous = not response and not event.span_id
        if key in answers:
            answers[key].absorb(usage)
        elif is_anonymous and before is not None and _complete_each_other(before, usage):
            before.absorb(usage)
        else:
            answers[key] = usage
        before = answers.get(key) if is_anonymous else None
    return answers.values()


def _complete_each_other(before: Usage, usage: Usage) -> bool:
    """Tell whether one has only the input and the other only the output of what must be the same answer."""
    return (
        before.has_tokens
        and usage.has_tokens
        and all(
            (getattr(before, name) is None) != (getattr(usage, name) is None)
            for name in ("input_tokens", "output_tokens")
        )
    )


def _usage_in_metadata(case: Case) -> Usage:
    metadata = case.metadata
    usage = _read_usage(metadata)
    for name in ("usage", "token_usage"):
        nested = metadata.get(name)
        if isinstance(nested, Mapping):
            usage.absorb(_read_usage(nested))
    return usage


def _usage_of(event: Event) -> Usage:
    """Read an event's usage from its own fields, and what they leave out from its attributes."""
    recorded = _read_usage(event.attributes)
    own = event.usage
    if own is not None:
        # One record: its figures are not mixed with those of another.
        recorded.input_tokens, recorded.output_tokens = own.input_tokens, own.output_tokens
        recorded.cache_read_tokens, recorded.cache_write_tokens = own.cached_tokens, own.cache_write_tokens
    if event.cost_usd is not None:
        recorded.cost_usd = event.cost_usd
    recorded.model = event.model or recorded.model
    return recorded


def _read_usage(source: Mapping[str, Any]) -> Usage:
    if not source:
        return Usage()
    model = next((source[name] for name in MODEL_NAMES if isinstance(source.get(name), str)), None)
    return Usage(
        input_tokens=_figure(source, INPUT_NAMES),
        output_tokens=_figure(source, OUTPUT_NAMES),
        cache_read_tokens=_figure(source, CACHE_READ_NAMES),
        cache_write_tokens=_figure(source, CACHE_WRITE_NAMES),
        cost_usd=_figure(source, COST_NAMES),
        model=model,
    )


def _figure(source: Mapping[str, Any], names: Iterable[str]) -> float | None:
    for name in names:
        value = source.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
            return value
    return None

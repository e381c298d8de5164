"""What agents and models report of an answer: the model, tokens, why it ended; and what tokens cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from agent_eval.contracts import TokenUsage
from agent_eval.errors import UsageError

RESPONSE_ID = "gen_ai.response.id"
"""Attribute of an event: the provider's id of the answer."""

_USAGE_NAMES = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "cached_tokens": (
        "cached_tokens",
        "cache_read_input_tokens",
        "prompt_cache_hit_tokens",  # DeepSeek
        "prompt_tokens_details.cached_tokens",
        "input_tokens_details.cached_tokens",
    ),
    "cache_write_tokens": ("cache_write_tokens", "cache_creation_input_tokens"),
    "reasoning_tokens": (
        "reasoning_tokens",
        "completion_tokens_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "output_tokens_details.thinking_tokens",
    ),
}
"""Names that services give to counts, as places in their object of usage."""

_PARTS = ("cached_tokens", "cache_write_tokens", "reasoning_tokens")
"""Counts that are part of another one, and are left out where they are 0."""


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What is known of a model's or agent's answer, beside its content.

    `stop_reason` is in the provider's word. `block_reason` is what kept the answer back, such as a content
    filter. `agent_name` is the agent that answered, where there are several.
    """

    model: str | None = None
    usage: TokenUsage | None = None
    cost_usd: float | None = None
    stop_reason: str | None = None
    block_reason: str | None = None
    agent_name: str | None = None
    response_id: str | None = None

    @property
    def tokens(self) -> float | None:
        """Input and output tokens together; None if neither is known."""
        if self.usage is None:
            return None
        counts = [n for n in (self.usage.input_tokens, self.usage.output_tokens) if n is not None]
        return sum(counts) if counts else None

    def event_fields(self) -> dict[str, Any]:
        """Return the fields of the answer's event as plain JSON, without those that are unknown."""
        fields = {name: getattr(self, name) for name in _EVENT_FIELDS}
        if self.usage is not None:
            fields["usage"] = self.usage.to_json()
        if self.response_id is not None:
            fields["attributes"] = {RESPONSE_ID: self.response_id}
        return {name: value for name, value in fields.items() if value is not None}


_EVENT_FIELDS = ("model", "usage", "cost_usd", "stop_reason", "block_reason", "agent_name")
NO_FACTS = AnswerFacts()


def facts_of(answer: Mapping[str, Any]) -> AnswerFacts:
    """Extract what an answer reports of itself: model, usage, cost and end; None for what cannot be read.

    Gateways report a cost too: LiteLLM as `response_cost`, OpenRouter as `usage.cost`.
    """
    usage = answer.get("usage")
    reported = (answer.get("cost_usd"), answer.get("response_cost"))
    costs = (*reported, usage.get("cost") if isinstance(usage, Mapping) else None)
    return AnswerFacts(
        model=_text(answer, "model"),
        usage=usage_of(usage),
        cost_usd=next((cost for value in costs if (cost := figure_of(value)) is not None), None),
        stop_reason=_text(answer, "stop_reason") or _text(answer, "finish_reason"),
        block_reason=_text(answer, "block_reason"),
        agent_name=_text(answer, "agent_name"),
    )


def usage_of(reported: Any) -> TokenUsage | None:
    """Read an object of usage by the names of OpenAI, Anthropic or agent-eval; None if it has no count.

    Example:
        >>> usage_of({"prompt_tokens": 12, "prompt_tokens_details": {"cached_tokens": 8}}).to_json()
        {'input_tokens': 12, 'cached_tokens': 8}
    """
    if not isinstance(reported, Mapping):
        return None
    known = {}
    for name, places in _USAGE_NAMES.items():
        for place in places:
            outer, _, inner = place.partition(".")
            value = reported.get(outer)
            if inner:
                value = value.get(inner) if isinstance(value, dict) else None
            if (count := figure_of(value)) is not None:
                if count or name not in _PARTS:
                    known[name] = count
                break
    return TokenUsage.model_validate(known) if known else None


def whole_usage_of(reported: Any) -> TokenUsage | None:
    """Read an object of usage of Anthropic, which counts cached tokens beside the input.

    Elsewhere, and in OpenTelemetry, the input includes them.
    """
    usage = usage_of(reported)
    if usage is None:
        return None
    counted = [
        figure_of(reported.get(name))
        for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    ]
    known = [count for count in counted if count is not None]
    return usage.model_copy(update={"input_tokens": sum(known)} if known else {})


def _text(answer: Mapping[str, Any], name: str) -> str | None:
    value = answer.get(name)
    return value if isinstance(value, str) and value else None


LARGEST_FIGURE = 2**53
"""Largest count or cost that is believed: the largest integer that every reader of JSON preserves."""


def figure_of(value: Any) -> int | float | None:
    """Read a count or cost that an agent or model reports; None for anything else, which is unknown.

    Some services report numbers as text.

    Example:
        >>> figure_of(12), figure_of("12"), figure_of("many"), figure_of(-1)
        (12, 12, None, None)
    """
    if isinstance(value, str) and len(value) <= 32:
        try:
            value = int(value) if value.isdigit() else float(value)
        except ValueError:
            return None
    is_figure = type(value) in (int, float) and 0 <= value <= LARGEST_FIGURE
    return value if is_figure else None


_OF_BEDROCK = re.compile(r"(?:\w+\.)?(?:ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.")
"""How ids of models at Amazon Bedrock begin, such as `us.anthropic.claude-sonnet-4-5-20250929-v1:0`."""

NEWEST = datetime(9999, 1, 1, tzinfo=UTC)
"""A time for which the newest price holds."""


def price_of(model: str, tokens: Mapping[str, int], at: datetime = NEWEST) -> Fraction | None:
    """Price tokens in US dollars; None for a model that `genai-prices` does not know.

    The model's name may have its provider and a slash before it, or be an id of Bedrock. `tokens` are counts
    by `input_tokens`, `output_tokens`, `cache_read_tokens` and `cache_write_tokens`.
    """
    from genai_prices import Usage, calc_price  # reads a large table, which few runs need

    provider, _, name = model.rpartition("/")
    if not provider and _OF_BEDROCK.match(name):
        provider = "aws"
    try:
        price = calc_price(
            Usage(**tokens), model_ref=name, provider_id=provider or None, genai_request_timestamp=at
        )
    # Unknown models and providers, and counts that contradict each other.
    except (LookupError, ValueError):
        return None
    return Fraction(Decimal(price.total_price))


Prices = Mapping[str, tuple[Fraction, Fraction]]
"""The user's own prices of input and output, in US dollars a token, by the name of the model or its begin."""

NO_PRICES: Prices = MappingProxyType({})


def read_prices(stated: Iterable[str]) -> Prices:
    """Read prices that are written as `MODEL=INPUT/OUTPUT`, in US dollars for a million tokens.

    Raises:
        UsageError: One is not written so.

    Example:
        >>> read_prices(["small=0.25/2"])["small"][1] * 1_000_000
        Fraction(2, 1)
    """
    prices = {}
    for text in stated:
        match = _PRICE.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"the price {text!r} cannot be read",
                remedy="Write it as MODEL=INPUT/OUTPUT, in US dollars for a million tokens: small=0.25/2.",
                field="price",
            )
        prices[match[1]] = (Fraction(match[2]) / 1_000_000, Fraction(match[3]) / 1_000_000)
    return prices


_PRICE = re.compile(r"(\S+)=(\d{1,9}(?:\.\d{1,9})?)/(\d{1,9}(?:\.\d{1,9})?)", re.ASCII)


def own_price(model: str, tokens: Mapping[str, float], prices: Prices) -> Fraction | None:
    """Price tokens by the user's own prices, cached ones as any other; None where there is none."""
    name = max((name for name in prices if model.startswith(name)), key=len, default=None)
    if name is None:
        return None
    of_input, of_output = prices[name]
    return of_input * Fraction(tokens.get("input_tokens", 0)) + of_output * Fraction(
        tokens.get("output_tokens", 0)
    )


def priced_counts(usage: TokenUsage) -> dict[str, float]:
    """Return the counts that are known, by the names that `price_of` has for them."""
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def cost_of(model: str | None, facts: AnswerFacts, prices: Prices = NO_PRICES) -> float | None:
    """Return the cost of a reply: what its server reports, else by own or published price; None: unknown."""
    usage = facts.usage
    if facts.cost_usd is not None:
        return facts.cost_usd
    if model is None or usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    tokens = {name: int(count) for name, count in priced_counts(usage).items()}
    price = own_price(model, tokens, prices)
    price = price_of(model, tokens) if price is None else price
    return None if price is None else float(price)

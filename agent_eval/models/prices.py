"""Published prices of models, by `genai-prices`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

from agent_eval.contracts import TokenUsage

NEWEST = datetime(9999, 1, 1, tzinfo=UTC)
"""A time for which the newest price holds."""


def price_of(model: str, tokens: Mapping[str, int], at: datetime = NEWEST) -> Fraction | None:
    """Price tokens in US dollars; None for a model that `genai-prices` does not know.

    The model's name may have its provider and a slash before it. `tokens` are counts by `input_tokens`,
    `output_tokens`, `cache_read_tokens` and `cache_write_tokens`.
    """
    from genai_prices import Usage, calc_price  # reads a large table, which few runs need

    provider, _, name = model.rpartition("/")
    try:
        price = calc_price(
            Usage(**tokens), model_ref=name, provider_id=provider or None, genai_request_timestamp=at
        )
    # Unknown models and providers, and counts that contradict each other.
    except (LookupError, ValueError):
        return None
    return Fraction(Decimal(price.total_price))


def cost_of(model: str | None, usage: TokenUsage | None) -> float | None:
    """Price the tokens of one reply by today's price; None where model, tokens or price are unknown."""
    if model is None or usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    counts = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cached_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }
    price = price_of(model, {name: int(count) for name, count in counts.items() if count is not None})
    return None if price is None else float(price)

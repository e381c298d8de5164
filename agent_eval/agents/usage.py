"""Read what agents and models report of their use: the model, tokens and cost."""

from __future__ import annotations

from typing import Any

CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITTEN = "gen_ai.usage.cache_creation.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
"""Attributes of tokens that are part of the input, and of the output."""

_USAGE_ATTRIBUTES = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cache_read_input_tokens": CACHE_READ,
    "prompt_tokens_details.cached_tokens": CACHE_READ,
    "input_tokens_details.cached_tokens": CACHE_READ,
    "cache_creation_input_tokens": CACHE_WRITTEN,
    "reasoning_tokens": REASONING,
    "completion_tokens_details.reasoning_tokens": REASONING,
    "output_tokens_details.reasoning_tokens": REASONING,
}


def attributes_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Extract model, end, tokens and cost that an answer reports, by the names of OpenTelemetry.

    Example:
        >>> attributes_of({"model": "gpt-4o", "usage": {"prompt_tokens": 12}})
        {'gen_ai.response.model': 'gpt-4o', 'gen_ai.usage.input_tokens': 12}
    """
    attributes: dict[str, Any] = {}
    if isinstance(answer.get("model"), str):
        attributes["gen_ai.response.model"] = answer["model"]
    if isinstance(answer.get("finish_reason"), str):
        attributes["gen_ai.response.finish_reason"] = answer["finish_reason"]
    usage = answer.get("usage")
    for name, attribute in _USAGE_ATTRIBUTES.items():
        if isinstance(usage, dict) and (figure := figure_of(_at(usage, name))) is not None:
            attributes.setdefault(attribute, figure)
    cost = figure_of(answer.get("cost_usd"))
    if cost is not None:
        attributes["cost_usd"] = cost
    return attributes


def _at(usage: dict[str, Any], place: str) -> Any:
    outer, _, inner = place.partition(".")
    value = usage.get(outer)
    return value if not inner else value.get(inner) if isinstance(value, dict) else None


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

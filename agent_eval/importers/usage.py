"""The tokens that an answer states, whatever its API calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from agent_eval.importers.events import mapping, total, usage_of

_WORDS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": (
        *("input_tokens", "inputTokens", "prompt_tokens", "promptTokens", "input_token_count"),
        *("promptTokenCount", "prompt_token_count", "InputTokenCount", "inputTokenCount", "prompt", "input"),
        "prompt_eval_count",
    ),
    "output_tokens": (
        *("output_tokens", "outputTokens", "completion_tokens", "completionTokens", "output_token_count"),
        *("candidatesTokenCount", "candidates_token_count", "OutputTokenCount", "outputTokenCount"),
        *("completion", "output", "eval_count"),
    ),
    "cached": (
        *("cache_read_tokens", "cacheReadInputTokens", "cachedInputTokens", "cached_input_tokens"),
        *("cached_tokens", "cached_prompt_tokens", "cachedContentTokenCount", "cached_content_token_count"),
        *("cacheReadTokens", "input_tokens_cache_read", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
        *("cached", "cacheRead", "input_cache_read", "input_cached_tokens"),
        *("cache_read.input_tokens", "prompt_details.cache_read"),
    ),
    "cache_write": (
        *("cache_write_tokens", "cacheWriteInputTokens", "cache_write_input_tokens"),
        *("input_tokens_cache_write", "cache_creation_input_tokens", "cacheWriteTokens"),
        *("cache_creation.input_tokens", "prompt_details.cache_write", "cache_write_input_tokens"),
    ),
    "reasoning": (
        *("reasoning_tokens", "reasoningTokens", "reasoning_output_tokens", "thoughtsTokenCount"),
        *("thoughts_token_count", "thoughts", "output_reasoning"),
        *("reasoning.output_tokens", "completion_details.reasoning"),
    ),
}
_DETAILS = {
    "cached": (
        *("input_tokens_details", "prompt_tokens_details", "prompt_token_details", "input_token_details"),
        *("inputTokenDetails", "cache"),
    ),
    "reasoning": (
        *("output_tokens_details", "completion_tokens_details", "output_token_details", "outputTokenDetails"),
    ),
}
_OF_DETAILS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "cached": ("cached", ("cached_tokens", "cache_read", "cacheReadTokens", "read")),
    "cache_write": ("cached", ("cache_creation", "cache_write_tokens", "cacheWriteTokens", "write")),
    "reasoning": ("reasoning", ("reasoning_tokens", "reasoning", "reasoningTokens", "thinking_tokens")),
}
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count", "thoughts")
"""Tokens that Gemini counts beside its output."""
_APART = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Tokens that Anthropic counts beside its input, and not within."""


@lru_cache(maxsize=1024)
def _plan(fields: tuple[str, ...]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return which of some fields may state tokens, by kind, and their details: many have the same fields."""
    tokens, details = (
        {name: [word for word in words if word in fields] for name, words in table.items()}
        for table in (_WORDS, _DETAILS)
    )
    return tokens, details


def _first(fields: Mapping[str, Any], words: Iterable[str]) -> Any:
    for word in words:
        if (value := fields.get(word)) is not None:
            return value
    return None


def usage_in(stated: Any) -> dict[str, Any] | None:
    """Return the tokens by the names of `TokenUsage`; None if none is stated.

    Input has what came from a cache, output has what was thought, wherever an API leaves these out.

    Example:
        >>> usage_in({"promptTokenCount": 57, "candidatesTokenCount": 15, "thoughtsTokenCount": 124})
        {'input_tokens': 57, 'output_tokens': 139, 'reasoning_tokens': 124}
        >>> usage_in({"input_tokens": 3, "cache_read_input_tokens": 11, "output_tokens": 2})
        {'input_tokens': 14, 'output_tokens': 2, 'cached_tokens': 11}
    """
    fields = mapping(stated)
    if not fields:
        return None
    plan, details = _plan(tuple(fields))
    tokens = {name: _first(fields, words) for name, words in plan.items()}
    for name, (side, words) in _OF_DETAILS.items():
        for place in details[side]:
            value = _first(mapping(fields[place]), words)
            if value is not None:
                tokens[name] = value
    if "prompt_tokens" in fields:  # a proxy repeats the names of another API, whose rules are not its own
        tokens["cache_write"] = None if "cache_write_tokens" not in fields else tokens["cache_write"]
    elif any(name in fields for name in _APART):
        tokens["input_tokens"] = total(tokens["input_tokens"], *(fields.get(name) for name in _APART))
    thoughts = next((fields[word] for word in _THOUGHTS if word in fields), None)
    if thoughts is not None:
        tokens["output_tokens"] = total(tokens["output_tokens"], thoughts)
    tools = fields.get("toolUsePromptTokenCount", fields.get("tool_use_prompt_token_count"))
    if tools is not None:
        tokens["input_tokens"] = total(tokens["input_tokens"], tools)
    return usage_of(**tokens)

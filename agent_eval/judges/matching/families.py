"""Families of models: a model judges answers of its own family more kindly (arXiv:2410.21819)."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FAMILIES = {
    "GPT": re.compile(r"(?:^|[/._-])(?:gpt|chatgpt|o[1-9])(?=[-_.\d]|$)"),
    "Claude": re.compile(r"claude|(?:^|[/.])(?:sonnet|opus|haiku)(?=$|[-\d])"),
    "Gemini": re.compile(r"gemini|gemma"),
    "Llama": re.compile(r"llama"),
    "Mistral": re.compile(r"mistral|mixtral|ministral|codestral|magistral"),
    "Qwen": re.compile(r"qwen|qwq"),
    "DeepSeek": re.compile(r"deepseek"),
    "Grok": re.compile(r"grok"),
    "Command": re.compile(r"command-[ar]|(?:^|/)cohere"),
}


def family_of(model: str) -> str | None:
    """Return the family of a model by its name; None if it is unknown.

    Example:
        >>> family_of("openai/gpt-5-mini-2026"), family_of("us.anthropic.claude-sonnet-4-5")
        ('GPT', 'Claude')
        >>> family_of("small") is None
        True
    """
    name = model.casefold()
    return next((family for family, pattern in _FAMILIES.items() if pattern.search(name)), None)


def same_family(judges: Iterable[str | None], agents: Iterable[str]) -> str | None:
    """Return a family that a judge and an agent have in common; None if there is none."""
    ours = {family_of(model) for model in judges if model}
    theirs = {family_of(model) for model in agents}
    return min((family for family in ours & theirs if family is not None), default=None)

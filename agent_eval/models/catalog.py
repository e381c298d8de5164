"""Find models by provider. A new provider is one file and one row in `_ROWS`."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from agent_eval.errors import UsageError

if TYPE_CHECKING:
    from agent_eval.models.base import Model, ModelOptions


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One provider of models.

    Attributes:
        name: Its name, as in `--provider`.
        location: The subclass of `models.base.Model`, as `module:Class`; imported when needed.
        key_variable: Environment variable that has the key where `LLM_API_KEY` is not set; None for none.
        asks_a_service: Whether its requests leave this machine, and may cost something.

    Example:
        >>> MODELS["scripted"].asks_a_service, MODELS["scripted"].load().__name__
        (False, 'ScriptedModel')
    """

    name: str
    location: str
    key_variable: str | None = None
    asks_a_service: bool = True

    def load(self) -> type[Model]:
        """Import the class."""
        module, _, name = self.location.partition(":")
        loaded: type[Model] = getattr(importlib.import_module(module), name)
        return loaded


_ROWS = (
    ModelKind("openai", "agent_eval.models.openai:OpenAiModel", key_variable="OPENAI_API_KEY"),
    ModelKind("anthropic", "agent_eval.models.anthropic:AnthropicModel", key_variable="ANTHROPIC_API_KEY"),
    ModelKind(
        "claude-code", "agent_eval.models.claude_code:ClaudeCodeModel", key_variable="ANTHROPIC_API_KEY"
    ),
    ModelKind("scripted", "agent_eval.models.scripted:ScriptedModel", asks_a_service=False),
)

MODELS: dict[str, ModelKind] = {row.name: row for row in _ROWS}
"""Every provider by name, in the order in which messages list them."""


def open_model(provider: str, options: ModelOptions | None = None) -> Model:
    """Build the model of a provider, which is asked as it is: no retries, no cassette.

    Args:
        provider: One of `MODELS`.
        options: Which model, and how to reach it; the defaults when None.

    Raises:
        UsageError: There is no such provider, or the options do not name a usable model.
    """
    from agent_eval.models.base import ModelOptions

    if provider not in MODELS:
        near = get_close_matches(provider, MODELS, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"there is no provider of models {provider!r}", remedy=f"{hint}Name one of: {', '.join(MODELS)}."
        )
    return MODELS[provider].load().from_options(options or ModelOptions())

"""Find models by provider. A new provider is one file and one row in `_ROWS`.

The choices of options, the agents `NAME:MODEL` and the names of keys are read from here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_eval.errors import UsageError

if TYPE_CHECKING:
    from agent_eval.models.base import Model, ModelOptions


@dataclass(frozen=True, slots=True)
class ModelKind:
    """One provider of models.

    Attributes:
        location: The subclass of `models.base.Model`, as `module:Class`; imported when needed.
        key_variable: Environment variable that has the key where `LLM_API_KEY` is not set; None for none.
        host: Where its requests go unless an endpoint is named, as the evidence records it.
        is_agent: Whether a model of it can be the agent under test, as `NAME:MODEL`; it is a `HostedModel`.
        needs_key: Whether it is asked only where a key or an endpoint is named.
        asks_a_service: Whether its requests leave this machine, and may cost something.
    """

    name: str
    location: str
    key_variable: str | None = None
    host: str = ""
    is_agent: bool = False
    needs_key: bool = False
    asks_a_service: bool = True

    def load(self) -> type[Model]:
        """Import the class."""
        module, _, name = self.location.partition(":")
        loaded: type[Model] = getattr(importlib.import_module(module), name)
        return loaded


_ROWS = (
    ModelKind(
        "openai",
        "agent_eval.models.openai:OpenAiModel",
        key_variable="OPENAI_API_KEY",
        host="https://api.openai.com",
        is_agent=True,
        needs_key=True,
    ),
    ModelKind(
        "anthropic",
        "agent_eval.models.anthropic:AnthropicModel",
        key_variable="ANTHROPIC_API_KEY",
        host="https://api.anthropic.com",
        is_agent=True,
        needs_key=True,
    ),
    ModelKind(
        "claude-code", "agent_eval.models.claude_code:ClaudeCodeModel", key_variable="ANTHROPIC_API_KEY"
    ),
    ModelKind("scripted", "agent_eval.models.scripted:ScriptedModel", asks_a_service=False),
)

MODELS: dict[str, ModelKind] = {row.name: row for row in _ROWS}
"""Every provider by name, in the order in which messages list them; the first is the default."""

DEFAULT_PROVIDER = _ROWS[0].name


def described(provider: str, *, model: str | None, base_url: str | None) -> dict[str, Any]:
    """Describe a model as it describes itself, without opening it.

    Example:
        >>> described("openai", model="small", base_url="http://LOCALHOST:8000/v1")
        {'provider': 'openai', 'host': 'http://localhost:8000', 'model': 'small'}
    """
    kind = _kind(provider)
    name = kind.load().default_model if model is None or not kind.asks_a_service else model
    from agent_eval.models.hosted import check_address, origin_of

    check_address(base_url)
    host = origin_of(base_url) if base_url and kind.host else kind.host
    return {"provider": provider, **({"host": host} if host else {}), "model": name}


def open_model(provider: str, options: ModelOptions | None = None) -> Model:
    """Build the model of a provider, which is asked as it is: no retries, no cassette."""
    from agent_eval.models.base import ModelOptions

    return _kind(provider).load().from_options(options or ModelOptions())


def _kind(provider: str) -> ModelKind:
    if provider not in MODELS:
        from difflib import get_close_matches  # help needs none

        near = get_close_matches(provider, MODELS, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"there is no provider of models {provider!r}", remedy=f"{hint}Name one of: {', '.join(MODELS)}."
        )
    return MODELS[provider]

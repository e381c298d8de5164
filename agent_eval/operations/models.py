"""Open the model that judges criteria in words and plays the users of conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from agent_eval.config.spec import LlmSpec

if TYPE_CHECKING:
    from agent_eval.models.base import Model

KEY_VARIABLE = "LLM_API_KEY"
"""Environment variable of the key where no option has it."""


def llm_key(spec: LlmSpec, environ: Mapping[str, str]) -> str | None:
    """Return the key of the model: that of the option, of `LLM_API_KEY`, or of the provider's own variable.

    Example:
        >>> environ = {"LLM_API_KEY": "key-1"}
        >>> llm_key(LlmSpec(), environ), llm_key(LlmSpec(key="key-2"), environ)
        ('key-1', 'key-2')
    """
    from agent_eval.models.catalog import MODELS

    kind = MODELS.get(spec.provider)
    variables = (KEY_VARIABLE, kind.key_variable if kind is not None else None)
    values = (environ.get(name, "").strip() for name in variables if name is not None)
    return spec.key or next(filter(None, values), None)


def opener(spec: LlmSpec, environ: Mapping[str, str]) -> Callable[[], Model]:
    """Return the function that opens the model when it is first needed, and returns the same one each time.

    Args:
        spec: Which model.
        environ: The environment variables.
    """

    @cache
    def open_it() -> Model:
        from agent_eval.models.base import ModelOptions
        from agent_eval.models.catalog import open_model

        options = ModelOptions(
            model=spec.model,
            base_url=spec.base_url,
            api_key=llm_key(spec, environ),
            environ=environ,
            script=spec.script,
        )
        return open_model(spec.provider, options)

    return open_it

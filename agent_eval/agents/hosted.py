"""The base of agents that are hosted models, for every provider's SDK."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar, Self

from typing_extensions import override

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Surroundings, Task
from agent_eval.agents.chat import ChatModel, converse
from agent_eval.models.reply import account_name
from agent_eval.models.sdk import check_address

_NO_KEY = "none"


class HostedModel(Agent, ChatModel):
    """A model behind a provider's SDK, asked with the case's tools until it has answered.

    A subclass names its provider and builds the client; its `ask` and `results` translate to and from the
    provider's messages.

    Args:
        model: The model's name; None uses each case's `metadata.model`.
        base_url: The endpoint, such as `http://localhost:11434/v1`; the provider's own by default.
        api_key: Key of each request, never recorded. Endpoints without keys need none.
        system: The system prompt, before the case's input.
        parameters: Further fields of each request, such as `temperature`.

    Raises:
        UsageError: `base_url` is not a usable address.

    Example:
        >>> from agent_eval.agents.openai import OpenAiCompatibleAgent
        >>> agent = OpenAiCompatibleAgent("llama3", base_url="http://localhost:11434/v1")
        >>> agent.describe()["model"]
        'llama3'
    """

    kind: ClassVar[str]
    """The provider, as in `openai:MODEL`."""
    key_variable: ClassVar[str]
    """The environment variable that holds the API key."""
    account: str

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        system: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        check_address(base_url)
        self._model, self._base_url, self._system = model, base_url, system
        self._parameters = dict(parameters or {})
        self._sdk, self._client = self._connect(base_url, api_key or _NO_KEY)
        self.account = account_name(str(self._client.base_url), api_key or "")

    @abstractmethod
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        """Import the SDK and return it with a client that repeats no request itself."""

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> Self:
        return cls(
            rest or None,
            base_url=options.base_url,
            api_key=options.environ.get(cls.key_variable),
            system=options.system,
            parameters=options.parameters,
        )

    @classmethod
    @override
    def from_description(
        cls, described: Mapping[str, Any], options: AgentOptions
    ) -> tuple[str, AgentOptions]:
        return f"{cls.kind}:{described['model'] or ''}", replace(
            options,
            base_url=options.base_url or described["base_url"],
            system=options.system or described["system"],
            parameters={**dict(described["parameters"]), **options.parameters},
        )

    @override
    def describe(self) -> dict[str, Any]:
        return {
            "agent": self.kind,
            "base_url": self._base_url,
            "model": self._model,
            "parameters": self._parameters,
            "system": self._system,
        }

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        return converse(self, self._model, task, surroundings)

    @override
    def close(self) -> None:
        self._client.close()

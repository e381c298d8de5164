"""A model behind Anthropic's Messages API, with the case's tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_eval.agents.base import (
    AgentOptions,
    AttemptResult,
    Sent,
    Surroundings,
    Task,
    ToolAnswer,
    account_name,
)
from agent_eval.agents.chat import ModelCall, Question, Turn, check_address, converse, receive, tool_text
from agent_eval.errors import FailureKind

MAX_TOKENS = 4096
"""Tokens of one answer unless a parameter says otherwise; the API wants a figure."""


class AnthropicAgent:
    """Asks a model, has its tool calls answered from the case, and asks again until it has answered.

    Args:
        model: The model's name; None takes each case's `metadata.model`.
        api_key: Sent along, and shown nowhere.
        base_url: Another endpoint that speaks the same protocol.
        system: The system prompt; those in the case's input are added to it.
        parameters: Further fields of the request, such as `max_tokens` or `temperature`.

    Raises:
        UsageError: `base_url` is no address.
    """

    def __init__(
        self,
        model: str | None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        system: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        import anthropic

        self._sdk = anthropic
        self._model, self._base_url, self._system = model, base_url, system
        self._parameters = {"max_tokens": MAX_TOKENS, **(parameters or {})}
        check_address(base_url)
        self._client = anthropic.Anthropic(base_url=base_url, api_key=api_key or "none", max_retries=0)
        self.account = account_name(str(self._client.base_url), api_key or "")

    def close(self) -> None:
        """See `Agent.close`."""
        self._client.close()

    @classmethod
    def from_options(cls, rest: str, options: AgentOptions) -> AnthropicAgent:
        """See `catalog.open_agent`."""
        return cls(
            rest or None,
            base_url=options.base_url,
            api_key=options.environ.get("ANTHROPIC_API_KEY"),
            system=options.system,
            parameters=options.parameters,
        )

    def describe(self) -> dict[str, Any]:
        """See `Agent.describe`."""
        return {
            "agent": "anthropic",
            "base_url": self._base_url,
            "model": self._model,
            "parameters": self._parameters,
            "system": self._system,
        }

    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        """See `Agent.attempt`."""
        return converse(self, self._model, task, surroundings)

    def ask(self, question: Question) -> Sent[Turn]:
        """See `ChatModel.ask`."""
        system = [self._system] if self._system else []
        system += [str(message["content"]) for message in question.messages if message["role"] == "system"]
        body: dict[str, Any] = {
            "model": question.model,
            "messages": [message for message in question.messages if message["role"] != "system"],
            "max_tokens": self._parameters["max_tokens"],
        }
        if system:
            body["system"] = "\n\n".join(system)
        if question.tools:
            body["tools"] = [
                {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
                for tool in question.tools
            ]
        messages: Any = self._client.messages.with_streaming_response
        sent = receive(
            self._sdk,
            lambda seconds: messages.create(**body, extra_body=self._parameters, timeout=seconds),
            seconds=question.seconds,
            max_bytes=question.max_bytes,
        )
        if sent.value is None:
            return sent.without_value()
        return _turn(sent.value)

    def results(self, answers: Sequence[tuple[ModelCall, ToolAnswer]]) -> list[dict[str, Any]]:
        """See `ChatModel.results`."""
        blocks = [
            {
                "type": "tool_result",
                "tool_use_id": call.call_id,
                "content": tool_text(answer),
                "is_error": answer.error is not None,
            }
            for call, answer in answers
        ]
        return [{"role": "user", "content": blocks}]


def _turn(body: Mapping[str, Any]) -> Sent[Turn]:
    """Read a message."""
    try:
        blocks = body["content"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        calls = [
            ModelCall(str(block["id"]), str(block["name"]), block["input"])
            for block in blocks
            if block["type"] == "tool_use"
        ]
        text = "".join(texts) or None
    except (KeyError, TypeError) as error:
        problem = f"gave no message: {type(error).__name__} at {error}"[:300]
        return Sent(failure=FailureKind.TYPE_ERROR, problem=problem)
    message = {"role": "assistant", "content": blocks}
    return Sent(Turn(text, calls, message, _attributes(body), str(body.get("stop_reason") or "")))


def _attributes(body: Mapping[str, Any]) -> dict[str, Any]:
    usage = body.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    found = {
        "gen_ai.response.id": body.get("id"),
        "gen_ai.response.model": body.get("model"),
        "gen_ai.response.finish_reason": body.get("stop_reason"),
        # Anthropic counts cached tokens apart; elsewhere, and in OpenTelemetry, they are part of the input.
        "gen_ai.usage.input_tokens": _sum(usage.get("input_tokens"), read, written),
        "gen_ai.usage.output_tokens": usage.get("output_tokens"),
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
    }
    return {name: value for name, value in found.items() if value and isinstance(value, str | int)}


def _sum(*counts: Any) -> int | None:
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if known else None

"""A model behind an OpenAI-compatible endpoint (chat completions), with the case's tools."""

from __future__ import annotations

import json
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
from agent_eval.agents.recorder import storable
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.storage.json import parse

_NO_KEY = "none"


class OpenAiCompatibleAgent:
    """Asks a model, has its tool calls answered from the case, and asks again until it has answered.

    Args:
        model: The model's name; None takes each case's `metadata.model`.
        base_url: The endpoint, such as `http://localhost:11434/v1`; OpenAI's own by default.
        api_key: Sent along, and shown nowhere. Endpoints without keys need none.
        system: A system message before the case's input.
        parameters: Further fields of the request, such as `temperature` or `seed`.

    Raises:
        UsageError: `base_url` is no address.
    """

    def __init__(
        self,
        model: str | None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        system: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        import openai

        self._sdk = openai
        self._model, self._base_url, self._system = model, base_url, system
        self._parameters = dict(parameters or {})
        check_address(base_url)
        self._client = openai.OpenAI(base_url=base_url, api_key=api_key or _NO_KEY, max_retries=0)
        self.account = account_name(str(self._client.base_url), api_key or "")

    def close(self) -> None:
        """See `Agent.close`."""
        self._client.close()

    @classmethod
    def from_options(cls, rest: str, options: AgentOptions) -> OpenAiCompatibleAgent:
        """See `catalog.open_agent`."""
        return cls(
            rest or None,
            base_url=options.base_url,
            api_key=options.environ.get("OPENAI_API_KEY"),
            system=options.system,
            parameters=options.parameters,
        )

    def describe(self) -> dict[str, Any]:
        """See `Agent.describe`."""
        return {
            "agent": "openai",
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
        system = [{"role": "system", "content": self._system}] if self._system else []
        body: dict[str, Any] = {"model": question.model, "messages": [*system, *question.messages]}
        if question.tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in question.tools]
        completions: Any = self._client.chat.completions.with_streaming_response
        sent = receive(
            self._sdk,
            lambda seconds: completions.create(**body, extra_body=self._parameters, timeout=seconds),
            seconds=question.seconds,
            max_bytes=question.max_bytes,
        )
        if sent.value is None:
            return sent.without_value()
        return _turn(sent.value)

    def results(self, answers: Sequence[tuple[ModelCall, ToolAnswer]]) -> list[dict[str, Any]]:
        """See `ChatModel.results`."""
        return [
            {"role": "tool", "tool_call_id": call.call_id, "content": tool_text(answer)}
            for call, answer in answers
        ]


def _turn(body: Mapping[str, Any]) -> Sent[Turn]:
    """Read a chat completion."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        calls = [_call(call, number) for number, call in enumerate(message.get("tool_calls") or [])]
        text = message.get("content") or message.get("refusal")
        text = text if text is None or isinstance(text, str) else json.dumps(text)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        problem = f"gave no chat completion: {type(error).__name__} at {error}"[:300]
        return Sent(failure=FailureKind.TYPE_ERROR, problem=problem)
    # What a model may be sent back is what it sent; without content some endpoints want the field as null.
    answer = {"role": "assistant", "content": message.get("content")}
    if calls:
        answer["tool_calls"] = message["tool_calls"]
    return Sent(Turn(text, calls, answer, _attributes(body, choice), str(choice.get("finish_reason") or "")))


def _call(call: Mapping[str, Any], number: int) -> ModelCall:
    function = call["function"]
    call_id, tool, written = call.get("id") or f"call-{number}", function["name"], function.get("arguments")
    if not isinstance(written, str):
        return ModelCall(str(call_id), str(tool), {} if written is None else written)
    if not written.strip():
        return ModelCall(str(call_id), str(tool), {})
    try:
        return ModelCall(str(call_id), str(tool), parse(written.encode(), source="arguments"))
    except InvalidInput:
        return ModelCall(str(call_id), str(tool), storable(written), is_readable=False)


def _attributes(body: Mapping[str, Any], choice: Mapping[str, Any]) -> dict[str, Any]:
    usage = body.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, Mapping) else {}
    found = {
        "gen_ai.response.id": body.get("id"),
        "gen_ai.response.model": body.get("model"),
        "gen_ai.response.finish_reason": choice.get("finish_reason"),
        "gen_ai.usage.input_tokens": usage.get("prompt_tokens"),
        "gen_ai.usage.output_tokens": usage.get("completion_tokens"),
        "gen_ai.usage.cache_read.input_tokens": details.get("cached_tokens"),
    }
    return {name: value for name, value in found.items() if value and isinstance(value, str | int)}

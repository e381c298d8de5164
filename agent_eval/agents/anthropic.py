"""The `anthropic` agent: a model behind Anthropic's Messages API, with the case's tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from typing_extensions import override

from agent_eval.agents.base import ToolAnswer
from agent_eval.agents.hosted import HostedModel, ModelCall, Question, Turn, tool_text
from agent_eval.models.reply import Reply
from agent_eval.models.sdk import receive, unreadable
from agent_eval.models.usage import AnswerFacts, facts_of, whole_usage_of

MAX_TOKENS = 4096
"""Default maximum of tokens in one answer; the API requires a number."""


class AnthropicAgent(HostedModel):
    """A model behind Anthropic's Messages API, or an endpoint that speaks the same protocol.

    System messages in a case's input are appended to the system prompt.
    """

    kind = "anthropic"
    key_variable = "ANTHROPIC_API_KEY"

    @override
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        import anthropic  # takes a second, so only runs that use such a model import it

        self._parameters = {"max_tokens": MAX_TOKENS, **self._parameters}
        return anthropic, anthropic.Anthropic(base_url=base_url, api_key=api_key, max_retries=0)

    @override
    def ask(self, question: Question) -> Reply[Turn]:
        prompt = question.system or self._system
        system = [prompt] if prompt else []
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
        reply = receive(
            self._sdk,
            # The SDK leaves `extra_body` as it is; checking messages would take longer than all the rest.
            lambda seconds: messages.create(
                model=body["model"],
                max_tokens=body["max_tokens"],
                messages=[],
                extra_body={**body, **self._parameters},
                timeout=seconds,
            ),
            seconds=question.seconds,
            max_bytes=question.max_bytes,
        )
        if reply.value is None:
            return reply.without_value()
        return _turn(reply.value)

    @override
    def results(self, answers: Sequence[tuple[ModelCall, ToolAnswer]]) -> list[dict[str, Any]]:
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


def _turn(body: Mapping[str, Any]) -> Reply[Turn]:
    try:
        blocks = body["content"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        text = "".join(texts) or None
    except (KeyError, TypeError) as error:
        problem = f"gave no message: {type(error).__name__} at {error}"[:300]
        return unreadable(body, problem)
    message = {"role": "assistant", "content": blocks}
    reason = body.get("stop_reason")
    return Reply(Turn(text, calls, message, _facts(body), "" if reason is None else str(reason)))


def _call(block: Mapping[str, Any]) -> ModelCall:
    if not isinstance(block["name"], str) or not block["name"]:
        raise TypeError("a tool_use, which names no tool")
    return ModelCall(str(block["id"]), block["name"], block["input"])


def _facts(body: Mapping[str, Any]) -> AnswerFacts:
    facts, response_id = facts_of(body), body.get("id")
    facts = replace(facts, usage=whole_usage_of(body.get("usage")))
    return replace(facts, response_id=response_id if isinstance(response_id, str) else None)

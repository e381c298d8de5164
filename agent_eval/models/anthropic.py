"""The provider `anthropic`: Anthropic's Messages API, or an endpoint that speaks the same protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.models import base
from agent_eval.models.base import ModelRequest, Rung
from agent_eval.models.hosted import HostedModel, Message, ModelCall, Question, Turn
from agent_eval.models.usage import facts_of, whole_usage_of

_MAX_TOKENS = 4096
"""Default maximum of tokens in one answer; the API requires a number."""


class AnthropicModel(HostedModel):
    """A model behind Anthropic's Messages API. The provider caches the first part of a shared prefix.

    System messages among the others are appended to the system prompt.
    """

    kind = "anthropic"
    default_model = "claude-sonnet-4-5"
    agent_defaults: ClassVar[Mapping[str, Any]] = {"max_tokens": _MAX_TOKENS}
    needed = frozenset({"model", "messages", "max_tokens", "system", "output_config"})

    @override
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        import anthropic  # takes a second, so only runs that use such a model import it

        client = anthropic.DefaultHttpxClient(follow_redirects=False)  # the key is for this address alone
        return anthropic, anthropic.Anthropic(
            base_url=base_url, api_key=api_key, max_retries=0, http_client=client
        )

    @override
    def body(self, question: Question) -> dict[str, Any]:
        of_system = [str(each["content"]) for each in question.messages if each["role"] == "system"]
        body: dict[str, Any] = {
            "model": question.model,
            "max_tokens": _MAX_TOKENS,
            "messages": [message for message in question.messages if message["role"] != "system"],
        }
        if system := "\n\n".join(filter(None, [question.system, *of_system])):
            body["system"] = system
        if question.tools:
            body["tools"] = [
                {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
                for tool in question.tools
            ]
        return body

    @override
    def message(self, message: base.Message, *, is_shared: bool) -> Message:
        if not is_shared or len(message.parts) < 2:
            return {"role": message.role, "content": message.text}
        first, *rest = message.parts
        content = [
            {"type": "text", "text": first, "cache_control": {"type": "ephemeral"}},
            *({"type": "text", "text": part} for part in rest),
        ]
        return {"role": message.role, "content": content}

    @override
    def shape(self, body: dict[str, Any], request: ModelRequest, rung: Rung | None) -> None:
        body["max_tokens"] = request.max_tokens
        if rung == "json_schema":
            body["output_config"] = {"format": {"type": "json_schema", "schema": request.reply_schema}}

    @override
    def open_answer(self, body: Mapping[str, Any]) -> Callable[[float], AbstractContextManager[Any]]:
        messages: Any = self._client.messages.with_streaming_response
        known = {name: body[name] for name in ("model", "max_tokens")}
        # The SDK leaves `extra_body` as it is; checking messages would take longer than all the rest.
        return lambda seconds: messages.create(**known, messages=[], extra_body=body, timeout=seconds)

    @override
    def read(self, body: Mapping[str, Any]) -> Turn:
        blocks = body["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        reason, response_id = body.get("stop_reason"), body.get("id")
        facts = replace(
            facts_of(body),
            usage=whole_usage_of(body.get("usage")),
            response_id=response_id if isinstance(response_id, str) else None,
        )
        message = {"role": "assistant", "content": blocks}
        return Turn(text or None, calls, message, None if reason is None else str(reason), facts)

    @override
    def results(self, answers: Sequence[tuple[str, str, bool]]) -> list[Message]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}
            for call_id, text, is_error in answers
        ]
        return [{"role": "user", "content": blocks}]


def _call(block: Mapping[str, Any]) -> ModelCall:
    if not isinstance(block["name"], str) or not block["name"]:
        raise TypeError("a tool_use, which names no tool")
    return ModelCall(str(block["id"]), block["name"], block["input"])

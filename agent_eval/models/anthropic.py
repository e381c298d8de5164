"""The `anthropic` model: Anthropic's Messages API, or an endpoint that speaks the same protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from typing_extensions import override

from agent_eval.models.base import Message, ModelRequest, Rung
from agent_eval.models.hosted import Answer, HostedModel, schema_in_words
from agent_eval.models.usage import whole_usage_of

DEFAULT_MODEL = "claude-sonnet-4-5"


class AnthropicModel(HostedModel):
    """A model behind Anthropic's Messages API. The provider caches the first part of a shared prefix."""

    kind = "anthropic"
    default_model = DEFAULT_MODEL
    needed = frozenset({"model", "messages", "max_tokens", "system", "output_config"})

    @override
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        import anthropic  # takes a second, so only runs that use such a model import it

        return anthropic, anthropic.Anthropic(base_url=base_url, api_key=api_key, max_retries=0)

    @override
    def body(self, request: ModelRequest, rung: Rung | None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": request.model,
            "max_tokens": request.max_tokens,
            "messages": [
                {
                    "role": message.role,
                    "content": _content(message, shared=request.shared_prefix and not place),
                }
                for place, message in enumerate(request.messages)
            ],
        }
        if system := request.system + schema_in_words(request, rung):
            body["system"] = system
        if rung == "json_schema":
            body["output_config"] = {"format": {"type": "json_schema", "schema": request.reply_schema}}
        return body

    @override
    def open_answer(self, body: Mapping[str, Any]) -> Callable[[float], AbstractContextManager[Any]]:
        messages: Any = self._client.messages.with_streaming_response
        known = {name: body[name] for name in ("model", "max_tokens")}
        # The SDK leaves `extra_body` as it is; checking messages would take longer than all the rest.
        return lambda seconds: messages.create(**known, messages=[], extra_body=body, timeout=seconds)

    @override
    def read(self, body: Mapping[str, Any]) -> Answer:
        text = "".join(block["text"] for block in body["content"] if block["type"] == "text")
        reason, model = body.get("stop_reason"), body.get("model")
        return Answer(
            text,
            None if reason is None else str(reason),
            model if isinstance(model, str) and model else None,
            whole_usage_of(body.get("usage")),
        )


def _content(message: Message, *, shared: bool) -> Any:
    if not shared or len(message.parts) < 2:
        return message.text
    first, *rest = message.parts
    return [
        {"type": "text", "text": first, "cache_control": {"type": "ephemeral"}},
        *({"type": "text", "text": part} for part in rest),
    ]

"""The `openai` model: chat completions of OpenAI, or of any endpoint that speaks the same protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.models.base import ModelRequest, Rung
from agent_eval.models.hosted import Answer, HostedModel, schema_in_words
from agent_eval.models.usage import usage_of

DEFAULT_MODEL = "gpt-5-mini"
_OWN_HOST = "https://api.openai.com"


class OpenAiModel(HostedModel):
    """A model behind OpenAI's chat completions, or an endpoint that speaks the same protocol."""

    kind = "openai"
    default_model = DEFAULT_MODEL
    other_names: ClassVar[Mapping[str, str]] = {"max_completion_tokens": "max_tokens"}
    needed = frozenset({"model", "messages", "max_completion_tokens", "max_tokens", "response_format"})

    @override
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        import openai  # takes a second, so only runs that use such a model import it

        return openai, openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0)

    @override
    def body(self, request: ModelRequest, rung: Rung | None) -> dict[str, Any]:
        system = request.system + schema_in_words(request, rung)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": message.role, "content": message.text} for message in request.messages]
        body: dict[str, Any] = {
            "model": request.model,
            "messages": messages,
            "max_completion_tokens": request.max_tokens,
        }
        if rung == "json_schema":
            schema = {"name": request.schema_name, "strict": True, "schema": request.reply_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif rung == "json_object":
            body["response_format"] = {"type": "json_object"}
        if request.shared_prefix and request.messages and self.host == _OWN_HOST:
            # Requests with one key go to the machine that keeps their prefix; other servers may refuse it.
            prefix = f"{system}\0{request.messages[0].parts[0]}".encode("utf-8", "backslashreplace")
            body["prompt_cache_key"] = hashlib.sha256(prefix).hexdigest()[:32]
        return body

    @override
    def open_answer(self, body: Mapping[str, Any]) -> Callable[[float], AbstractContextManager[Any]]:
        completions: Any = self._client.chat.completions.with_streaming_response
        # The SDK leaves `extra_body` as it is; checking messages would take longer than all the rest.
        return lambda seconds: completions.create(
            model=body["model"], messages=[], extra_body=body, timeout=seconds
        )

    @override
    def read(self, body: Mapping[str, Any]) -> Answer:
        choice = body["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
        if isinstance(content, list):
            refusal = refusal or next((part["refusal"] for part in content if part.get("refusal")), None)
            content = "".join(part.get("text") or "" for part in content)
        if not isinstance(content, str | None):
            raise TypeError("content, which is no text")
        reason = choice.get("finish_reason")
        model = body.get("model")
        return Answer(
            content or (refusal if isinstance(refusal, str) else "") or "",
            # A refusal is one whatever reason the provider gives for the end.
            "refusal" if refusal else None if reason is None else str(reason),
            model if isinstance(model, str) and model else None,
            usage_of(body.get("usage")),
        )

"""The provider `openai`: chat completions of OpenAI, or of any endpoint that speaks the same protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.errors import InvalidInput
from agent_eval.models import base
from agent_eval.models.base import ModelRequest, Rung
from agent_eval.models.hosted import HostedModel, Message, ModelCall, Question, Turn
from agent_eval.models.usage import facts_of
from agent_eval.storage.json import Limits, parse

_OWN_HOST = "https://api.openai.com"


class OpenAiModel(HostedModel):
    """A model behind OpenAI's chat completions, or an endpoint that speaks the same protocol."""

    kind = "openai"
    default_model = "gpt-5-mini"
    other_names: ClassVar[Mapping[str, str]] = {"max_completion_tokens": "max_tokens"}
    needed = frozenset({"model", "messages", "max_completion_tokens", "max_tokens", "response_format"})

    @override
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        import openai  # takes a second, so only runs that use such a model import it

        client = openai.DefaultHttpxClient(follow_redirects=False)  # the key is for this address alone
        return openai, openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0, http_client=client)

    @override
    def body(self, question: Question) -> dict[str, Any]:
        system = [{"role": "system", "content": question.system}] if question.system else []
        body: dict[str, Any] = {"model": question.model, "messages": [*system, *question.messages]}
        if question.tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in question.tools]
        return body

    @override
    def message(self, message: base.Message, *, is_shared: bool) -> Message:
        return {"role": message.role, "content": message.text}

    @override
    def shape(self, body: dict[str, Any], request: ModelRequest, rung: Rung | None) -> None:
        body["max_completion_tokens"] = request.max_tokens
        if rung == "json_schema":
            schema = {"name": request.schema_name, "strict": True, "schema": request.reply_schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif rung == "json_object":
            body["response_format"] = {"type": "json_object"}
        if request.shared_prefix and request.messages and self.host == _OWN_HOST:
            # Requests with one key go to the machine that keeps their prefix; other servers may refuse it.
            first = body["messages"][0]
            system = first["content"] if first["role"] == "system" else ""
            prefix = f"{system}\0{request.messages[0].parts[0]}".encode("utf-8", "backslashreplace")
            body["prompt_cache_key"] = hashlib.sha256(prefix).hexdigest()[:32]

    @override
    def open_answer(self, body: Mapping[str, Any]) -> Callable[[float], AbstractContextManager[Any]]:
        completions: Any = self._client.chat.completions.with_streaming_response
        # The SDK leaves `extra_body` as it is; checking messages would take longer than all the rest.
        return lambda seconds: completions.create(
            model=body["model"], messages=[], extra_body=body, timeout=seconds
        )

    @override
    def read(self, body: Mapping[str, Any]) -> Turn:
        choice = body["choices"][0]
        message = choice["message"]
        calls = [_call(call, number) for number, call in enumerate(message.get("tool_calls") or [])]
        content = message.get("content")
        if content is not None and not isinstance(content, str | list):
            raise TypeError("content, which is no text")
        parts = content if isinstance(content, list) else [{"text": content or ""}]
        texts = [part.get("text") or "" for part in parts]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("content, which has a part that is no text")
        refusals = [message.get("refusal"), *(part.get("refusal") for part in parts)]
        refusal = next((words for words in refusals if isinstance(words, str) and words), None)
        reason = choice.get("finish_reason")
        # The conversation repeats the message as it was; some endpoints require `content`, be it null.
        answer = {"role": "assistant", "content": content}
        if calls:
            answer["tool_calls"] = message["tool_calls"]
        # A refusal is one whatever reason the provider gives for the end.
        finish = "refusal" if any(refusals) else None if reason is None else str(reason)
        facts, response_id = facts_of({**body, "stop_reason": finish}), body.get("id")
        facts = replace(facts, response_id=response_id if isinstance(response_id, str) else None)
        return Turn("".join(texts) or refusal, calls, answer, finish, facts)

    @override
    def results(self, answers: Sequence[tuple[str, str, bool]]) -> list[Message]:
        return [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text, _ in answers]


def _call(call: Mapping[str, Any], number: int) -> ModelCall:
    function = call["function"]
    call_id, tool, arguments = call.get("id") or f"call-{number}", function["name"], function.get("arguments")
    if not isinstance(tool, str) or not tool:
        raise TypeError(f"tool_calls[{number}], which names no tool")
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return ModelCall(str(call_id), tool, {})
    if isinstance(arguments, str):
        try:
            arguments = parse(arguments.encode(), source="arguments", limits=Limits(wide_integers=True))
        except (InvalidInput, UnicodeEncodeError):
            return ModelCall(str(call_id), tool, arguments, is_readable=False)
    return ModelCall(str(call_id), tool, arguments)

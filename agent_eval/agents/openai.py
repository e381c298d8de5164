"""The `openai` agent: a model behind an OpenAI-compatible endpoint (chat completions), with tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from typing_extensions import override

from agent_eval.agents.base import ToolAnswer
from agent_eval.agents.hosted import HostedModel, ModelCall, Question, Turn, tool_text
from agent_eval.agents.recorder import storable
from agent_eval.errors import InvalidInput
from agent_eval.models.reply import Reply
from agent_eval.models.sdk import receive, unreadable
from agent_eval.models.usage import AnswerFacts, facts_of
from agent_eval.storage.json import Limits, parse


class OpenAiCompatibleAgent(HostedModel):
    """A model behind OpenAI's chat completions, or an endpoint that speaks the same protocol."""

    kind = "openai"
    key_variable = "OPENAI_API_KEY"

    @override
    def _connect(self, base_url: str | None, api_key: str) -> tuple[ModuleType, Any]:
        import openai  # takes a second, so only runs that use such a model import it

        return openai, openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0)

    @override
    def ask(self, question: Question) -> Reply[Turn]:
        prompt = question.system or self._system
        system = [{"role": "system", "content": prompt}] if prompt else []
        body: dict[str, Any] = {"messages": [*system, *question.messages]}
        if question.tools:
            body["tools"] = [{"type": "function", "function": tool} for tool in question.tools]
        completions: Any = self._client.chat.completions.with_streaming_response
        reply = receive(
            self._sdk,
            # The SDK leaves `extra_body` as it is; checking messages would take longer than all the rest.
            lambda seconds: completions.create(
                model=question.model,
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
        return [
            {"role": "tool", "tool_call_id": call.call_id, "content": tool_text(answer)}
            for call, answer in answers
        ]


def _turn(body: Mapping[str, Any]) -> Reply[Turn]:
    try:
        choice = body["choices"][0]
        message = choice["message"]
        calls = [_call(call, number) for number, call in enumerate(message.get("tool_calls") or [])]
        text, refusal = _text_and_refusal(message)
        reason = choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        problem = f"gave no chat completion: {type(error).__name__} at {error}"[:300]
        return unreadable(body, problem)
    # The conversation repeats the model's message as it was; some endpoints require `content`, be it null.
    answer = {"role": "assistant", "content": message.get("content")}
    if calls:
        answer["tool_calls"] = message["tool_calls"]
    # A refusal is one whatever reason the provider gives for the end.
    finish = "refusal" if refusal else "" if reason is None else str(reason)
    return Reply(Turn(text, calls, answer, _facts(body, finish), finish))


def _text_and_refusal(message: Mapping[str, Any]) -> tuple[str | None, bool]:
    content, refusal = message.get("content"), message.get("refusal")
    if content is not None and not isinstance(content, str | list):
        raise TypeError("content, which is no text")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    if not all(isinstance(part, Mapping) and isinstance(part.get("text", ""), str) for part in parts):
        raise TypeError("content, which has a part that is no text")
    refusals = [refusal, *(part.get("refusal") for part in parts)]
    text = "".join(part.get("text", "") for part in parts)
    return text or next((words for words in refusals if isinstance(words, str) and words), None), any(
        refusals
    )


def _call(call: Mapping[str, Any], number: int) -> ModelCall:
    function = call["function"]
    call_id, tool, arguments = call.get("id") or f"call-{number}", function["name"], function.get("arguments")
    if not isinstance(tool, str) or not tool:
        raise TypeError(f"tool_calls[{number}], which names no tool")
    if not isinstance(arguments, str):
        return ModelCall(str(call_id), tool, {} if arguments is None else arguments)
    if not arguments.strip():
        return ModelCall(str(call_id), tool, {})
    try:
        value = parse(arguments.encode(), source="arguments", limits=Limits(wide_integers=True))
        return ModelCall(str(call_id), tool, value)
    except InvalidInput:
        return ModelCall(str(call_id), tool, storable(arguments), is_readable=False)


def _facts(body: Mapping[str, Any], stop_reason: str) -> AnswerFacts:
    facts = facts_of({**body, "stop_reason": stop_reason})
    response_id = body.get("id")
    return replace(facts, response_id=response_id if isinstance(response_id, str) else None)

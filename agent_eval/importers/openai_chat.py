"""Chat Completions of OpenAI: messages of a request, and the choices of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.dialogue_format import Turn
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    event,
    is_amount,
    items,
    mapping,
    reasoning,
    seconds_of,
    system_message,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.exchange import Exchange, error_of
from agent_eval.importers.vocabulary import ARGUMENTS, IDS, NAMES

CHAT_FIELDS = frozenset(
    {
        *("id", "object", "created", "model", "choices", "usage", "system_fingerprint", "service_tier"),
        *("error", "metadata", "prompt_filter_results", "provider", "moderation", "input_user", "request_id"),
        *("temperature", "top_p", "seed", "tools", "tool_choice", "response_format", "presence_penalty"),
        *("frequency_penalty", "messages", "timings", "stats", "x_groq", "citations", "search_results"),
    }
)
"""Fields of an answer, also of servers that speak the protocol, whose content is read or is no content."""

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def is_chat_messages(value: Any) -> bool:
    """Whether this is a list of messages as Chat Completions has them."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(message, dict)
        and message.get("role") in _ROLES
        and ("content" in message or "tool_calls" in message or "function_call" in message)
        and message.get("type", "message") == "message"
        for message in value[:20]
    )


def chat_turn(exchange: Exchange, place: str, diagnostics: Diagnostics) -> Turn:
    """Read a request with its answer."""
    request, body = mapping(exchange.request), mapping(exchange.response)
    history = [
        chat_message(message, place, f"messages[{number}]", diagnostics)
        for number, message in enumerate(items(request.get("messages")))
    ]
    turn = Turn(history, time=seconds_of(body.get("created")), rank=int(not history))
    error = error_of(exchange.response, exchange.status)
    if error is not None:
        turn.answer = message_of([error_event(error, model=text(request.get("model")))])
        return turn
    choices = [_choice(choice, body, place, diagnostics) for choice in items(body.get("choices"))]
    if choices:
        turn.answer, turn.alternatives = choices[0], choices[1:]
        usage = _usage(body.get("usage"))
        if usage is not None:
            choices[0].events[-1]["usage"] = usage
        cost = mapping(body.get("usage")).get("cost")  # OpenRouter's
        if is_amount(cost):
            choices[0].events[-1]["cost_usd"] = cost
    return turn


def _choice(choice: Any, body: Any, place: str, diagnostics: Diagnostics) -> Message:
    choice = mapping(choice)
    events = _events_of(mapping(choice.get("message")), place, "choices.message", diagnostics)
    if not events:
        events = [agent_message(None)]
    moment, response_id = timestamp_of(body.get("created")), text(body.get("id"))
    for fields in events:
        if moment is not None:
            fields["ts"] = moment
        if response_id is not None:
            fields.setdefault("attributes", {})["gen_ai.response.id"] = response_id
    model, reason = text(body.get("model")), text(choice.get("finish_reason"))
    if model is not None:
        events[-1]["model"] = model
    if reason is not None:
        events[-1].setdefault("stop_reason", reason)
    if reason == "content_filter" and mapping(choice.get("content_filter_results")):
        events[-1].setdefault("attributes", {})["content_filter_results"] = choice["content_filter_results"]
    return message_of(events)


def _usage(usage: Any) -> dict[str, Any] | None:
    usage = mapping(usage)
    return usage_of(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cached=mapping(usage.get("prompt_tokens_details")).get(
            "cached_tokens", usage.get("prompt_cache_hit_tokens")
        ),
        reasoning=mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"),
    )


def chat_message(message: Any, place: str, field: str, diagnostics: Diagnostics) -> Message:
    """Read one message of Chat Completions; also frameworks write such messages.

    It is `{"role", "content", "tool_calls", ...}`.
    `place` is the record, and `field` where in it the message is, for diagnostics.
    """
    message = mapping(message)
    message_id = text(message.get("id")) if message.get("role") == "assistant" else None
    return message_of(_events_of(message, place, field, diagnostics), message_id)


def _events_of(
    message: Mapping[str, Any], place: str, field: str, diagnostics: Diagnostics
) -> list[EventFields]:
    role = message.get("role")
    if role == "assistant":
        return _assistant(message)
    content = message.get("content")
    if role == "user":
        return [user_message(content)]
    if role in ("system", "developer"):
        return [system_message(content)]
    if role == "tool":
        names = ("tool_call_id", "toolCallId", "id")
        call_id = next((message[name] for name in names if text(message.get(name))), None)
        error = message.get("error") or None
        return [tool_result(content, call_id, tool=text(message.get("name")), error=error)]
    if role == "function":
        return [tool_result(content, tool=text(message.get("name")))]
    diagnostics.lost(place, field, f"has the role {role!r}, which is none of this format")
    return []


def _assistant(message: Mapping[str, Any]) -> list[EventFields]:
    events: list[EventFields] = []
    thought = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    if thought is not None:
        events.append(reasoning(thought))
    content = message.get("content")
    if content not in (None, "", []):
        notes = items(message.get("annotations"))
        more = {"attributes": {"openai.annotations": notes}} if notes else {}
        events.append(agent_message(content, **more))
    audio = mapping(message.get("audio"))
    if audio:
        part = {"type": "audio", "data": audio.get("data"), "name": audio.get("id")}
        events.append(agent_message([{"type": "text", "text": audio.get("transcript") or ""}, part]))
    refusal = text(message.get("refusal"))
    if refusal is not None:
        events.append(agent_message(refusal, stop_reason="refusal"))
    calls = items(message.get("tool_calls")) or items(message.get("toolCalls"))
    events += map(_call, map(mapping, calls))
    legacy = mapping(message.get("function_call"))
    if legacy:
        events.append(tool_call(text(legacy.get("name")), legacy.get("arguments")))
    return events


def _call(call: Mapping[str, Any]) -> EventFields:
    custom = mapping(call.get("custom"))
    if custom:
        # The input of a custom tool is free text, not JSON.
        call_id, tool = text(call.get("id")), text(custom.get("name"))
        return event("agent", "tool_call", tool=tool, input=custom.get("input"), call_id=call_id)
    function = mapping(call.get("function")) or call
    arguments = next((function[name] for name in ARGUMENTS if name in function), None)
    named = next((function[name] for name in NAMES if text(function.get(name))), None)
    ids = (call[name] for name in IDS if text(call.get(name)))
    return tool_call(named, arguments, next(ids, None))

"""Chat Completions of OpenAI: messages of a request, and the choices of an answer."""

from __future__ import annotations

from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.dialogue_format import Turn
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
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
from agent_eval.importers.records import Record

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


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


def chat_turn(exchange: Exchange, record: Record, diagnostics: Diagnostics) -> Turn:
    """Read a request with its answer."""
    request, body = mapping(exchange.request), mapping(exchange.response)
    history = [
        chat_message(message, record.place, f"messages[{number}]", diagnostics)
        for number, message in enumerate(items(request.get("messages")))
    ]
    turn = Turn(history, time=seconds_of(body.get("created")))
    error = error_of(exchange.response, exchange.status)
    if error is not None:
        turn.answer = message_of([error_event(error, model=text(request.get("model")))])
        return turn
    choices = [_choice(choice, body, record.place, diagnostics) for choice in items(body.get("choices"))]
    if choices:
        turn.answer, turn.alternatives = choices[0], choices[1:]
        _add_usage(choices[0], body.get("usage"))
    return turn


def _choice(choice: Any, body: Any, place: str, diagnostics: Diagnostics) -> Message:
    choice = mapping(choice)
    message = chat_message(choice.get("message"), place, "choices.message", diagnostics)
    answer = _answer_event(message)
    attributes = {"gen_ai.response.id": body["id"]} if text(body.get("id")) else {}
    for name, value in (
        ("model", text(body.get("model"))),
        ("stop_reason", text(choice.get("finish_reason"))),
        ("ts", timestamp_of(body.get("created"))),
        ("attributes", attributes or None),
    ):
        if value is not None:
            answer.setdefault(name, value)
    return message


def _answer_event(message: Message) -> EventFields:
    """Return the event that carries the answer's model and usage: the last one; a new one if it has none."""
    if not message.events:
        message.events.append(agent_message(None))
    return message.events[-1]


def _add_usage(message: Message, usage: Any) -> None:
    usage = mapping(usage)
    tokens = usage_of(
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cached=mapping(usage.get("prompt_tokens_details")).get("cached_tokens"),
        reasoning=mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"),
    )
    if tokens:
        message.events[-1]["usage"] = tokens


def chat_message(message: Any, place: str, field: str, diagnostics: Diagnostics) -> Message:
    """Read one message of Chat Completions; also frameworks write such messages.

    Args:
        message: `{"role", "content", "tool_calls", ...}`.
        place: The record, for diagnostics.
        field: Where in the record the message is.
        diagnostics: Gets what cannot be taken over.
    """
    message = mapping(message)
    role, content = message.get("role"), message.get("content")
    name = text(message.get("name"))
    if role in ("system", "developer"):
        return message_of([system_message(content)])
    if role == "user":
        return message_of([user_message(content)])
    if role == "tool":
        return message_of([tool_result(content, message.get("tool_call_id"), tool=name)])
    if role == "function":
        return message_of([tool_result(content, tool=name)])
    if role != "assistant":
        diagnostics.lost(place, field, f"has the role {role!r}, which is none of this format")
        return message_of([])
    return message_of(_assistant(message), text(message.get("id")))


def _assistant(message: Any) -> list[EventFields]:
    events: list[EventFields] = []
    thought = text(message.get("reasoning_content")) or text(message.get("reasoning"))
    if thought is not None:
        events.append(reasoning(thought))
    content = message.get("content")
    if content not in (None, "", []):
        events.append(agent_message(content))
    refusal = text(message.get("refusal"))
    if refusal is not None:
        events.append(agent_message(refusal, stop_reason="refusal"))
    for call in map(mapping, items(message.get("tool_calls"))):
        function = mapping(call.get("function")) or mapping(call.get("custom"))
        arguments = function.get("arguments", function.get("input"))
        events.append(tool_call(text(function.get("name")), arguments, call.get("id")))
    legacy = mapping(message.get("function_call"))
    if legacy:
        events.append(tool_call(text(legacy.get("name")), legacy.get("arguments")))
    return events

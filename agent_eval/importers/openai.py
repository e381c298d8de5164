"""Exports of OpenAI, and of servers that speak its protocol: Chat Completions, Responses, Batch, streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.dialogue import Message, Turn, message_of
from agent_eval.importers.events import items, mapping, text
from agent_eval.importers.format import Match
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.provider_format import Exchange, ProviderFormat, exchange_of, with_own_request
from agent_eval.importers.responses_items import is_items
from agent_eval.importers.streams import EventStream, completion_of, first_event, is_event_stream, response_of

_RESPONSE_OBJECTS = ("response", "response.compaction")
_UNFINISHED = ("queued", "in_progress")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


class OpenAI(ProviderFormat):
    """Reads requests and answers of OpenAI's API."""

    name = "openai"
    provider = "openai"
    starts = frozenset({"response.created"})
    hosts: ClassVar = {
        "openai.azure.com": "azure.ai.openai",
        "generativelanguage.googleapis.com": "gcp.gemini",
        "aiplatform.googleapis.com": "gcp.vertex_ai",
        "groq.com": "groq",
        "mistral.ai": "mistral_ai",
        "deepseek.com": "deepseek",
        "x.ai": "x_ai",
        "perplexity.ai": "perplexity",
    }

    @override
    def detect(self, value: Any) -> Match | None:
        fields = mapping(value)
        if is_items(value) or is_items(fields.get("items")):
            return Match(0.75, "responses items")
        if isinstance(value, list):
            return Match(0.6, "chat messages") if is_chat_messages(value) else None
        if "custom_id" in fields and "body" in fields and str(fields.get("url", "")).startswith("/v1/"):
            return Match(0.95, "batch input")
        if {"custom_id", "response", "error"} <= fields.keys():
            return Match(0.95, "batch")
        exchange = exchange_of(value)
        answer = value if exchange is None else exchange.response
        matched = None if exchange is None else _match_of_exchange(exchange)
        if is_event_stream(answer):
            first = mapping(first_event(answer))
            matched = Match(0.95, "responses stream") if _is_response_stream(first) else None
            if first.get("object") == "chat.completion.chunk" or isinstance(first.get("choices"), list):
                matched = matched or Match(0.95, "chat stream")
        return matched or _match_of_body(fields)

    @override
    def exchange(self, value: Any) -> Exchange:
        if isinstance(value, list):
            return Exchange({"messages" if is_chat_messages(value) else "input": value}, None)
        if is_items(value.get("items")):
            return Exchange({"input": value["items"]}, None)
        if "custom_id" in value and "body" in value:
            return Exchange(value["body"], None)
        if "custom_id" in value and "response" in value:
            answer = mapping(value["response"])
            status = answer.get("status_code")
            body = answer.get("body") if value.get("error") is None else {"error": value["error"]}
            return Exchange({}, body, status if isinstance(status, int) else None)
        exchange = exchange_of(value)
        if exchange is not None:
            return exchange
        if "choices" in value or value.get("object") in _RESPONSE_OBJECTS:
            return with_own_request(value)
        return Exchange(value, None)

    @override
    def body_of(self, stream: EventStream) -> tuple[dict[str, Any], bool]:
        is_response = _is_response_stream(stream.events[0] if stream.events else None)
        return response_of(stream) if is_response else completion_of(stream)

    @override
    def history(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        request = mapping(exchange.request)
        if not _is_of_responses(exchange):
            return reader.messages(request.get("messages"), "messages")
        stated = request.get("input")
        history = [message_of([make.user_message(stated)])] if isinstance(stated, str) else []
        history += reader.messages(stated, "input")
        if request.get("instructions") not in (None, ""):
            history.insert(0, message_of([make.system_message(request["instructions"])]))
        return history

    @override
    def answers(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        body, answers = mapping(exchange.response), list[Message]()
        if not _is_of_responses(exchange):
            # Ollama answers with one message, and no choices.
            single = {"message": body.get("message"), "finish_reason": body.get("done_reason")}
            for choice in map(mapping, items(body.get("choices")) or ([single] if "done" in body else [])):
                message = {"role": "assistant", **mapping(choice.get("message"))}
                events = reader.events(message, "choices.message") or [make.agent_message(None)]
                last = make.last_of_agent(events) or events[-1]
                if (reason := text(choice.get("finish_reason"))) is not None:
                    last.setdefault("stop_reason", reason)
                if reason == "content_filter" and mapping(choice.get("content_filter_results")):
                    filtered = {"content_filter_results": choice["content_filter_results"]}
                    last["attributes"] = last.get("attributes", {}) | filtered
                answers.append(message_of(events))
            return answers
        output = items(body.get("output"))
        if not body or body.get("status") in _UNFINISHED or (body.get("error") and not output):
            return []
        if body.get("object") == "response.compaction":
            # What it returns beside the compaction repeats messages of the user.
            output = [item for item in output if mapping(item).get("role") != "user"]
        return [message_of(reader.events_of(output, "output") or [make.agent_message(None)])]

    @override
    def stop_reason(self, body: Mapping[str, Any]) -> str | None:
        reason = text(mapping(body.get("incomplete_details")).get("reason"))
        return reason or (text(body.get("status")) if body.get("status") != "failed" else None)

    @override
    def link(self, turn: Turn, exchange: Exchange) -> None:
        if not _is_of_responses(exchange):
            return
        request, body = mapping(exchange.request), mapping(exchange.response)
        previous = text(request.get("previous_response_id")) or text(body.get("previous_response_id"))
        conversations = (each.get("conversation") for each in (request, body))
        ids = (text(stated) or text(mapping(stated).get("id")) for stated in conversations)
        conversation, own = next(filter(None, ids), None), text(body.get("id"))
        turn.repeats = previous is None and conversation is None
        turn.ids += tuple(f"response:{stated}" for stated in (own, previous) if stated is not None)
        turn.previous = previous
        if conversation is not None:
            turn.id, turn.ids = conversation, (*turn.ids, f"conversation:{conversation}")


def _is_of_responses(exchange: Exchange) -> bool:
    body = mapping(exchange.response)
    is_answer = body.get("object") in _RESPONSE_OBJECTS or "output" in body
    return is_answer or ("input" in mapping(exchange.request) and "choices" not in body)


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


def _is_response_stream(first: Any) -> bool:
    return str(mapping(first).get("type", "")).startswith("response.")


def _match_of_exchange(exchange: Exchange) -> Match | None:
    body = mapping(exchange.response)
    matched = _match_of_body(body) if "messages" not in body else None
    if matched is not None:
        return matched
    request = mapping(exchange.request)
    if not exchange.has_no_answer or exchange.asks_anthropic or body.get("type") == "error":
        return None
    if is_chat_messages(request.get("messages")):
        return Match(0.7, "chat")
    return Match(0.8, "responses") if "input" in request and "model" in request else None


def _match_of_body(value: Mapping[str, Any]) -> Match | None:
    kind = value.get("object")
    if isinstance(value.get("done"), bool) and isinstance(value.get("message"), dict):
        return Match(0.9, "ollama")
    if isinstance(value.get("choices"), list):
        return Match(0.95 if kind in ("chat.completion", "chat.completion.chunk") else 0.7, "chat")
    if kind in _RESPONSE_OBJECTS and isinstance(value.get("output"), list):
        return Match(0.95, "responses")
    if is_chat_messages(value.get("messages")):
        return Match(0.6, "chat messages")
    return Match(0.7, "responses items") if is_items(value.get("input")) and "model" in value else None

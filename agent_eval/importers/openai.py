"""Exports of OpenAI, and of servers that speak its protocol: Chat Completions, Responses, Batch, streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.dialogue_format import DialogueFormat, Turn
from agent_eval.importers.events import (
    agent_message,
    error_event,
    items,
    mapping,
    seconds_of,
    system_message,
    text,
    timestamp_of,
    usage_of,
    user_message,
)
from agent_eval.importers.exchange import Exchange, error_of, exchange_of, with_own_request
from agent_eval.importers.facts import (
    add_record_facts,
    conversation_of,
    record_ids,
    report_unknown,
    settings_of,
)
from agent_eval.importers.format import Match
from agent_eval.importers.openai_chat import CHAT_FIELDS, chat_turn, is_chat_messages
from agent_eval.importers.openai_responses import is_items, item_messages
from agent_eval.importers.openai_streams import completion_of, is_response_stream, response_of
from agent_eval.importers.records import Record
from agent_eval.importers.sse import first_event, is_event_stream, streams_in

_HOSTS = {
    "openai.azure.com": "azure.ai.openai",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "deepseek.com": "deepseek",
    "x.ai": "x_ai",
    "perplexity.ai": "perplexity",
}
"""Names of OpenTelemetry by the end of the host."""

_RESPONSE_OBJECTS = ("response", "response.compaction")
_STARTS = frozenset({"response.created"})
_UNFINISHED = ("queued", "in_progress")

_RESPONSE_FIELDS = frozenset(
    {
        *("id", "object", "created_at", "completed_at", "status", "error", "incomplete_details", "output"),
        *("usage", "model", "previous_response_id", "conversation", "metadata", "instructions", "tools"),
        *("background", "billing", "frequency_penalty", "presence_penalty", "max_output_tokens", "user"),
        *("max_tool_calls", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_retention", "reasoning"),
        *("safety_identifier", "service_tier", "store", "temperature", "text", "tool_choice", "top_logprobs"),
        *("top_p", "truncation", "output_text", "prompt", "moderation", "content_filters", "input"),
    }
)


class OpenAI(DialogueFormat):
    """Reads requests and answers of OpenAI's API."""

    name = "openai"
    provider = "openai"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            return _match_of_list(value)
        if isinstance(value, str):
            return _match_of_stream(value)
        if not isinstance(value, dict):
            return None
        return _match_of_batch(value) or _match_of_exchange(value) or _match_of_body(value)

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        value = record.value
        if isinstance(value, str):
            return [
                _turn(Exchange({}, body), {}, record.place, diagnostics)
                for body in _bodies(value, record.place, diagnostics)
            ]
        if isinstance(value, list):
            name = "messages" if is_chat_messages(value) else "input"
            return [_turn(Exchange({name: value}, None), {}, record.place, diagnostics)]
        exchange = _exchange(value)
        if is_event_stream(exchange.response):
            bodies = list(_bodies(exchange.response, record.place, diagnostics))
            exchange = Exchange(
                exchange.request, bodies[-1] if bodies else None, exchange.status, exchange.url
            )
        return [_turn(exchange, value, record.place, diagnostics)]


def _match_of_list(value: list[Any]) -> Match | None:
    if is_items(value):
        return Match(0.75, "responses items")
    return Match(0.6, "chat messages") if is_chat_messages(value) else None


def _match_of_stream(value: str) -> Match | None:
    if not is_event_stream(value):
        return None
    first = first_event(value)
    if is_response_stream(first):
        return Match(0.95, "responses stream")
    return Match(0.95, "chat stream") if _is_chunk(first) else None


def _is_chunk(value: Any) -> bool:
    return mapping(value).get("object") == "chat.completion.chunk" or isinstance(
        mapping(value).get("choices"), list
    )


def _match_of_batch(value: Mapping[str, Any]) -> Match | None:
    if "custom_id" not in value:
        return None
    if "body" in value and str(value.get("url", "")).startswith("/v1/"):
        return Match(0.95, "batch input")
    if "response" in value and "error" in value:
        return Match(0.95, "batch")
    return None


def _match_of_exchange(value: Mapping[str, Any]) -> Match | None:
    exchange = exchange_of(value)
    if exchange is None:
        return None
    if isinstance(exchange.response, str) and is_event_stream(exchange.response):
        return _match_of_stream(exchange.response)
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
    if isinstance(value.get("choices"), list):
        return Match(0.95 if kind in ("chat.completion", "chat.completion.chunk") else 0.7, "chat")
    if kind in _RESPONSE_OBJECTS and isinstance(value.get("output"), list):
        return Match(0.95, "responses")
    if is_chat_messages(value.get("messages")):
        return Match(0.6, "chat messages")
    if is_items(value.get("input")) and "model" in value:
        return Match(0.7, "responses items")
    return None


def _exchange(value: Mapping[str, Any]) -> Exchange:
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


def _bodies(stream: str, place: str, diagnostics: Diagnostics) -> Iterator[dict[str, Any]]:
    for number, events in enumerate(streams_in(stream, _STARTS)):
        first = events.events[0] if events.events else None
        body, whole = response_of(events) if is_response_stream(first) else completion_of(events)
        for problem in events.broken:
            diagnostics.lost(place, f"stream[{number}]", problem)
        if not whole:
            diagnostics.lost(place, f"stream[{number}]", "ends before the answer does")
        yield body


def _turn(exchange: Exchange, record: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Turn:
    request, body = mapping(exchange.request), mapping(exchange.response)
    if "input" in request or body.get("object") in _RESPONSE_OBJECTS or "output" in body:
        turn = _responses_turn(exchange, place, diagnostics)
    else:
        turn = chat_turn(exchange, place, diagnostics)
        report_unknown(body, CHAT_FIELDS, place, "response.", diagnostics)
    settings = settings_of(request)
    if settings:
        turn.metadata["request"] = settings
    conversation = conversation_of(record, request)
    custom = text(record.get("custom_id"))
    if conversation is not None:
        turn.id = conversation
        turn.ids += (f"conversation:{conversation}",)
    elif custom is not None:
        turn.id = custom
        turn.ids += (f"custom:{custom}",)
        turn.rank = int("response" in record)
    elif exchange.response is None:
        turn.id = next(iter(record_ids(request)), None)
    turn.aliases = record_ids(record)
    if exchange_of(record) is not None or exchange.response is None or custom is not None:
        add_record_facts(record, turn.answer.events if turn.answer is not None else [], turn.metadata)
    provider = _provider_at(exchange.url)
    for fields in turn.answer.events if turn.answer is not None and provider is not None else ():
        fields.setdefault("attributes", {})["gen_ai.provider.name"] = provider
    return turn


def _provider_at(url: str) -> str | None:
    """Return who answered, for others who speak OpenAI's protocol; None for OpenAI and unknown ones."""
    if not url:
        return None
    try:
        host = f".{urlsplit(url).hostname or ''}"
    except ValueError:
        return None
    return next((name for end, name in _HOSTS.items() if host.endswith(f".{end}")), None)


def _responses_turn(exchange: Exchange, place: str, diagnostics: Diagnostics) -> Turn:
    request, body = mapping(exchange.request), mapping(exchange.response)
    previous = text(request.get("previous_response_id")) or text(body.get("previous_response_id"))
    conversation = _conversation_id(request.get("conversation")) or _conversation_id(body.get("conversation"))
    turn = Turn(_history(request, place, diagnostics), repeats=previous is None and conversation is None)
    turn.time = seconds_of(body.get("created_at"))
    own = text(body.get("id"))
    turn.ids = tuple(f"response:{stated}" for stated in (own, previous) if stated is not None)
    turn.own, turn.previous = own, previous
    turn.rank = int(not turn.history)
    if conversation is not None:
        turn.ids += (f"conversation:{conversation}",)
        turn.id = conversation
    report_unknown(body, _RESPONSE_FIELDS, place, "response.", diagnostics)
    error = error_of(exchange.response, exchange.status)
    if error is not None and not items(body.get("output")):
        failed = error_event(error, model=text(body.get("model")) or text(request.get("model")))
        turn.answer = message_of([failed], own)
    elif body and body.get("status") not in _UNFINISHED:
        turn.answer = _answer(body, error, place, diagnostics)
    return turn


def _conversation_id(value: Any) -> str | None:
    return text(value) or text(mapping(value).get("id"))


def _history(request: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> list[Message]:
    stated = request.get("input")
    history = [message_of([user_message(stated)])] if isinstance(stated, str) else []
    if isinstance(stated, list):
        history = item_messages(stated, place, "input", diagnostics)
    instructions = request.get("instructions")
    if instructions not in (None, ""):
        history.insert(0, message_of([system_message(instructions)]))
    return history


def _answer(body: Mapping[str, Any], error: Any, place: str, diagnostics: Diagnostics) -> Message:
    output = items(body.get("output"))
    if body.get("object") == "response.compaction":
        # What it returns beside the compaction repeats messages of the user.
        output = [item for item in output if mapping(item).get("role") != "user"]
    messages = item_messages(output, place, "output", diagnostics)
    events = [fields for message in messages for fields in message.events]
    if not events:
        events.append(agent_message(None))
    if error is not None:
        events.append(error_event(error))
    moment, model = timestamp_of(body.get("created_at")), text(body.get("model"))
    attributes = {"gen_ai.response.id": body["id"]} if text(body.get("id")) else {}
    for fields in events:
        if moment is not None:
            fields["ts"] = moment
        fields.setdefault("attributes", {}).update(attributes)
    last = next((fields for fields in reversed(events) if fields["actor"] == "agent"), events[-1])
    if model is not None:
        last["model"] = model
    reason = text(mapping(body.get("incomplete_details")).get("reason")) or text(body.get("status"))
    if reason is not None and body.get("status") != "failed":
        last.setdefault("stop_reason", reason)
    usage = _usage(body.get("usage"))
    if usage is not None:
        last["usage"] = usage
    return message_of(events, text(body.get("id")))


def _usage(usage: Any) -> dict[str, Any] | None:
    usage = mapping(usage)
    return usage_of(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached=mapping(usage.get("input_tokens_details")).get("cached_tokens"),
        reasoning=mapping(usage.get("output_tokens_details")).get("reasoning_tokens"),
    )

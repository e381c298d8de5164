"""Exports of Anthropic: messages, message batches, event streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from agent_eval.importers.anthropic_blocks import block_events, history_message, is_anthropic_messages
from agent_eval.importers.anthropic_streams import message_of_stream
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.dialogue_format import DialogueFormat, Turn
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    event,
    items,
    mapping,
    seconds_of,
    system_message,
    text,
    total,
    usage_of,
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
from agent_eval.importers.records import Record
from agent_eval.importers.sse import first_event, is_event_stream, streams_in

_STARTS = frozenset({"message_start"})
_BATCH_RESULTS = ("succeeded", "errored", "canceled", "expired")
_MESSAGE_FIELDS = frozenset(
    {
        *("id", "type", "role", "content", "model", "stop_reason", "stop_sequence", "stop_details", "usage"),
        *("container", "context_management", "error", "request_id", "input_tokens"),
    }
)


class Anthropic(DialogueFormat):
    """Reads requests and answers of Anthropic's API."""

    name = "anthropic"
    provider = "anthropic"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            return Match(0.8, "message list") if is_anthropic_messages(value) else None
        if isinstance(value, str):
            return _match_of_stream(value)
        if not isinstance(value, dict):
            return None
        if mapping(value.get("result")).get("type") in _BATCH_RESULTS and "custom_id" in value:
            return Match(0.95, "batch")
        if "custom_id" in value and _is_request(mapping(value.get("params"))):
            return Match(0.9, "batch input")
        exchange = exchange_of(value)
        return _match_of_body(value) if exchange is None else _match_of_exchange(exchange)

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        value, place = record.value, record.place
        if isinstance(value, str):
            bodies = _bodies(value, place, diagnostics)
            return [_turn(Exchange({}, body), {}, place, diagnostics) for body in bodies]
        if isinstance(value, list):
            return [_turn(Exchange({"messages": value}, None), {}, place, diagnostics)]
        exchange = _exchange(value)
        if is_event_stream(exchange.response):
            answers = list(_bodies(exchange.response, place, diagnostics))
            exchange = replace(exchange, response=answers[-1] if answers else None)
        return [_turn(exchange, value, place, diagnostics)]


def _match_of_stream(value: str) -> Match | None:
    first = mapping(first_event(value)) if is_event_stream(value) else {}
    return Match(0.95, "stream") if first.get("type") == "message_start" else None


def _match_of_exchange(exchange: Exchange) -> Match | None:
    if isinstance(exchange.response, str) and is_event_stream(exchange.response):
        return _match_of_stream(exchange.response)
    body, request = mapping(exchange.response), mapping(exchange.request)
    if body.get("type") == "error" and "messages" in request:
        return Match(0.9, "messages")
    if "/count_tokens" in exchange.url or (set(body) == {"input_tokens"} and "messages" in request):
        return Match(0.9, "count_tokens")
    if exchange.has_no_answer and exchange.asks_anthropic and isinstance(request.get("messages"), list):
        return Match(0.85, "messages")
    return _match_of_body(body) if "content" in body else None


def _match_of_body(value: Mapping[str, Any]) -> Match | None:
    if value.get("type") == "message" and isinstance(value.get("content"), list):
        # A message of Responses has this type as well, but no stop reason and no block of Anthropic's.
        own = "stop_reason" in value or "usage" in value or value.get("role") == "assistant"
        return Match(0.95, "messages") if own and "status" not in value else None
    messages = value.get("messages")
    if is_anthropic_messages(messages) or (
        isinstance(messages, list) and Exchange(value, None).asks_anthropic
    ):
        return Match(0.85, "message list")
    return None


def _is_request(value: Mapping[str, Any]) -> bool:
    return "max_tokens" in value and isinstance(value.get("messages"), list)


def _exchange(value: Mapping[str, Any]) -> Exchange:
    result = mapping(value.get("result"))
    if result.get("type") in _BATCH_RESULTS:
        return Exchange({}, result.get("message") or _batch_error(result))
    if "custom_id" in value and "params" in value:
        return Exchange(value["params"], None)
    exchange = exchange_of(value)
    if exchange is not None:
        return exchange
    return with_own_request(value) if "content" in value else Exchange(value, None)


def _batch_error(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error of a batch's request, which has one more envelope than that of a single one."""
    error = mapping(result.get("error"))
    return {"error": error.get("error") or error or {"type": result["type"]}}


def _bodies(stream: str, place: str, diagnostics: Diagnostics) -> Iterator[dict[str, Any]]:
    for number, events in enumerate(streams_in(stream, _STARTS)):
        body, whole = message_of_stream(events)
        for problem in events.broken:
            diagnostics.lost(place, f"stream[{number}]", problem)
        if not whole:
            diagnostics.lost(place, f"stream[{number}]", "ends before the answer does")
        yield body


def _turn(exchange: Exchange, record: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Turn:
    request, body = mapping(exchange.request), mapping(exchange.response)
    system = request.get("system")
    history = [message_of([system_message(system)])] if system not in (None, "", []) else []
    for number, message in enumerate(items(request.get("messages"))):
        history.append(history_message(message, place, f"messages[{number}]", diagnostics))
    turn = Turn(history, rank=int(not history))
    turn.time = seconds_of(record.get("timestamp") or record.get("created_at"))
    report_unknown(body, _MESSAGE_FIELDS, place, "response.", diagnostics)
    error = error_of(exchange.response, exchange.status)
    if error is not None and "content" not in body:
        turn.answer = message_of([error_event(error, model=text(request.get("model")))])
    elif "content" in body:
        turn.answer = _answer(body, place, diagnostics)
        if error is not None:
            turn.answer = message_of([*turn.answer.events, error_event(error)], turn.answer.id)
    settings = settings_of(request)
    if settings:
        turn.metadata["request"] = settings
    _add_ids(turn, record, request)
    if exchange_of(record) is not None or exchange.response is None:
        add_record_facts(record, turn.answer.events if turn.answer is not None else [], turn.metadata)
    return turn


def _add_ids(turn: Turn, record: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    conversation, custom = conversation_of(record, request), text(record.get("custom_id"))
    if conversation is not None:
        turn.id, turn.ids = conversation, (f"conversation:{conversation}",)
    elif custom is not None:
        turn.id, turn.ids = custom, (f"custom:{custom}",)
        turn.rank = int("result" in record)
    turn.aliases = record_ids(record) if record.get("type") != "message" else ()


def _answer(body: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Message:
    events: list[EventFields] = []
    for number, block in enumerate(items(body.get("content"))):
        events += block_events(block, "assistant", place, f"content[{number}]", diagnostics)
    if isinstance(body.get("content"), str) and body["content"]:
        events.append(agent_message(body["content"]))
    if not any(fields["actor"] == "agent" for fields in events):
        events.append(agent_message(None))
    last = next(fields for fields in reversed(events) if fields["actor"] == "agent")
    for name, value in (("model", text(body.get("model"))), ("stop_reason", text(body.get("stop_reason")))):
        if value is not None:
            last[name] = value
    own = text(body.get("id"))
    if own is not None:
        for fields in events:
            fields.setdefault("attributes", {})["gen_ai.response.id"] = own
    last.update({"usage": usage} if (usage := _usage(mapping(body.get("usage")))) else {})
    return message_of(events + _other_models(mapping(body.get("usage"))), own)


def _usage(usage: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read the tokens of an answer; its input leaves out what came from the cache or went there."""
    cached, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    return usage_of(
        input_tokens=total(usage.get("input_tokens"), cached, written),
        output_tokens=usage.get("output_tokens"),
        cached=cached,
        cache_write=written,
        reasoning=mapping(usage.get("output_tokens_details")).get("thinking_tokens"),
    )


def _other_models(usage: Mapping[str, Any]) -> list[EventFields]:
    """Return the calls of other models within an answer, such as an advisor's: its usage leaves them out."""
    return [
        event("agent", "model_call", model=text(iteration.get("model")), usage=_usage(iteration))
        for iteration in map(mapping, items(usage.get("iterations")))
        if iteration.get("type") not in (None, "message", "compaction")
    ]

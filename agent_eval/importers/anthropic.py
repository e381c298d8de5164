"""Exports of Anthropic: messages, message batches, event streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import items, mapping, text, usage_in
from agent_eval.importers.format import Match
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.provider_format import Exchange, ProviderFormat, exchange_of, with_own_request
from agent_eval.importers.streams import EventStream, anthropic_message_of, first_event, is_event_stream

_BATCH_RESULTS = ("succeeded", "errored", "canceled", "expired")
_BLOCKS = frozenset(
    {"tool_use", "server_tool_use", "mcp_tool_use", "tool_result", "thinking", "redacted_thinking"}
)
"""Blocks that only Anthropic has, beside results of its own tools."""


class Anthropic(ProviderFormat):
    """Reads requests and answers of Anthropic's API."""

    name = "anthropic"
    provider = "anthropic"
    starts = frozenset({"message_start"})

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            return Match(0.8, "message list") if _is_anthropic_messages(value) else None
        fields = mapping(value)
        if mapping(fields.get("result")).get("type") in _BATCH_RESULTS and "custom_id" in fields:
            return Match(0.95, "batch")
        asked = mapping(fields.get("params"))
        if "custom_id" in fields and "max_tokens" in asked and isinstance(asked.get("messages"), list):
            return Match(0.9, "batch input")
        exchange = exchange_of(value)
        answer = value if exchange is None else exchange.response
        if is_event_stream(answer):
            begins = mapping(first_event(answer)).get("type") == "message_start"
            return Match(0.95, "stream") if begins else None
        if exchange is None:
            return _match_of_body(fields)
        body, request = mapping(exchange.response), mapping(exchange.request)
        if body.get("type") == "error" and "messages" in request:
            return Match(0.9, "messages")
        if "/count_tokens" in exchange.url or (set(body) == {"input_tokens"} and "messages" in request):
            return Match(0.9, "count_tokens")
        if exchange.has_no_answer and exchange.asks_anthropic and isinstance(request.get("messages"), list):
            return Match(0.85, "messages")
        return _match_of_body(body) if "content" in body else None

    @override
    def exchange(self, value: Any) -> Exchange:
        if isinstance(value, list):
            return Exchange({"messages": value}, None)
        result = mapping(value.get("result"))
        if result.get("type") in _BATCH_RESULTS:
            # The error of a batch's request has one more envelope than that of a single one.
            error = mapping(result.get("error"))
            failed = {"error": error.get("error") or error or {"type": result["type"]}}
            return Exchange({}, result.get("message") or failed)
        if "custom_id" in value and "params" in value:
            return Exchange(value["params"], None)
        exchange = exchange_of(value)
        if exchange is not None:
            return exchange
        return with_own_request(value) if "content" in value else Exchange(value, None)

    @override
    def body_of(self, stream: EventStream) -> tuple[dict[str, Any], bool]:
        return anthropic_message_of(stream)

    @override
    def history(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        request = mapping(exchange.request)
        system = request.get("system")
        history = [message_of([make.system_message(system)])] if system not in (None, "", []) else []
        return history + reader.messages(request.get("messages"), "messages")

    @override
    def answers(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        body = mapping(exchange.response)
        if "content" not in body:
            return []
        events = reader.blocks(body["content"], "agent", "content")
        if not any(fields["actor"] == "agent" for fields in events):
            events.append(make.agent_message(None))
        # Calls of other models within an answer, such as an advisor's: its usage leaves them out.
        others = [
            make.event("agent", "model_call", model=text(step.get("model")), usage=usage_in(step))
            for step in map(mapping, items(mapping(body.get("usage")).get("iterations")))
            if step.get("type") not in (None, "message", "compaction")
        ]
        return [message_of(others + events)]


def _is_anthropic_messages(value: Any) -> bool:
    """Whether this is a list of messages of which a block is Anthropic's alone."""
    messages = [mapping(message) for message in items(value)[:50]]
    if not all(message.get("role") in ("user", "assistant") for message in messages):
        return False
    kinds = [mapping(block).get("type") for message in messages for block in items(message.get("content"))]
    return any(isinstance(kind, str) and (kind in _BLOCKS or kind.endswith("_tool_result")) for kind in kinds)


def _match_of_body(value: Mapping[str, Any]) -> Match | None:
    if value.get("type") == "message" and isinstance(value.get("content"), list):
        # A message of Responses has this type as well, but no stop reason and no block of Anthropic's.
        own = "stop_reason" in value or "usage" in value or value.get("role") == "assistant"
        return Match(0.95, "messages") if own and "status" not in value else None
    messages = value.get("messages")
    is_asked = isinstance(messages, list) and Exchange(value, None).asks_anthropic
    return Match(0.85, "message list") if is_asked or _is_anthropic_messages(messages) else None

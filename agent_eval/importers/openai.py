"""Exports of OpenAI, and of servers that speak its protocol: Chat Completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue_format import DialogueFormat, Turn
from agent_eval.importers.events import mapping
from agent_eval.importers.exchange import Exchange, exchange_of
from agent_eval.importers.format import Match
from agent_eval.importers.openai_chat import chat_turn, is_chat_messages
from agent_eval.importers.records import Record


class OpenAI(DialogueFormat):
    """Reads requests and answers of OpenAI's API.

    Example:
        >>> OpenAI().detect({"object": "chat.completion", "choices": []})
        Match(confidence=0.95, variant='chat')
    """

    name = "openai"
    provider = "openai"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            return Match(0.6, "chat messages") if is_chat_messages(value) else None
        if not isinstance(value, dict):
            return None
        exchange = exchange_of(value)
        body = value if exchange is None else exchange.response
        if isinstance(body, dict) and isinstance(body.get("choices"), list):
            return Match(0.95 if body.get("object") == "chat.completion" else 0.7, "chat")
        if exchange is None and is_chat_messages(value.get("messages")):
            return Match(0.6, "chat messages")
        if exchange is not None and is_chat_messages(mapping(exchange.request).get("messages")):
            error = mapping(exchange.response)
            return Match(0.7, "chat") if "error" in error and error.get("type") != "error" else None
        return None

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        value = {"messages": record.value} if isinstance(record.value, list) else record.value
        exchange = exchange_of(value)
        if exchange is None:
            exchange = Exchange({}, value) if "choices" in value else Exchange(value, None)
        return [chat_turn(exchange, record, diagnostics)]

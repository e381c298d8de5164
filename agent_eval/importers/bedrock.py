"""Requests to Amazon Bedrock's Converse with their answers, recorded by a proxy or by Bedrock's own log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import message_of
from agent_eval.importers.dialogue_format import DialogueFormat, Turn
from agent_eval.importers.events import error_event, items, mapping, seconds_of, system_message, text
from agent_eval.importers.exchange import Exchange, error_of, exchange_of
from agent_eval.importers.facts import add_record_facts, conversation_of, record_ids
from agent_eval.importers.format import Match
from agent_eval.importers.messages import MessageReader, usage_in
from agent_eval.importers.records import Record

_LOG = "ModelInvocationLog"


class Bedrock(DialogueFormat):
    """Reads exchanges with Converse, and Bedrock's log of invocations where these were of Converse."""

    name = "bedrock"
    provider = "aws.bedrock"

    @override
    def detect(self, value: Any) -> Match | None:
        exchange = _exchange(value)
        if exchange is None:
            return None
        answer = mapping(exchange.response)
        if "stopReason" in answer and "message" in mapping(answer.get("output")):
            return Match(0.95, "converse")
        asked = "/converse" in exchange.url and isinstance(mapping(exchange.request).get("messages"), list)
        return Match(0.9, "converse") if asked else None

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        exchange = _exchange(record.value) or Exchange({}, None)
        value, request, answer = record.value, mapping(exchange.request), mapping(exchange.response)
        reader = MessageReader(record.place, diagnostics)
        history = [
            message_of(events)
            for number, message in enumerate(items(request.get("messages")))
            if (events := reader.read(message, f"messages[{number}]"))
        ]
        instructions = "".join(
            text(mapping(block).get("text")) or "" for block in items(request.get("system"))
        )
        if instructions:
            history.insert(0, message_of([system_message(instructions)]))
        turn = Turn(history, id=conversation_of(value, request), aliases=record_ids(mapping(value)))
        turn.time = seconds_of(mapping(value).get("timestamp"))
        error = error_of(exchange.response, exchange.status)
        events = reader.read(mapping(answer.get("output")).get("message"), "output.message")
        if events:
            usage, reason = usage_in(answer.get("usage")), text(answer.get("stopReason"))
            last = next((fields for fields in reversed(events) if fields["actor"] == "agent"), events[-1])
            last.update(
                {name: stated for name, stated in (("usage", usage), ("stop_reason", reason)) if stated}
            )
            if model := text(mapping(value).get("modelId")):
                last["model"] = model
        elif error is not None:
            events = [error_event(error)]
        add_record_facts(mapping(value), events, turn.metadata)
        turn.answer = message_of(events) if events else None
        return [turn]


def _exchange(value: Any) -> Exchange | None:
    fields = mapping(value)
    if fields.get("schemaType") == _LOG:
        return _logged(fields)
    return exchange_of(value) or (Exchange({}, value) if "stopReason" in fields else None)


def _logged(fields: Mapping[str, Any]) -> Exchange:
    asked, answered = mapping(fields.get("input")), mapping(fields.get("output"))
    return Exchange(asked.get("inputBodyJson"), answered.get("outputBodyJson"))

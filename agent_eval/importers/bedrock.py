"""Requests to Amazon Bedrock's Converse with their answers, recorded by a proxy or by Bedrock's own log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import items, mapping, text
from agent_eval.importers.format import Match
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.provider_format import Exchange, ProviderFormat, exchange_of
from agent_eval.importers.streams import EventStream, converse_answer_of


class Bedrock(ProviderFormat):
    """Reads exchanges with Converse, and Bedrock's log of invocations where these were of Converse."""

    name = "bedrock"
    provider = "aws.bedrock"

    @override
    def detect(self, value: Any) -> Match | None:
        exchange = self.exchange(value)
        answer = mapping(exchange.response)
        if "stopReason" in answer and "message" in mapping(answer.get("output")):
            is_log = mapping(value).get("schemaType") == "ModelInvocationLog"
            return Match(0.95, "log" if is_log else "converse")
        asked = "/converse" in exchange.url and isinstance(mapping(exchange.request).get("messages"), list)
        return Match(0.9, "converse") if asked else None

    @override
    def exchange(self, value: Any) -> Exchange:
        fields = mapping(value)
        if fields.get("schemaType") == "ModelInvocationLog":
            asked, answered = mapping(fields.get("input")), mapping(fields.get("output"))
            # Beside the body, the log names the model.
            body = {**mapping(answered.get("outputBodyJson")), "model": fields.get("modelId")}
            return Exchange(asked.get("inputBodyJson"), body)
        exchange = exchange_of(value) or Exchange({}, value if "stopReason" in fields else None)
        streamed = items(exchange.response)
        is_stream = bool(streamed) and "messageStart" in mapping(streamed[0])
        return replace(exchange, response=converse_answer_of(streamed)) if is_stream else exchange

    @override
    def body_of(self, stream: EventStream) -> tuple[dict[str, Any], bool]:
        return {}, False  # Converse streams in an encoding of its own, which recorders write as a list

    @override
    def history(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        request = mapping(exchange.request)
        blocks = (text(mapping(block).get("text")) for block in items(request.get("system")))
        system = "".join(filter(None, blocks))
        history = [message_of([make.system_message(system)])] if system else []
        return history + reader.messages(request.get("messages"), "messages")

    @override
    def answers(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        message = mapping(mapping(exchange.response).get("output")).get("message")
        return [reader.message(message, "output.message")] if message else []

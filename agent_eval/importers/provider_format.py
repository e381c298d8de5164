"""Base of the formats of model providers: a request with its answer, whole or as an event stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.dialogue_format import DialogueFormat, Turn
from agent_eval.importers.events import EventFields, mapping, text
from agent_eval.importers.exchange import (
    Exchange,
    add_record_facts,
    conversation_of,
    error_of,
    exchange_of,
    record_ids,
    settings_of,
)
from agent_eval.importers.known_fields import report_unknown
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.records import Record
from agent_eval.importers.streams import EventStream, is_event_stream, streams_in
from agent_eval.importers.usage import usage_in

_TIMES = ("created", "created_at", "createTime", "create_time")


class ProviderFormat(DialogueFormat):
    """Reads requests and answers; a subclass says where in them the messages are."""

    starts: ClassVar[frozenset[str]] = frozenset()
    """Types of events that begin a stream."""
    hosts: ClassVar[Mapping[str, str]] = {}
    """Names of providers by OpenTelemetry, by the end of the host that answered."""

    @abstractmethod
    def exchange(self, value: Any) -> Exchange:
        """Return what a record holds of a request and its answer."""

    @abstractmethod
    def history(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        """Read the messages of a request."""

    @abstractmethod
    def answers(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        """Read an answer, or several to one request; none where there is none yet."""

    @abstractmethod
    def body_of(self, stream: EventStream) -> tuple[dict[str, Any], bool]:
        """Put an event stream together to the body of an answer; also whether the stream is whole."""

    def model(self, exchange: Exchange) -> str | None:
        """Return the model that answered."""
        asked, body = mapping(exchange.request), mapping(exchange.response)
        return text(body.get("model")) or text(asked.get("model"))

    def stop_reason(self, body: Mapping[str, Any]) -> str | None:
        """Return why the model stopped, where the answer as a whole says it."""
        return text(body.get("stop_reason")) or text(body.get("stopReason"))

    def settings(self, exchange: Exchange) -> dict[str, Any]:
        """Return the settings of a request."""
        return settings_of(mapping(exchange.request))

    def link(self, turn: Turn, exchange: Exchange) -> None:
        """Add the ids by which an API says that one answer continues another."""

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        value, place = record.value, record.place
        if isinstance(value, str):
            bodies = self._bodies(value, place, diagnostics)
            return [self._turn(Exchange({}, body), {}, place, diagnostics) for body in bodies]
        exchange = self.exchange(value)
        if is_event_stream(exchange.response):
            answers = list(self._bodies(exchange.response, place, diagnostics))
            exchange = replace(exchange, response=answers[-1] if answers else None)
        return [self._turn(exchange, mapping(value), place, diagnostics)]

    def _bodies(self, stream: str, place: str, diagnostics: Diagnostics) -> Iterator[dict[str, Any]]:
        for number, events in enumerate(streams_in(stream, self.starts)):
            body, whole = self.body_of(events)
            for problem in events.broken:
                diagnostics.lost(place, f"stream[{number}]", problem)
            if not whole:
                diagnostics.lost(place, f"stream[{number}]", "ends before the answer does")
            yield body

    def _turn(
        self, exchange: Exchange, record: Mapping[str, Any], place: str, diagnostics: Diagnostics
    ) -> Turn:
        request, body = mapping(exchange.request), mapping(exchange.response)
        reader = MessageReader(place, diagnostics)
        turn = Turn(self.history(exchange, reader))
        turn.rank = int(not turn.history)
        times = (*(body.get(name) for name in _TIMES), record.get("timestamp"), record.get("created_at"))
        turn.time = make.seconds_of(next(filter(None, times), None))
        report_unknown(body, f"{self.name} answer", place, "response.", diagnostics)
        error = error_of(exchange.response, exchange.status)
        answers = self.answers(exchange, reader)
        if answers:
            self._describe(answers, exchange)
        if error is not None:
            failed = make.error_event(error, model=None if answers else self.model(exchange))
            before = answers[0].events if answers else []
            answers = [message_of([*before, failed], answers[0].id if answers else self._id_of(body))]
        turn.answer, turn.alternatives = (answers[0] if answers else None), answers[1:]
        if settings := self.settings(exchange):
            turn.metadata["request"] = settings
        self.link(turn, exchange)
        self._add_ids(turn, exchange, record, request)
        if exchange_of(record) is not None or exchange.response is None or "custom_id" in record:
            add_record_facts(record, turn.answer.events if turn.answer is not None else [], turn.metadata)
        return turn

    def _id_of(self, body: Mapping[str, Any]) -> str | None:
        """Return the id by which another record may repeat an answer; a completion's never does."""
        return text(body.get("id")) if "choices" not in body else None

    def _describe(self, answers: Sequence[Message], exchange: Exchange) -> None:
        """Add what an answer says of itself: its time, its id, its model, its tokens."""
        body = mapping(exchange.response)
        moment = next((ts for name in _TIMES if (ts := make.timestamp_of(body.get(name)))), None)
        own = next(
            (text(body.get(name)) for name in ("id", "responseId", "response_id") if name in body), None
        )
        attributes = {"gen_ai.response.id": own} if own else {}
        if (provider := self._provider_at(exchange.url)) is not None:
            attributes["gen_ai.provider.name"] = provider
        model, reason = self.model(exchange), self.stop_reason(body)
        for answer in answers:
            for fields in answer.events:
                if moment is not None:
                    fields["ts"] = moment
                if attributes:
                    fields["attributes"] = {**fields.get("attributes", {}), **attributes}
            last = last_of_agent(answer.events)
            if model is not None:
                last["model"] = model
            if reason is not None:
                last.setdefault("stop_reason", reason)
            answer.id = answer.id or self._id_of(body)
        stated = body.get("usage", body.get("usageMetadata", body.get("usage_metadata")))
        stated = body if stated is None and "eval_count" in body else stated  # Ollama's
        if usage := usage_in(stated):
            last_of_agent(answers[0].events)["usage"] = usage
        if make.is_amount(cost := mapping(stated).get("cost")):  # OpenRouter's
            last_of_agent(answers[0].events)["cost_usd"] = cost

    def _provider_at(self, url: str) -> str | None:
        """Return who answered, for others who speak the protocol; None for the provider and unknown ones."""
        if not url or not self.hosts:
            return None
        try:
            host = f".{urlsplit(url).hostname or ''}"
        except ValueError:
            return None
        return next((name for end, name in self.hosts.items() if host.endswith((f".{end}", f"-{end}"))), None)

    def _add_ids(
        self, turn: Turn, exchange: Exchange, record: Mapping[str, Any], request: Mapping[str, Any]
    ) -> None:
        conversation, custom = conversation_of(record, request), text(record.get("custom_id"))
        if conversation is not None:
            turn.id = conversation
            turn.ids += (f"conversation:{conversation}",)
        elif custom is not None:
            turn.id = custom
            turn.ids += (f"custom:{custom}",)
            turn.rank = int("response" in record or "result" in record)
        elif text(record.get("key")) is not None:  # batches of Gemini have a key for each request
            turn.id = record["key"]
        elif exchange.response is None:
            turn.id = next(iter(record_ids(request)), None)
        turn.aliases = record_ids(record) if record.get("type") != "message" else ()


def last_of_agent(events: Sequence[EventFields]) -> EventFields:
    """Return the last event of the agent, or the last of all: the one that has tokens and model."""
    return next((fields for fields in reversed(events) if fields["actor"] == "agent"), events[-1])

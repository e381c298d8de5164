"""Base of the formats of model providers: a request with its answer, whole or as an event stream."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import DialogueFormat, Message, Turn, message_of
from agent_eval.importers.events import arguments_of, is_amount, items, mapping, text, text_or_none, usage_in
from agent_eval.importers.known_fields import report_unknown_in
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.records import Record
from agent_eval.importers.streams import EventStream, is_event_stream, streams_in

_REQUESTS = ("request", "request_body", "kwargs")
_ANSWERS = ("response", "response_body", "completion")
_BODIES = ("body", "json", "content")
_PARTS = ("messages", "input", "contents")
"""What a request is made of, where it is recorded without an object of its own."""

_ENVELOPE = frozenset({"headers", "status_code", "method", "request_id"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request to a model with its answer; either may be missing.

    Attributes:
        request: The request's body; empty if it was not recorded.
        response: The answer's body, or the text of its event stream; None if it was not recorded.
        url: Where the request went; empty if that was not recorded.
    """

    request: Any
    response: Any
    status: int | None = None
    url: str = ""

    @property
    def is_error(self) -> bool:
        """Whether the status says that the request failed."""
        return self.status is not None and self.status >= 400

    @property
    def has_no_answer(self) -> bool:
        """Whether the request failed or its answer was not recorded: only the request says who got it."""
        return self.is_error or self.response in (None, "") or "error" in mapping(self.response)

    @property
    def asks_anthropic(self) -> bool:
        """Whether the request went to Anthropic, by its address, its version or its model."""
        request = mapping(self.request)
        model = str(request.get("model", ""))
        return (
            "/v1/messages" in self.url
            or "anthropic_version" in request
            or model.startswith(("claude", "anthropic"))
        )


_last: tuple[Any, Exchange | None] = (None, None)
"""The record that was read last, and what it holds: every format asks for it."""


def exchange_of(value: Any) -> Exchange | None:
    """Read a record that holds a request and its answer apart; None if it does not."""
    global _last
    if not isinstance(value, dict):
        return None
    if _last[0] is not value:
        _last = (value, _read(value))
    return _last[1]


def _read(value: dict[str, Any]) -> Exchange | None:
    request = next((name for name in _REQUESTS if name in value), None)
    response = next((name for name in _ANSWERS if name in value), None)
    if request is None:
        return _flat(value)
    if response is None:
        return None
    status = value.get("status", value.get("status_code"))
    answer = value[response]
    for stated in (mapping(answer).get("status_code"), mapping(mapping(answer).get("status")).get("code")):
        status = stated if isinstance(stated, int) else status
    url = value.get("uri") or value.get("url") or mapping(value[request]).get("url")
    asked = _body(value[request])
    if isinstance(asked, dict) and not any(name in asked for name in _PARTS):
        # Settings alone: loggers of a proxy write the messages beside them.
        asked = {**{name: value[name] for name in _PARTS if name in value}, **asked}
    return Exchange(
        asked,
        _body(answer),
        status if isinstance(status, int) and not isinstance(status, bool) else None,
        url if isinstance(url, str) else "",
    )


def _flat(value: dict[str, Any]) -> Exchange | None:
    """Read a request whose own fields have the answer beside them: `{"messages": …, "response": …}`."""
    if not any(isinstance(value.get(name), list | str) for name in _PARTS):
        return None
    for name in (*_ANSWERS, "output"):
        answer = _body(value[name]) if value.get(name) else None
        is_text = isinstance(answer, str) and not is_event_stream(answer)
        if is_text and isinstance(value.get("messages"), list):
            answer = {"choices": [{"message": {"role": "assistant", "content": answer}}]}  # its text alone
        if _is_answer(answer):
            status = value.get("status", value.get("status_code"))
            request = {key: stated for key, stated in value.items() if key != name}
            return Exchange(request, answer, status if type(status) is int else None)
    return None


def _is_answer(body: Any) -> bool:
    """Whether this is an answer of a provider, and no field of the author's own."""
    if isinstance(body, str):
        return is_event_stream(body)
    fields = mapping(body)
    if any(isinstance(fields.get(name), list) for name in ("choices", "candidates")):
        return True
    return (
        (fields.get("object") == "response" and isinstance(fields.get("output"), list))
        or (fields.get("type") == "message" and isinstance(fields.get("content"), list))
        or isinstance(fields.get("error"), dict)
    )


def with_own_request(answer: Mapping[str, Any]) -> Exchange:
    """Return an answer as an exchange, with the request that the same object may hold."""
    if not any(isinstance(answer.get(name), list | str) for name in _PARTS):
        return Exchange({}, answer)
    return Exchange(answer, {name: value for name, value in answer.items() if name not in _PARTS})


def _body(message: Any) -> Any:
    """Return the body of a recorded message, which is the message itself where no header is recorded.

    Recorders of HTTP keep bodies as text, some of them as `{"string": TEXT}`.
    """
    if isinstance(message, dict) and (
        not _ENVELOPE.isdisjoint(message) or isinstance(message.get("status"), int | dict)
    ):
        # An answer of a model may have content of its own, which is no text.
        bodies = [name for name in _BODIES if name in message]
        body = next((name for name in bodies if name != "content" or isinstance(message[name], str)), None)
        message = message if body is None else message[body]
    if isinstance(message, dict) and message and set(message) <= {"string", "encoding"}:
        message = message.get("string")
    if isinstance(message, str) and message.lstrip()[:1] in ("{", "["):
        return arguments_of(message)[0]
    return message


def error_of(body: Any, status: int | None) -> Any:
    """Return what went wrong by an answer's body and status; None if nothing did."""
    error = mapping(body).get("error")
    if error is not None and error != {}:
        return error
    if status is not None and status >= 400:
        return {"status": status, "body": body} if body not in (None, "") else {"status": status}
    return mapping(next(iter(items(body)), None)).get("error")


CONVERSATION_NAMES = ("conversation_id", "session_id", "thread_id", "chat_id")
"""Fields, of a record or of its metadata, whose value is the id of a conversation."""
_LATENCY_NAMES = ("latency_ms", "duration_ms", "response_time_ms", "elapsed_ms")
_COST_NAMES = ("response_cost", "cost", "cost_usd")
"""Fields of a record that say how long the answer took, and what it cost in US dollars."""
_RECORD_NAMES = ("case_id", "custom_id", "id", "run_id", "trace_id", "request_id")
"""Fields whose value is the id of the record alone."""
_SETTINGS = frozenset(
    {
        *("model", "temperature", "top_p", "top_k", "seed", "n", "stop", "max_tokens"),
        *("max_completion_tokens", "max_output_tokens", "frequency_penalty", "presence_penalty"),
        *("reasoning_effort", "tool_choice", "parallel_tool_calls", "stop_sequences"),
    }
)


def conversation_of(*places: Any) -> str | None:
    """Return the id of the conversation that one of several objects, or its `metadata`, states."""
    for place in map(mapping, places):
        for fields in (place, mapping(place.get("metadata"))):
            for name in CONVERSATION_NAMES:
                if (stated := text_or_none(fields.get(name))) is not None:
                    return stated
    return None


def record_ids(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids that a record has beside that of its conversation."""
    stated = (text_or_none(fields.get(name)) for name in _RECORD_NAMES)
    return tuple(dict.fromkeys(filter(None, stated)))


def settings_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a request and the names of the tools that it offers."""
    settings = {name: value for name, value in request.items() if name in _SETTINGS and value is not None}
    tools = [name for tool in items(request.get("tools")) if (name := tool_name(tool)) is not None]
    return settings | ({"tools": tools} if tools else {})


def tool_name(tool: Any) -> str | None:
    """Return the name of a tool that a request declares; a hosted one has its type as name."""
    fields = mapping(tool)
    function = mapping(fields.get("function"))
    return text(fields.get("name")) or text(function.get("name")) or text(fields.get("type"))


_OF_AN_EXCHANGE = frozenset(
    {
        *(*_REQUESTS, *_ANSWERS, *_LATENCY_NAMES, *_COST_NAMES, "body", "params", "status", "status_code"),
        *("uri", "url", "method", "custom_id", "id", "key", "error", "result"),
    }
)
"""Fields of a record that hold a request or its answer, or are read elsewhere."""
_OF_A_REQUEST = _SETTINGS | {
    *("messages", "input", "contents", "system", "systemInstruction", "system_instruction", "instructions"),
    *("tools", "functions", "function_call", "stream", "stream_options", "response_format", "metadata"),
    *("generationConfig", "generation_config", "toolConfig", "safetySettings", "cachedContent", "thinking"),
    *("logit_bias", "logprobs", "top_logprobs", "modalities", "prediction", "service_tier", "store", "user"),
    *("text", "reasoning", "include", "truncation", "background", "previous_response_id", "conversation"),
    *("prompt_cache_key", "safety_identifier", "anthropic_version", "betas", "container", "mcp_servers"),
    *("output", "object", "type", "created", "created_at", "timestamp", "choices", "usage", "candidates"),
    *CONVERSATION_NAMES,
    *_RECORD_NAMES,
}
"""Fields of a record that is itself a request or an answer, or that are read elsewhere."""


def add_record_facts(
    record: Mapping[str, Any], answer: Sequence[dict[str, Any]], metadata: dict[str, Any]
) -> None:
    """Take over what a record says beside request and answer: how long it took, what it cost, its own fields.

    The last event of the answer gets latency and cost, the conversation's metadata the rest as `record`.
    """
    latency = next((record[name] for name in _LATENCY_NAMES if is_amount(record.get(name))), None)
    if latency is not None and answer:
        answer[-1].setdefault("latency_ms", latency)
    cost = next((record[name] for name in _COST_NAMES if is_amount(record.get(name))), None)
    if cost is not None and answer and not any("cost_usd" in fields for fields in answer):
        answer[-1]["cost_usd"] = cost
    is_exchange = any(name in record for name in _REQUESTS)
    known = _OF_AN_EXCHANGE if is_exchange else _OF_AN_EXCHANGE | _OF_A_REQUEST
    others = {name: value for name, value in record.items() if name not in known and value is not None}
    if others:
        metadata["record"] = others


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
        report_unknown_in(body, f"{self.name} answer", place, diagnostics, field="response")
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
        own = next((text(body[name]) for name in ("id", "responseId", "response_id") if name in body), None)
        provider = self._provider_at(exchange.url)
        attributes = make.not_null({"gen_ai.response.id": own, "gen_ai.provider.name": provider})
        model, reason = self.model(exchange), self.stop_reason(body)
        for answer in answers:
            for fields in answer.events:
                if moment is not None:
                    fields["ts"] = moment
                if attributes:
                    fields["attributes"] = {**fields.get("attributes", {}), **attributes}
            last = make.last_of_agent(answer.events) or answer.events[-1]
            if model is not None:
                last["model"] = model
            if reason is not None:
                last.setdefault("stop_reason", reason)
            answer.id = answer.id or self._id_of(body)
        last = make.last_of_agent(answers[0].events) or answers[0].events[-1]
        stated = body.get("usage", body.get("usageMetadata", body.get("usage_metadata")))
        stated = body if stated is None and "eval_count" in body else stated  # Ollama's
        if usage := usage_in(stated):
            last["usage"] = usage
        if make.is_amount(cost := mapping(stated).get("cost")):  # OpenRouter's
            last["cost_usd"] = cost

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

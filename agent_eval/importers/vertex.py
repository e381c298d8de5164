"""Exports of Gemini, from Vertex AI and the Gemini API, and of the Agent Development Kit (ADK)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from agent_eval.importers import adk
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.dialogue_format import DialogueFormat, Turn
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    items,
    mapping,
    seconds_of,
    text,
    timestamp_of,
)
from agent_eval.importers.exchange import Exchange, error_of, exchange_of, with_own_request
from agent_eval.importers.facts import (
    add_record_facts,
    conversation_of,
    record_ids,
    report_unknown,
    settings_of,
)
from agent_eval.importers.format import ALONE, Conversation, Link, Match, Part
from agent_eval.importers.records import Record
from agent_eval.importers.sse import first_event, is_event_stream, place_of, streams_in
from agent_eval.importers.vertex_parts import (
    content_message,
    field,
    grounding_events,
    part_events,
    system_message_of,
    usage_fields,
)

_MODEL = re.compile(r"/models/([^/:]+)")
_BLOCKED = frozenset({"MODEL_ARMOR", "PROHIBITED_CONTENT", "SAFETY", "BLOCKLIST", "SPII", "RECITATION"})
_BROKEN = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"})
_RESPONSE_FIELDS = frozenset(
    {
        *("candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "createTime"),
        *("prompt_feedback", "usage_metadata", "model_version", "response_id", "create_time", "error"),
        *("automatic_function_calling_history", "parsed", "sdk_http_response", "modelStatus"),
    }
)


class Vertex(DialogueFormat):
    """Reads requests and answers of Gemini, and sessions and evaluation sets of ADK."""

    name = "vertex"
    provider = "gcp.gen_ai"

    @override
    def detect(self, value: Any) -> Match | None:
        matched = adk.match_of(value)
        if matched is not None:
            return matched
        if isinstance(value, list):
            return Match(0.85, "gemini") if _is_chunks(value) or _is_contents(value) else None
        if isinstance(value, str):
            is_own = is_event_stream(value) and _is_answer(first_event(value))
            return Match(0.95, "gemini stream") if is_own else None
        if not isinstance(value, dict):
            return None
        exchange = exchange_of(value)
        return _match_of_body(value) if exchange is None else _match_of_exchange(exchange)

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        if adk.match_of(record.value) is not None:
            return ALONE, {"adk": record.value}
        return super().prepare(record, diagnostics)

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        if isinstance(parts[0].payload, dict):
            stored = [(part.payload["adk"], part.place) for part in parts]
            return [made for value, place in stored for made in adk.conversations(value, place, diagnostics)]
        return super().read(parts, diagnostics)

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        value, place = record.value, record.place
        if isinstance(value, str):
            chunks = _stream(value, place, diagnostics)
            return [_turn(Exchange({}, _joined(chunks)), {}, place, diagnostics)]
        if isinstance(value, list):
            exchange = Exchange({}, value) if _is_chunks(value) else Exchange({"contents": value}, None)
            return [_turn(_whole(exchange, place, diagnostics), {}, place, diagnostics)]
        exchange = exchange_of(value) or _exchange(value)
        return [_turn(_whole(exchange, place, diagnostics), value, place, diagnostics)]


def _match_of_exchange(exchange: Exchange) -> Match | None:
    answer, request = exchange.response, mapping(exchange.request)
    if isinstance(answer, str) and is_event_stream(answer):
        return Match(0.95, "gemini stream") if _is_answer(first_event(answer)) else None
    if _is_answer(answer) or _is_chunks(answer):
        return Match(0.95, "gemini")
    return Match(0.85, "gemini") if _is_contents(request.get("contents")) else None


def _match_of_body(value: Mapping[str, Any]) -> Match | None:
    if _is_answer(value):
        return Match(0.95, "gemini")
    return Match(0.85, "gemini") if _is_contents(value.get("contents")) else None


def _is_answer(value: Any) -> bool:
    fields = mapping(value)
    if isinstance(fields.get("candidates"), list):
        return True
    return any(isinstance(field(fields, name), dict) for name in ("promptFeedback", "usageMetadata"))


def _is_chunks(value: Any) -> bool:
    """Whether this is the answer of a stream without events: an array of its chunks."""
    if not isinstance(value, list) or not value or not all(map(_is_answer, value)):
        return False
    return len(value) == 1 or len({str(field(chunk, "responseId")) for chunk in value}) == 1


def _is_contents(value: Any) -> bool:
    contents = [mapping(content) for content in items(value)[:20]]
    return any(isinstance(content.get("parts"), list) for content in contents)


def _exchange(value: Mapping[str, Any]) -> Exchange:
    return with_own_request(value) if _is_answer(value) else Exchange(value, None)


def _whole(exchange: Exchange, place: str, diagnostics: Diagnostics) -> Exchange:
    """Put the chunks of a streamed answer together."""
    answer = exchange.response
    if isinstance(answer, str) and is_event_stream(answer):
        return replace(exchange, response=_joined(_stream(answer, place, diagnostics)))
    return replace(exchange, response=_joined(answer)) if _is_chunks(answer) else exchange


def _stream(value: str, place: str, diagnostics: Diagnostics) -> list[Any]:
    chunks: list[Any] = []
    for stream in streams_in(value):
        chunks += stream.events
        for problem in stream.broken:
            diagnostics.lost(place, "stream", problem)
    candidates = [candidate for chunk in chunks for candidate in items(mapping(chunk).get("candidates"))]
    if candidates and not any(field(mapping(candidate), "finishReason") for candidate in candidates):
        diagnostics.lost(place, "stream", "ends before the answer does")
    return chunks


def _joined(chunks: Sequence[Any]) -> dict[str, Any]:
    """Put the parts of each candidate together; of other fields, the last chunk that states them counts."""
    body: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for chunk in map(mapping, chunks):
        body.update({name: value for name, value in chunk.items() if value is not None})
        for candidate in map(mapping, items(chunk.get("candidates"))):
            empty: dict[str, Any] = {"content": {"role": "model", "parts": []}}
            made = candidates.setdefault(place_of(candidate.get("index"), 0), empty)
            made.update({name: value for name, value in candidate.items() if name != "content"})
            made["content"]["parts"] += items(mapping(candidate.get("content")).get("parts"))
    body["candidates"] = [candidates[index] for index in sorted(candidates)]
    return body


def _turn(exchange: Exchange, record: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Turn:
    request, body = mapping(exchange.request), mapping(exchange.response)
    history = system_message_of(field(request, "systemInstruction"))
    for number, content in enumerate(_contents(request)):
        history.append(content_message(content, place, f"contents[{number}]", diagnostics))
    turn = Turn(history, rank=int(not history))
    turn.time = seconds_of(field(body, "createTime"))
    report_unknown(body, _RESPONSE_FIELDS, place, "response.", diagnostics)
    model = text(field(body, "modelVersion")) or text(request.get("model")) or _model_in(exchange.url)
    error = error_of(exchange.response, exchange.status)
    if error is not None:
        turn.answer = message_of([error_event(error, model=model)])
    elif body:
        answers = _answers(body, model, exchange.url, place, diagnostics)
        turn.answer, turn.alternatives = answers[0], answers[1:]
    settings = settings_of({**_configuration(request), **({"model": model} if model else {})})
    if settings:
        turn.metadata["request"] = settings
    conversation = conversation_of(record, request)
    if conversation is not None:
        turn.id, turn.ids = conversation, (f"conversation:{conversation}",)
    elif text(record.get("key")) is not None:
        # Batches of Gemini have a key for each request.
        turn.id = record["key"]
    turn.aliases = record_ids(record)
    if exchange_of(record) is not None or exchange.response is None:
        add_record_facts(record, turn.answer.events if turn.answer is not None else [], turn.metadata)
    return turn


def _contents(request: Mapping[str, Any]) -> list[Any]:
    contents = request.get("contents")
    if isinstance(contents, str):
        return [{"role": "user", "parts": [{"text": contents}]}]
    return [contents] if isinstance(contents, dict) else items(contents)


def _configuration(request: Mapping[str, Any]) -> dict[str, Any]:
    configuration = mapping(request.get("generationConfig")) or mapping(request.get("generation_config"))
    declared = [
        declaration
        for tool in map(mapping, items(request.get("tools")))
        for declaration in items(field(tool, "functionDeclarations")) or [{"name": name} for name in tool]
    ]
    return {**configuration, **({"tools": declared} if declared else {})}


def _model_in(url: str) -> str | None:
    named = _MODEL.search(url)
    return named.group(1) if named else None


def _answers(
    body: Mapping[str, Any], model: str | None, url: str, place: str, diagnostics: Diagnostics
) -> list[Message]:
    candidates = [mapping(candidate) for candidate in items(body.get("candidates"))]
    answers = [_candidate(candidate, place, diagnostics) for candidate in candidates]
    feedback = mapping(field(body, "promptFeedback"))
    if not answers:
        blocked = text(field(feedback, "blockReason"))
        message = text(field(feedback, "blockReasonMessage"))
        attributes = {"gemini.block_message": message} if message else None
        answers = [message_of([agent_message(None, block_reason=blocked, attributes=attributes)])]
    attributes = {"gen_ai.provider.name": "gcp.vertex_ai"} if "aiplatform" in url else {}
    if text(field(body, "responseId")):
        attributes["gen_ai.response.id"] = field(body, "responseId")
    for answer in answers:
        _describe(answer.events, model, attributes, timestamp_of(field(body, "createTime")))
    usage = usage_fields(field(body, "usageMetadata"))
    if usage is not None:
        _last(answers[0].events)["usage"] = usage
    return answers


def _candidate(candidate: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Message:
    parts = items(mapping(candidate.get("content")).get("parts"))
    events = part_events(parts, "model", place, "content", diagnostics)
    reason, message = text(field(candidate, "finishReason")), text(field(candidate, "finishMessage"))
    if reason in _BROKEN:
        events.append(error_event({"finish_reason": reason, **({"message": message} if message else {})}))
    if not events:
        blocked = reason if reason in _BLOCKED else None
        attributes = {"gemini.finish_message": message} if message else None
        events.append(agent_message(None, block_reason=blocked, attributes=attributes))
    if reason is not None:
        _last(events)["stop_reason"] = reason
    searched = message_of(grounding_events(field(candidate, "groundingMetadata")))
    answer = message_of(events)
    # A history does not repeat what grounded an answer, so these events have no key.
    return Message([*searched.events, *answer.events], [0 for _ in searched.events] + answer.keys)


def _describe(
    events: Sequence[EventFields], model: str | None, attributes: Mapping[str, Any], moment: str | None
) -> None:
    for fields in events:
        if moment is not None:
            fields["ts"] = moment
        if attributes:
            fields.setdefault("attributes", {}).update(attributes)
    if model is not None:
        _last(events)["model"] = model


def _last(events: Sequence[EventFields]) -> EventFields:
    return next((fields for fields in reversed(events) if fields["actor"] == "agent"), events[-1])

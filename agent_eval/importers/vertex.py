"""Exports of Gemini, from Vertex AI and the Gemini API, and of the Agent Development Kit (ADK)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.importers import adk
from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import EventFields, items, mapping, text
from agent_eval.importers.exchange import Exchange, exchange_of, settings_of, with_own_request
from agent_eval.importers.format import ALONE, Conversation, Link, Match, Part
from agent_eval.importers.gemini import field, system_message_of
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.provider_format import ProviderFormat, last_of_agent
from agent_eval.importers.records import Record
from agent_eval.importers.streams import EventStream, first_event, gemini_answer_of, is_event_stream

_MODEL = re.compile(r"/models/([^/:]+)")
_BLOCKED = frozenset({"MODEL_ARMOR", "PROHIBITED_CONTENT", "SAFETY", "BLOCKLIST", "SPII", "RECITATION"})
_BROKEN = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"})
_SEARCH_TOOL = "google_search"


class Vertex(ProviderFormat):
    """Reads requests and answers of Gemini, and sessions and evaluation sets of ADK."""

    name = "vertex"
    provider = "gcp.gen_ai"
    hosts: ClassVar = {"aiplatform.googleapis.com": "gcp.vertex_ai"}

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
        exchange = exchange_of(value)
        if exchange is None:
            fields = mapping(value)
            if _is_answer(fields):
                return Match(0.95, "gemini")
            return Match(0.85, "gemini") if _is_contents(fields.get("contents")) else None
        answer = exchange.response
        if isinstance(answer, str) and is_event_stream(answer):
            return Match(0.95, "gemini stream") if _is_answer(first_event(answer)) else None
        if _is_answer(answer) or _is_chunks(answer):
            return Match(0.95, "gemini")
        asked = mapping(exchange.request).get("contents")
        return Match(0.85, "gemini") if _is_contents(asked) else None

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
    def exchange(self, value: Any) -> Exchange:
        if isinstance(value, list):
            exchange = Exchange({}, value) if _is_chunks(value) else Exchange({"contents": value}, None)
        else:
            own = with_own_request(value) if _is_answer(value) else Exchange(value, None)
            exchange = exchange_of(value) or own
        answer = exchange.response
        return replace(exchange, response=gemini_answer_of(answer)) if _is_chunks(answer) else exchange

    @override
    def body_of(self, stream: EventStream) -> tuple[dict[str, Any], bool]:
        body = gemini_answer_of(stream.events)
        candidates = [mapping(candidate) for candidate in body["candidates"]]
        return body, not candidates or any(field(candidate, "finishReason") for candidate in candidates)

    @override
    def history(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        request = mapping(exchange.request)
        contents = request.get("contents")
        if isinstance(contents, str):
            contents = [{"role": "user", "parts": [{"text": contents}]}]
        contents = [contents] if isinstance(contents, dict) else contents
        history = system_message_of(field(request, "systemInstruction"))
        return history + reader.messages(contents, "contents", role="user")

    @override
    def answers(self, exchange: Exchange, reader: MessageReader) -> list[Message]:
        body = mapping(exchange.response)
        answers = [_candidate(mapping(each), reader) for each in items(body.get("candidates"))]
        if answers or not body or "error" in body:
            return answers
        feedback = mapping(field(body, "promptFeedback"))
        blocked, message = text(field(feedback, "blockReason")), text(field(feedback, "blockReasonMessage"))
        attributes = {"gemini.block_message": message} if message else None
        return [message_of([make.agent_message(None, block_reason=blocked, attributes=attributes)])]

    @override
    def model(self, exchange: Exchange) -> str | None:
        named = _MODEL.search(exchange.url)
        stated = text(field(mapping(exchange.response), "modelVersion"))
        return stated or text(mapping(exchange.request).get("model")) or (named[1] if named else None)

    @override
    def settings(self, exchange: Exchange) -> dict[str, Any]:
        request, model = mapping(exchange.request), self.model(exchange)
        configuration = mapping(request.get("generationConfig")) or mapping(request.get("generation_config"))
        declared = [
            declaration
            for tool in map(mapping, items(request.get("tools")))
            for declaration in items(field(tool, "functionDeclarations")) or [{"name": name} for name in tool]
        ]
        more = {"tools": declared} if declared else {}
        return settings_of({**configuration, **more, **({"model": model} if model else {})})


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
    parts = [mapping(part) for content in contents for part in items(content.get("parts"))]
    return bool(parts) and not any("type" in part or "part_kind" in part for part in parts)


def _candidate(candidate: Mapping[str, Any], reader: MessageReader) -> Message:
    parts = items(mapping(candidate.get("content")).get("parts"))
    events = reader.blocks(parts, "agent", "content.parts")
    reason, message = text(field(candidate, "finishReason")), text(field(candidate, "finishMessage"))
    if reason in _BROKEN:
        error = {"finish_reason": reason, **({"message": message} if message else {})}
        events.append(make.error_event(error))
    if not events:
        blocked = reason if reason in _BLOCKED else None
        attributes = {"gemini.finish_message": message} if message else None
        events.append(make.agent_message(None, block_reason=blocked, attributes=attributes))
    if reason is not None:
        last_of_agent(events)["stop_reason"] = reason
    searched = _grounding_events(field(candidate, "groundingMetadata"))
    answer = message_of(events)
    # A history does not repeat what grounded an answer, so these events have no key.
    return Message([*searched, *answer.events], [0 for _ in searched] + answer.keys)


def _grounding_events(metadata: Any) -> list[EventFields]:
    """Return the search that grounded an answer as a call and its result; nothing if there was none."""
    queries = field(mapping(metadata), "webSearchQueries")
    chunks = field(mapping(metadata), "groundingChunks")
    if not queries and not chunks:
        return []
    recorded = None if chunks else False
    return [
        make.tool_call(_SEARCH_TOOL, {"queries": queries} if queries else {}, ran_on="server"),
        make.tool_result(chunks, tool=_SEARCH_TOOL, ran_on="server", content_recorded=recorded),
    ]

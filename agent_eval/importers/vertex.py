"""Exports of Gemini, from Vertex AI and the Gemini API, and of the Agent Development Kit (ADK)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import EventFields, items, mapping, text, text_or_none, usage_in
from agent_eval.importers.format import ALONE, Conversation, Link, Match, Part
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.provider_format import (
    Exchange,
    ProviderFormat,
    exchange_of,
    settings_of,
    with_own_request,
)
from agent_eval.importers.records import Record
from agent_eval.importers.streams import EventStream, first_event, gemini_answer_of, is_event_stream
from agent_eval.importers.vocabulary import snake


def field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field by its name in camelCase, or by the same name in snake_case."""
    value = fields.get(name)
    return fields.get(snake(name)) if value is None else value


def system_message_of(instruction: Any) -> list[Message]:
    """Read a system instruction: a text, a content, or parts."""
    parts = mapping(instruction).get("parts", instruction)
    parts = [parts] if isinstance(parts, str | dict) else items(parts)
    joined = "".join(text(part) or text(mapping(part).get("text")) or "" for part in parts)
    return [message_of([make.system_message(joined)])] if joined else []


_STATE_NAMES = ("state_delta", "stateDelta", "update_context")


def _match_of_adk(value: Any) -> Match | None:
    """Recognise a session, an evaluation set, or a single case of one."""
    fields = mapping(value)
    if isinstance(field(fields, "evalCases"), list):
        return Match(0.95, "adk evaluation set")
    if field(fields, "evalId") is not None and isinstance(fields.get("conversation"), list):
        return Match(0.95, "adk evaluation case")
    events = fields.get("events")
    if isinstance(events, list) and events and all("author" in mapping(step) for step in events[:20]):
        return Match(0.95, "adk session")
    return Match(0.9, "adk session") if events == [] and field(fields, "appName") is not None else None


def _adk_conversations(value: Any, place: str, diagnostics: Diagnostics) -> Iterator[Conversation]:
    """Read what `_match_of_adk` recognised."""
    if isinstance(cases := field(value, "evalCases"), list):
        for number, case in enumerate(cases):
            reader = MessageReader(f"{place}.eval_cases[{number}]", diagnostics)
            yield _evaluation_case(mapping(case), reader)
        return
    reader = MessageReader(place, diagnostics)
    if field(value, "evalId") is not None:
        yield _evaluation_case(value, reader)
        return
    logs = {text(mapping(log).get("event_id")): mapping(log) for log in items(value.get("event_logs"))}
    events: list[EventFields] = []
    for number, step in enumerate(map(mapping, items(value.get("events")))):
        path = f"events[{number}]"
        if step.get("partial") is True:
            diagnostics.note(place, path, "is a fragment of an answer that a later event has whole")
        else:
            events += _step_events(step, logs.get(text(step.get("id")), {}), path, reader)
    stated = {snake(name): field(value, name) for name in ("appName", "userId", "state", "context")}
    metadata = {name: value for name, value in stated.items() if value not in (None, "", {})}
    yield Conversation(events, id=text_or_none(value.get("id")), metadata=metadata, records=[place])


def _step_events(
    step: Mapping[str, Any], log: Mapping[str, Any], path: str, reader: MessageReader
) -> list[EventFields]:
    author, parts = text(step.get("author")), mapping(step.get("content")).get("parts")
    events = reader.blocks(parts or [], "user" if author == "user" else "agent", path)
    answer = mapping(log.get("model_response"))
    usage = usage_in(field(step, "usageMetadata") or field(answer, "usageMetadata"))
    stated = {"code": field(step, "errorCode"), "message": field(step, "errorMessage")}
    if error := make.not_null(stated):
        events.append(make.error_event(error))
    if usage is not None and not any(fields["actor"] == "agent" for fields in events):
        events.append(make.agent_message(None))
    last = make.last_of_agent(events)
    model = text(field(step, "modelVersion")) or text(field(answer, "modelVersion"))
    facts = {"usage": usage, "model": model, "stop_reason": text(field(step, "finishReason"))}
    if last is not None:
        last |= make.not_null(facts)
    # What an event changes beside what it says: the state, and which agent goes on.
    for actions in (mapping(step.get("actions")), mapping(step.get("options"))):
        delta = next((actions[name] for name in _STATE_NAMES if actions.get(name)), None)
        target = text(field(actions, "transferToAgent"))
        changes = (("state", delta), ("handoff", target))
        events += [make.event("agent", kind, output=value) for kind, value in changes if value is not None]
    make.mark(events, agent=author, ts=make.timestamp_of(step.get("timestamp")))
    return events


def _evaluation_case(case: Mapping[str, Any], reader: MessageReader) -> Conversation:
    """Read a case of an evaluation set, which has expectations and no recording."""
    reason = "has expectations and no recording: run an agent on the case"
    reader.diagnostics.note(reader.place, "conversation", reason)
    turns = []
    for number, invocation in enumerate(map(mapping, items(case.get("conversation")))):
        path = f"conversation[{number}]"
        turn: dict[str, Any] = {
            "input": _text_of(field(invocation, "userContent"), f"{path}.user_content", reader)
        }
        answer = _text_of(field(invocation, "finalResponse"), f"{path}.final_response", reader)
        if answer is not None:
            turn["expected_output"] = answer
        data = field(invocation, "intermediateData")
        if isinstance(data, dict):
            steps = [mapping(mapping(step).get("content")) for step in items(field(data, "invocationEvents"))]
            parts = [mapping(part) for content in steps for part in items(content.get("parts"))]
            uses = [*items(field(data, "toolUses")), *(field(part, "functionCall") for part in parts)]
            turn["expected_tool_calls"] = [
                {"tool": use["name"], "arguments": use.get("args") or {}}
                for use in map(mapping, uses)
                if text(use.get("name"))
            ]
        turns.append(turn)
    session = mapping(field(case, "sessionInput"))
    metadata = {"session_input": dict(session)} if session else {}
    own = text_or_none(field(case, "evalId"))
    return Conversation([], id=own, turns=turns, metadata=metadata, records=[reader.place])


def _text_of(content: Any, path: str, reader: MessageReader) -> Any:
    events = reader.blocks(items(mapping(content).get("parts")), "user", path)
    contents = [fields.get("input", fields.get("parts")) for fields in events]
    return contents[0] if len(contents) == 1 else (contents or None)


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
        matched = _match_of_adk(value)
        if matched is not None:
            return matched
        if isinstance(value, list):
            return Match(0.85, "gemini") if _is_chunks(value) or _is_contents(value) else None
        exchange = exchange_of(value)
        answer = value if exchange is None else exchange.response
        if is_event_stream(answer):
            return Match(0.95, "gemini stream") if _is_answer(first_event(answer)) else None
        if _is_answer(answer) or _is_chunks(answer):
            return Match(0.95, "gemini")
        asked = mapping(value if exchange is None else exchange.request).get("contents")
        return Match(0.85, "gemini") if _is_contents(asked) else None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        if _match_of_adk(record.value) is not None:
            return ALONE, {"adk": record.value}
        return super().prepare(record, diagnostics)

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        if isinstance(parts[0].payload, dict):
            stored = [(part.payload["adk"], part.place) for part in parts]
            return [made for value, place in stored for made in _adk_conversations(value, place, diagnostics)]
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
    stated = any(isinstance(field(fields, name), dict) for name in ("promptFeedback", "usageMetadata"))
    return stated or isinstance(fields.get("candidates"), list)


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
        (make.last_of_agent(events) or events[-1])["stop_reason"] = reason
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

"""Sessions and evaluation sets of Google's Agent Development Kit, in every version's spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    event,
    items,
    mapping,
    text,
    text_or_none,
    timestamp_of,
)
from agent_eval.importers.format import Conversation, Match
from agent_eval.importers.gemini import field
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.usage import usage_in

_STATE_NAMES = ("state_delta", "stateDelta", "update_context")


def match_of(value: Any) -> Match | None:
    """Recognise a session, an evaluation set, a single case of one, or the older list of queries."""
    if isinstance(value, list):
        return Match(0.95, "adk queries") if value and all(map(_is_query, value)) else None
    fields = mapping(value)
    if isinstance(field(fields, "evalCases"), list):
        return Match(0.95, "adk evaluation set")
    if field(fields, "evalId") is not None and isinstance(fields.get("conversation"), list):
        return Match(0.95, "adk evaluation case")
    events = fields.get("events")
    if isinstance(events, list) and events and all("author" in mapping(step) for step in events[:20]):
        return Match(0.95, "adk session")
    return Match(0.9, "adk session") if events == [] and field(fields, "appName") is not None else None


def _is_query(value: Any) -> bool:
    return isinstance(value, dict) and "query" in value and "expected_tool_use" in value


def conversations(value: Any, place: str, diagnostics: Diagnostics) -> Iterator[Conversation]:
    """Read what `match_of` recognised."""
    if isinstance(value, list):
        yield _queries(value, place)
        return
    cases = field(value, "evalCases")
    if isinstance(cases, list):
        for number, case in enumerate(cases):
            yield _evaluation_case(mapping(case), f"{place}.eval_cases[{number}]", diagnostics)
    elif field(value, "evalId") is not None:
        yield _evaluation_case(value, place, diagnostics)
    else:
        yield _session(value, place, diagnostics)


def _session(session: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
    logs = {text(mapping(log).get("event_id")): mapping(log) for log in items(session.get("event_logs"))}
    events: list[EventFields] = []
    for number, step in enumerate(map(mapping, items(session.get("events")))):
        path = f"events[{number}]"
        if step.get("partial") is True:
            diagnostics.note(place, path, "is a fragment of an answer that a later event has whole")
            continue
        events += _step_events(step, logs.get(text(step.get("id")), {}), place, path, diagnostics)
    stated = {name: field(session, name) for name in ("appName", "userId")}
    names = {"appName": "app_name", "userId": "user_id"}
    metadata = {names[name]: value for name, value in stated.items() if value not in (None, "")}
    for name in ("state", "context"):
        if mapping(session.get(name)):
            metadata[name] = session[name]
    return Conversation(events, id=text_or_none(session.get("id")), metadata=metadata, records=[place])


def _step_events(
    step: Mapping[str, Any], log: Mapping[str, Any], place: str, path: str, diagnostics: Diagnostics
) -> list[EventFields]:
    author = text(step.get("author"))
    content = mapping(step.get("content"))
    role = "user" if author == "user" else "agent"
    events = MessageReader(place, diagnostics).blocks(content.get("parts") or [], role, path)
    answer = mapping(log.get("model_response"))
    usage = usage_in(field(step, "usageMetadata") or field(answer, "usageMetadata"))
    error = _error_of(step)
    if error is not None:
        events.append(error_event(error))
    if usage is not None and not any(fields["actor"] == "agent" for fields in events):
        events.append(agent_message(None))
    last = next((fields for fields in reversed(events) if fields["actor"] == "agent"), None)
    if last is not None:
        _describe(last, usage, step, answer)
    events += _actions(step)
    moment = timestamp_of(step.get("timestamp"))
    for fields in events:
        if fields["actor"] == "agent" and author is not None:
            fields["agent_name"] = author
        if moment is not None:
            fields["ts"] = moment
    return events


def _describe(
    last: EventFields, usage: dict[str, Any] | None, step: Mapping[str, Any], answer: Mapping[str, Any]
) -> None:
    model = text(field(step, "modelVersion")) or text(field(answer, "modelVersion"))
    reason = text(field(step, "finishReason"))
    for name, value in (("usage", usage), ("model", model), ("stop_reason", reason)):
        if value is not None:
            last[name] = value


def _error_of(step: Mapping[str, Any]) -> Any:
    code, message = field(step, "errorCode"), field(step, "errorMessage")
    if code is None and message is None:
        return None
    return {name: value for name, value in (("code", code), ("message", message)) if value is not None}


def _actions(step: Mapping[str, Any]) -> list[EventFields]:
    """Return what an event changes beside what it says: the state, and which agent goes on."""
    events = []
    for actions in (mapping(step.get("actions")), mapping(step.get("options"))):
        delta = next((actions[name] for name in _STATE_NAMES if actions.get(name)), None)
        if delta is not None:
            events.append(event("agent", "state", output=delta))
        target = text(field(actions, "transferToAgent"))
        if target is not None:
            events.append(event("agent", "handoff", output=target))
    return events


def _evaluation_case(case: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
    """Read a case of an evaluation set, which has expectations and no recording."""
    diagnostics.note(place, "conversation", "has expectations and no recording: run an agent on the case")
    turns = [
        _turn(mapping(invocation), place, f"conversation[{number}]", diagnostics)
        for number, invocation in enumerate(items(case.get("conversation")))
    ]
    session = mapping(field(case, "sessionInput"))
    metadata = {"session_input": dict(session)} if session else {}
    made = Conversation([], id=text_or_none(field(case, "evalId")), turns=turns, metadata=metadata)
    made.records = [place]
    return made


def _turn(invocation: Mapping[str, Any], place: str, path: str, diagnostics: Diagnostics) -> dict[str, Any]:
    asked = _text_of(field(invocation, "userContent"), place, f"{path}.user_content", diagnostics)
    turn: dict[str, Any] = {"input": asked}
    answer = _text_of(field(invocation, "finalResponse"), place, f"{path}.final_response", diagnostics)
    if answer is not None:
        turn["expected_output"] = answer
    data = field(invocation, "intermediateData")
    if isinstance(data, dict):
        turn["expected_tool_calls"] = [
            {"tool": call["name"], "arguments": call.get("args") or {}}
            for call in _expected_calls(data)
            if text(call.get("name"))
        ]
    return turn


def _expected_calls(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    uses = items(field(data, "toolUses"))
    for step in map(mapping, items(field(data, "invocationEvents"))):
        for part in map(mapping, items(mapping(step.get("content")).get("parts"))):
            call = field(part, "functionCall")
            uses = [*uses, call] if isinstance(call, dict) else uses
    return [mapping(use) for use in uses]


def _text_of(content: Any, place: str, path: str, diagnostics: Diagnostics) -> Any:
    events = MessageReader(place, diagnostics).blocks(items(mapping(content).get("parts")), "user", path)
    contents = [fields.get("input", fields.get("parts")) for fields in events]
    return contents[0] if len(contents) == 1 else (contents or None)


def _queries(value: list[Any], place: str) -> Conversation:
    """Read the evaluation files of the first versions: a list of queries with what is expected."""
    turns = [
        {
            "input": query.get("query"),
            "expected_output": query.get("reference"),
            "expected_tool_calls": [
                {"tool": use["tool_name"], "arguments": use.get("tool_input") or {}}
                for use in map(mapping, items(query.get("expected_tool_use")))
                if text(use.get("tool_name"))
            ],
        }
        for query in value
    ]
    return Conversation([], turns=turns, records=[place])

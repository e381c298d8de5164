"""Make cases of conversations: ids, inputs and turns, events with their numbers and derived span ids."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agent_eval.importers.events import EventFields
from agent_eval.importers.format import Conversation
from agent_eval.storage.json import dumps

IDS_DERIVED = "agent_eval.ids_derived"
"""Attribute of an event whose trace and span ids are made of its content, because the source has none."""

_OPERATIONS = {
    "tool_call": "execute_tool",
    "tool_result": "execute_tool",
    "message": "chat",
    "reasoning": "chat",
    "model_call": "chat",
    "error": "chat",
    "handoff": "invoke_agent",
}
"""`gen_ai.operation.name` by the type of an event."""

_MOST_RECORDS = 20
"""Places of records that a case lists."""


def make_case(
    conversation: Conversation, source: str, provider: str | None, *, name: Callable[[str], str] = str
) -> dict[str, Any]:
    """Make the case of a conversation, as JSON.

    The conversation's events are changed.

    Args:
        source: Name of the conversation's format.
        provider: `gen_ai.provider.name`, if the format has one.
        name: Returns the id that the case gets for the one that it should have: the source's, or one derived
            from the content.
    """
    whole = [conversation.id, conversation.input, conversation.turns, conversation.events]
    content = hashlib.sha256(dumps(whole))
    for events in (conversation.events, *conversation.trials):
        _resolve_tools(events)
    case: dict[str, Any] = {
        "case_id": name(conversation.id or f"{source}-{content.hexdigest()[:12]}"),
        **_asked(conversation),
        "metadata": {"imported": _provenance(conversation, source)},
    }
    content.update(case["case_id"].encode("utf-8", "surrogatepass"))
    trace_id = conversation.trace_id or content.hexdigest()[:32]
    if conversation.expected_output is not None:
        case["expected_output"] = conversation.expected_output
    case["trace"] = finished(conversation.events, trace_id, provider, conversation.id)
    if conversation.trials:
        case["trials"] = []
        of_trials = conversation.trial_metadata or [{} for _ in conversation.trials]
        for number, (events, stated) in enumerate(zip(conversation.trials, of_trials, strict=True), start=1):
            own = hashlib.sha256(f"{trace_id}/{number}".encode()).hexdigest()[:32]
            trial = {"trace": finished(events, own, provider, conversation.id)}
            case["trials"].append(trial | ({"metadata": stated} if stated else {}))
    metadata = {**case["metadata"], **conversation.case.get("metadata", {})}
    return {**case, **conversation.case, "metadata": metadata}


class CaseIds:
    """Gives each case an id of its own.

    The second `thread-7` becomes `thread-7-2`.
    """

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}
        """The last number that each id was given, by the id's hash: texts would take more memory."""

    def unique(self, wanted: str) -> str:
        """Return the id that is wanted, with a number if another case has it."""
        case_id = wanted
        number = 1 + self._ids.get(hash(wanted), 0)
        if number > 1:
            while hash(case_id := f"{wanted}-{number}") in self._ids:
                number += 1
            self._ids[hash(case_id)] = 1
        self._ids[hash(wanted)] = number
        return case_id


def _asked(conversation: Conversation) -> dict[str, Any]:
    """Return `input`, and `turns` where the user speaks more than once."""
    if (turns := conversation.turns) is not None:
        first = turns[0].get("input") if turns else None
        asked = {"input": first if conversation.input is None else conversation.input}
        # The only turn of a case is stated where it expects calls; an output needs no turn.
        return asked | ({"turns": turns} if len(turns) > 1 or (turns and set(turns[0]) > {"input"}) else {})
    if conversation.input is not None:
        return {"input": conversation.input}
    inputs = list(inputs_of(conversation.events))
    if len(inputs) > 1:
        return {"input": inputs[0], "turns": [{"input": value} for value in inputs]}
    return {"input": inputs[0] if inputs else None}


def inputs_of(events: Sequence[EventFields]) -> Iterator[Any]:
    """Yield what the user says in each turn; messages in a row are one turn."""
    row: list[Any] = []
    for fields in events:
        if fields["actor"] == "user" and fields["type"] == "message":
            row.append(fields.get("input", fields.get("parts")))
        elif row:
            yield _as_one(row)
            row = []
    if row:
        yield _as_one(row)


def _as_one(messages: list[Any]) -> Any:
    if len(messages) == 1:
        return messages[0]
    return "\n\n".join(messages) if all(isinstance(text, str) for text in messages) else messages


def _provenance(conversation: Conversation, source: str) -> dict[str, Any]:
    records = conversation.records
    about: dict[str, Any] = {"format": source, "records": records[:_MOST_RECORDS]}
    if len(records) > _MOST_RECORDS:
        about["record_count"] = len(records)
    if conversation.trace_id is None:
        about["ids_derived"] = True
    return {**about, **conversation.metadata}


def _resolve_tools(events: Sequence[EventFields]) -> None:
    """Give results the tool, and where it ran, of the call with their id, if they do not say."""
    calls: dict[str, EventFields] = {}
    for fields in events:
        call_id = fields.get("call_id")
        if call_id is None:
            continue
        if fields["type"] == "tool_call":
            calls[call_id] = fields
        elif fields["type"] == "tool_result" and call_id in calls:
            for name in ("tool", "ran_on"):
                if name not in fields and name in calls[call_id]:
                    fields[name] = calls[call_id][name]


def finished(
    events: Sequence[EventFields], trace_id: str, provider: str | None, conversation_id: str | None
) -> list[EventFields]:
    """Number the events, and add ids of spans and attributes of OpenTelemetry where the source has none."""
    ids = hashlib.shake_128(trace_id.encode()).hexdigest(8 * len(events) + 8)
    root = ids[:16]
    calls: dict[str, str] = {}
    for idx, fields in enumerate(events):
        fields["idx"] = idx
        attributes: dict[str, Any] = fields.setdefault("attributes", {})
        if "span_id" not in fields:
            fields["span_id"] = ids[16 * idx + 16 : 16 * idx + 32]
            fields.setdefault("parent_span_id", root)
            attributes[IDS_DERIVED] = True
        fields.setdefault("trace_id", trace_id)
        _add_attributes(fields, attributes, provider, conversation_id)
        call_id = fields.get("call_id")
        if call_id is None:
            continue
        # The span of a call is the parent of that of its result, where both are derived.
        if fields["type"] == "tool_call":
            calls[call_id] = fields["span_id"]
        elif fields["type"] == "tool_result" and IDS_DERIVED in attributes:
            fields["parent_span_id"] = calls.get(call_id, fields["parent_span_id"])
    return list(events)


def _add_attributes(
    fields: EventFields, attributes: dict[str, Any], provider: str | None, conversation_id: str | None
) -> None:
    operation = _OPERATIONS.get(fields["type"])
    if operation is not None and fields["actor"] in ("agent", "tool"):
        attributes.setdefault("gen_ai.operation.name", operation)
        if provider is not None:
            attributes.setdefault("gen_ai.provider.name", provider)
    if conversation_id is not None:
        attributes.setdefault("gen_ai.conversation.id", conversation_id)
    for attribute, name in _NAMED:
        if name in fields:
            attributes.setdefault(attribute, fields[name])


_NAMED = (
    ("gen_ai.tool.name", "tool"),
    ("gen_ai.tool.call.id", "call_id"),
    ("gen_ai.response.model", "model"),
)

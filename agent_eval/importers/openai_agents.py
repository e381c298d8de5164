"""Exports of the OpenAI Agents SDK: traces with their spans, and the input list of a run's result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import items, mapping, text
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.records import Record
from agent_eval.importers.responses_items import is_items
from agent_eval.importers.span_records import AGENT_NAME, KIND, SpanFields, of_model, span_fields
from agent_eval.importers.span_tree import SpanTree

_OBJECTS = frozenset({"trace", "trace.span"})


class OpenAIAgents(Format):
    """Reads what the Agents SDK's exporter posts, and `RunResult.to_input_list()`."""

    name = "openai_agents"
    provider = "openai"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            if value and all(_is_item(item) for item in value[:20]):
                return None  # each item is a record
            own = [mapping(item) for item in value if "provider_data" in mapping(item)]
            if own or any(mapping(item).get("type") == "function_call_output" for item in value):
                return Match(0.9 if own else 0.6, "input list") if is_items(value) else None
            return None
        if _is_item(value):
            return Match(0.95, "span")
        data = mapping(value).get("data")
        return Match(0.95, "export") if isinstance(data, list) and data and all(map(_is_item, data)) else None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        if isinstance(record.value, list):
            return ALONE, {"items": record.value}
        data = [mapping(item) for item in items(record.value.get("data"))] or [record.value]
        traces = {text(item.get("trace_id")) or text(item.get("id")) for item in data}
        groups = {text(item.get("group_id")) for item in data if item.get("object") == "trace"} - {None}
        ids = [f"trace:{trace}" for trace in sorted(filter(None, traces))]
        return Link(ids=(*ids, *(f"group:{group}" for group in sorted(filter(None, groups))))), {"data": data}

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        conversations = [
            _of_input_list(items(part.payload["items"]), part.place, diagnostics)
            for part in parts
            if "items" in part.payload
        ]
        data = [(item, part.place) for part in parts for item in items(mapping(part.payload).get("data"))]
        if data:
            conversations.append(_of_trace(data, diagnostics))
        return conversations


def _is_item(value: Any) -> bool:
    return mapping(value).get("object") in _OBJECTS


def _of_input_list(values: list[Any], place: str, diagnostics: Diagnostics) -> Conversation:
    events = MessageReader(place, diagnostics).events_of(values, "items")
    for item in map(mapping, values):
        model = text(mapping(item.get("provider_data")).get("model"))
        for fields in events if model is not None else ():
            if fields.get("call_id") == item.get("call_id") and fields["actor"] == "agent":
                fields.setdefault("model", model)
    return Conversation(events)


def _of_trace(data: Sequence[tuple[Any, str]], diagnostics: Diagnostics) -> Conversation:
    traces = [mapping(item) for item, _ in data if mapping(item).get("object") == "trace"]
    spans = [(_span(mapping(item)), place) for item, place in data if mapping(item).get("object") != "trace"]
    tripped = [span for span, _ in spans if span["attributes"].get("agent_eval.triggered")]
    if tripped:
        # The steps around the guardrail fail with it; the guardrail itself says so.
        for span, _ in spans:
            span["problem"] = None if "tripwire" in str(span["problem"]) else span["problem"]
    events = SpanTree(spans, diagnostics).events()
    for fields in events:
        if fields["type"] == "guardrail" and mapping(fields.get("output")).get("triggered"):
            fields["block_reason"] = str(fields.get("agent_name") or "guardrail")
    names = ("workflow_name", "metadata")
    about = {name: trace[name] for trace in traces for name in names if trace.get(name)}
    group = next((text(trace.get("group_id")) for trace in traces if text(trace.get("group_id"))), None)
    own = next((text(trace.get("id")) for trace in traces), None)
    return Conversation(events, id=group or own, metadata=about, aliases=(own,) if own else ())


def _span(item: Mapping[str, Any]) -> SpanFields:
    data = mapping(item.get("span_data"))
    kind, name, asked, output = (data.get(each) for each in ("type", "name", "input", "output"))
    attributes: dict[str, Any] = {}
    if kind == "generation":
        # It answers with messages, or with a whole response where that was streamed.
        first = mapping(next(iter(items(output)), None)).get("output")
        answer = first if isinstance(first, list) else output
        attributes = of_model({"messages": asked}, answer, data.get("usage"), data.get("model"))
    elif kind == "response":
        attributes = of_model(asked, data.get("response"), data.get("usage"), data.get("model"))
        attributes["gen_ai.response.id"] = text(data.get("response_id"))
    elif kind == "function":
        attributes = {KIND: "TOOL", "gen_ai.tool.name": name}
        attributes |= {"gen_ai.tool.call.arguments": asked, "gen_ai.tool.call.result": output}
    elif kind == "agent":
        attributes = {KIND: "AGENT", AGENT_NAME: text(name)}
    elif kind == "handoff":
        attributes = {"gen_ai.operation.name": "agent_handoff"}
        attributes["gen_ai.handoff.from_agent"] = text(data.get("from_agent"))
        attributes["gen_ai.handoff.to_agent"] = data.get("to_agent")
    elif kind == "guardrail":
        attributes = {KIND: "GUARDRAIL", "output.value": {"triggered": data.get("triggered")}}
        attributes["agent_eval.triggered"] = True if data.get("triggered") else None
    ids = (item.get("trace_id"), item.get("id"), item.get("parent_id"))
    times = (item.get("started_at"), item.get("ended_at"))
    return span_fields(name or kind, ids, times, attributes, item.get("error"))

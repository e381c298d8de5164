"""Read back what `export otel` wrote: every event in its place, as `agent_eval.events` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, event, items, mapping, text
from agent_eval.importers.span_facts import answer_fields
from agent_eval.importers.span_messages import SpanMessages
from agent_eval.importers.span_records import SpanFields

_OWN = "agent_eval.events"
_NOT_COPIED = frozenset({"ts", "latency_ms"})


def is_own(spans: Sequence[SpanFields]) -> bool:
    """Whether all spans of a trace that have content are of this program's export."""
    roots = [span for span in spans if "agent_eval.case_id" in span["attributes"]]
    return bool(roots) and all(span in roots or _OWN in span["attributes"] for span in spans)


def own_events(spans: Sequence[tuple[SpanFields, str]], diagnostics: Diagnostics) -> list[EventFields]:
    """Return the events of a trial that this program exported, in the order of the trace.

    Each span comes with the place of its record.
    """
    reader = _Reader(diagnostics)
    for span, place in spans:
        reader.add(span, place)
    return [fields for _, _, fields in sorted(reader.events, key=lambda item: item[:2])]


class _Reader:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self.events: list[tuple[float, int, EventFields]] = []
        self._diagnostics = diagnostics

    def _put(self, index: Any, fields: EventFields) -> None:
        self.events.append((index if isinstance(index, int) else 0, len(self.events), fields))

    def add(self, span: SpanFields, place: str) -> None:
        operation = span["attributes"].get("gen_ai.operation.name")
        if operation == "execute_tool":
            self._add_call(span)
        elif operation == "chat":
            self._add_answer(span, place)
        for recorded in span["events"]:
            stated = mapping(mapping(recorded.get("attributes")).get("agent_eval.event"))
            if stated.get("type") and stated.get("actor"):
                fields = {name: value for name, value in stated.items() if name not in _DERIVED}
                self._put(stated.get("idx"), fields)

    def _add_call(self, span: SpanFields) -> None:
        attributes, indices = span["attributes"], items(span["attributes"].get(_OWN))
        common = {
            "tool": text(attributes.get("gen_ai.tool.name")),
            "call_id": text(attributes.get("gen_ai.tool.call.id")),
            "ran_on": text(attributes.get("agent_eval.ran_on")),
        }
        has_call = attributes.get("agent_eval.call_recorded") is not False
        has_result = "gen_ai.tool.call.result" in attributes
        error = attributes.get("agent_eval.error", span["problem"])
        if has_call:
            actor = text(attributes.get("agent_eval.actor")) or "agent"
            call = event(actor, "tool_call", **common, agent_name=text(attributes.get("gen_ai.agent.name")))
            call["input"] = attributes.get("gen_ai.tool.call.arguments")
            if error is not None and not has_result:
                call["error"] = error
            self._put(indices[0] if indices else 0, call)
        if has_result:
            result = event("tool", "tool_result", **common)
            result["output"] = attributes.get("gen_ai.tool.call.result")
            if error is not None:
                result["error"] = error
            self._put(indices[-1] if indices else 0, result)

    def _add_answer(self, span: SpanFields, place: str) -> None:
        read = SpanMessages(span, place, self._diagnostics)
        attributes = span["attributes"]
        inputs = items(attributes.get("agent_eval.input_events"))
        for index, message in zip(inputs, read.inputs(), strict=False):
            for fields in message.events:
                if fields["type"] != "tool_result":  # the span of the call has it
                    self._put(index, fields)
        indices = items(attributes.get(_OWN))
        written = [fields for message in read.outputs() for fields in message.events]
        texts = [fields for fields in written if fields["type"] != "tool_call"]
        if attributes.get("agent_eval.content_recorded") is False:
            texts.append(event("agent", "message", content_recorded=False))
        fields = self._carrier(texts, len(indices) - len(written))
        for position, made in enumerate(texts):
            self._put(indices[min(position, len(indices) - 1)] if indices else 0, made)
        for name, value in answer_fields(span).items():
            if name not in _NOT_COPIED:
                fields.setdefault(name, value)
        for name in ("cost_usd", "block_reason", "turn"):
            if f"agent_eval.{name}" in attributes:
                fields[name] = attributes[f"agent_eval.{name}"]
        if span["problem"] is not None:
            fields["error"] = attributes.get("agent_eval.error", span["problem"])
        if fields not in texts and set(fields) > {"actor", "type", "attributes"}:
            self._put(indices[-1] if indices else 0, fields)

    def _carrier(self, texts: list[EventFields], without_parts: int) -> EventFields:
        """Return the event that carries tokens and model: the message, or a record of the request."""
        if texts and without_parts <= 0:
            return texts[-1]
        return event("agent", "model_call")


_DERIVED = frozenset({"idx", "trace_id", "span_id", "parent_span_id"})

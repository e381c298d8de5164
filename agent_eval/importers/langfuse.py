"""Traces of Langfuse, as its page downloads them and its API returns them: observations, written as spans."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import items, mapping, text
from agent_eval.importers.format import Link, Match
from agent_eval.importers.records import Record
from agent_eval.importers.span_facts import MISSING
from agent_eval.importers.span_records import (
    INPUTS,
    KIND,
    OUTPUTS,
    SESSION,
    SpanFields,
    by_conventions,
    json_or_text,
    model_attributes,
    span_fields,
)
from agent_eval.importers.telemetry import OpenTelemetry

_KINDS = {"GENERATION": "LLM", "TOOL": "TOOL", "RETRIEVER": "RETRIEVER", "AGENT": "AGENT"}

_TYPES = frozenset({*_KINDS, "SPAN", "EVENT", "CHAIN", "EVALUATOR", "EMBEDDING", "GUARDRAIL"})
_RUNS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
"""Generations of the AI SDK that repeat those within them."""


class Langfuse(OpenTelemetry):
    """Reads traces with their observations."""

    name = "langfuse"

    @override
    def detect(self, value: Any) -> Match | None:
        observations = _observations(value)
        if not observations:
            return None
        known = all("type" in each and ("traceId" in each or "id" in each) for each in observations[:20])
        return Match(0.95, "trace") if known else None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        value = mapping(record.value)
        trace = mapping(value.get("trace", value))
        observations = _observations(value)
        outer = {
            text(each.get("parentObservationId")) for each in observations if each.get("type") == "GENERATION"
        }
        steps = {str(each.get("name")) for each in observations}
        spans = [_span(each, trace, steps, is_outer=text(each.get("id")) in outer) for each in observations]
        ids = [f"trace:{name}" for name in sorted({span["trace"] for span in spans if span["trace"]})]
        session = text(trace.get("sessionId"))
        if session is not None:
            ids.append(f"session:{session}")
        return Link(ids=tuple(ids)), {"spans": spans, "info": {}}


def _observations(value: Any) -> list[Mapping[str, Any]]:
    """Return the observations; newer downloads have them twice, within the trace without their content."""
    fields = mapping(value)
    inner = mapping(fields.get("trace"))
    if {"id", "traceId", "startTime"} <= set(fields) and fields.get("type") in _TYPES:
        return [fields]
    listed = items(fields.get("observations")) or items(inner.get("observations"))
    return [mapping(each) for each in listed] if "projectId" in {**inner, **fields} or inner else []


def _span(
    each: Mapping[str, Any], trace: Mapping[str, Any], steps: Collection[str], *, is_outer: bool
) -> SpanFields:
    metadata = json_or_text(each.get("metadata"))
    own = mapping(mapping(metadata).get("attributes"))
    kind = _KINDS.get(str(each.get("type")))
    if kind is None and ("gen_ai.tool.name" in own or own.get("openinference.span.kind") == "TOOL"):
        kind = "TOOL"
    if kind == "LLM" and (is_outer or each.get("name") in _RUNS):
        kind = "AGENT"  # what it states is the sum of the generations in it
    asked, answered = (_with_roles(json_or_text(each.get(side)), steps) for side in ("input", "output"))
    attributes: dict[str, Any] = {SESSION: text(trace.get("sessionId"))}
    if kind == "LLM":
        attributes |= {KIND: kind, INPUTS: asked, OUTPUTS: _answer(answered)}
        attributes |= model_attributes(each.get("usageDetails") or each.get("usage"), model=each.get("model"))
        cost = mapping(each.get("costDetails")).get("total")
        attributes["llm.cost.total"] = cost if cost else None
    elif kind in ("TOOL", "RETRIEVER"):
        named = by_conventions(str(each.get("name")), dict(own))
        name = text(named.get("gen_ai.tool.name")) or text(named.get("tool.name")) or str(each.get("name"))
        arguments = mapping(asked).get("input", MISSING) if set(mapping(asked)) == {"input"} else asked
        attributes |= {
            KIND: kind,
            "gen_ai.tool.name": name.removeprefix("running tool: ").removeprefix("execute_tool "),
            "gen_ai.tool.call.id": named.get("gen_ai.tool.call.id"),
            INPUTS: arguments,
            OUTPUTS: answered,
        }
    elif kind is not None:
        attributes[KIND] = kind
    failed = each.get("level") == "ERROR"
    return span_fields(
        each.get("name"),
        (each.get("traceId") or trace.get("id"), each.get("id"), each.get("parentObservationId")),
        (each.get("startTime"), each.get("endTime")),
        attributes,
        (text(each.get("statusMessage")) or answered or "error") if failed else None,
    )


def _with_roles(messages: Any, steps: Collection[str]) -> Any:
    """Give results the role of a tool where LangGraph's handler wrote the tool's name as role."""
    if not isinstance(messages, list):
        return messages
    return [
        {**message, "role": "tool"} if str(mapping(message).get("role")) in steps else message
        for message in messages
    ]


def _answer(answered: Any) -> Any:
    """Return an answer as a message where the AI SDK records its calls alone."""
    calls = items(answered)
    if calls and all("toolCallId" in mapping(call) and "toolName" in mapping(call) for call in calls):
        return {"role": "assistant", "content": None, "toolCalls": calls}
    return answered

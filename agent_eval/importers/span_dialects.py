"""Spans that name the same things in their own words, written by the conventions before anything reads them.

A dialect is a row here: the attribute as it is written, and as OpenTelemetry's GenAI conventions or
OpenInference have it. What a span has by the conventions is never replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.importers.events import items, mapping, text

_ATTRIBUTES = (
    # Vercel AI SDK
    ("ai.toolCall.name", "gen_ai.tool.name"),
    ("ai.toolCall.id", "gen_ai.tool.call.id"),
    ("ai.toolCall.args", "gen_ai.tool.call.arguments"),
    ("ai.toolCall.result", "gen_ai.tool.call.result"),
    ("ai.telemetry.metadata.sessionId", "session.id"),
    ("ai.usage.promptTokens", "gen_ai.usage.input_tokens"),
    ("ai.usage.completionTokens", "gen_ai.usage.output_tokens"),
    ("ai.usage.cachedInputTokens", "gen_ai.usage.cache_read.input_tokens"),
    ("ai.usage.inputTokenDetails.cacheReadTokens", "gen_ai.usage.cache_read.input_tokens"),
    ("ai.usage.inputTokenDetails.cacheWriteTokens", "gen_ai.usage.cache_creation.input_tokens"),
    ("ai.usage.reasoningTokens", "gen_ai.usage.reasoning.output_tokens"),
    # pydantic-ai, second version
    ("tool_arguments", "gen_ai.tool.call.arguments"),
    ("tool_response", "gen_ai.tool.call.result"),
    # Model Context Protocol
    ("mcp.tool.name", "gen_ai.tool.name"),
)
_RUNS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_OPERATIONS = (
    ("ai.operationId", ("ai.toolCall",), "execute_tool"),
    ("ai.operationId", ("ai.generateText.doGenerate", "ai.streamText.doStream"), "chat"),
    ("ai.operationId", ("ai.generateObject.doGenerate", "ai.streamObject.doStream"), "chat"),
    ("ai.operationId", _RUNS, "invoke_agent"),
    ("mcp.method.name", ("tools/call",), "execute_tool"),
)


def by_conventions(name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span with what its dialect says added by the conventions' names."""
    # What a whole run used is the sum of its answers.
    is_sum = attributes.get("ai.operationId") in _RUNS
    added = {
        known: attributes[own]
        for own, known in _ATTRIBUTES
        if own in attributes and known not in attributes and not (is_sum and own.startswith("ai.usage."))
    }
    if "gen_ai.operation.name" not in attributes:
        for own, values, operation in _OPERATIONS:
            if attributes.get(own) in values:
                added["gen_ai.operation.name"] = operation
        if "tool_arguments" in attributes and "gen_ai.tool.name" in attributes:
            added["gen_ai.operation.name"] = "execute_tool"
    if attributes.get("mcp.method.name") == "tools/call" and "gen_ai.tool.name" not in attributes | added:
        added["gen_ai.tool.name"] = name.removeprefix("tools/call").strip()
    if "ai.response.toolCalls" in attributes or "ai.response.text" in attributes:
        added |= _answer_of_ai_sdk(attributes)
    return {**attributes, **added} if added else attributes


def _answer_of_ai_sdk(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ai.response.messages": {
            "role": "assistant",
            "content": attributes.get("ai.response.text"),
            "toolCalls": attributes.get("ai.response.toolCalls"),
        }
    }


def spans_of_jaeger(value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of an answer of Jaeger's API as flat rows."""
    for trace in map(mapping, items(value.get("data"))):
        for span in map(mapping, items(trace.get("spans"))):
            parents = [mapping(each).get("spanID") for each in items(span.get("references"))]
            tags = {str(tag.get("key")): tag.get("value") for tag in map(mapping, items(span.get("tags")))}
            started, took = (
                time if isinstance(time, int) else 0 for time in (span.get("startTime"), span.get("duration"))
            )
            failed = tags.get("error") is True or tags.get("otel.status_code") == "ERROR"
            yield {
                "trace_id": span.get("traceID"),
                "span_id": span.get("spanID"),
                "parent_id": next(filter(None, parents), None),
                "name": span.get("operationName"),
                "attributes": tags,
                "startTimeUnixNano": started * 1000,
                "endTimeUnixNano": (started + took) * 1000,
                "status_code": "ERROR" if failed else None,
                "status_message": text(tags.get("otel.status_description")),
                "events": [_log_of_jaeger(mapping(log)) for log in items(span.get("logs"))],
            }


def _log_of_jaeger(log: Mapping[str, Any]) -> dict[str, Any]:
    fields = {str(field.get("key")): field.get("value") for field in map(mapping, items(log.get("fields")))}
    return {"name": fields.pop("event", None), "timestamp": log.get("timestamp"), "attributes": fields}

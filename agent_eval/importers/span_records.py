"""Spans and log records, by whichever encoding: OTLP/JSON, flat rows, MLflow's traces. All become one shape.

The shape, as JSON: `trace`, `span`, `parent`, `name`, `start` and `end` (nanoseconds since 1970 or null),
`attributes` (plain JSON), `problem` (what the status or an exception says; null if all went well), `events`
(`name`, `time`, `attributes`, `body`), and `is_log` for a log record that may belong to a span elsewhere.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.errors import InvalidInput
from agent_eval.importers.events import items, mapping, not_null, seconds_of, text, usage_in
from agent_eval.storage.json import Limits, parse

SpanFields = dict[str, Any]
"""A span in the shape above."""

USAGE = "agent_eval.usage"
"""Attribute with the tokens as `TokenUsage` has them, where a framework states them in its own words."""

_ERROR_CODES = frozenset({2, "STATUS_CODE_ERROR", "ERROR", "Error", "error"})
_LIMITS = Limits(max_depth=50)
_RESOURCES = frozenset({"resourceSpans", "resource_spans", "resourceLogs", "batches"})


def is_otlp(value: Any) -> bool:
    """Whether this is a request, or a file, of OTLP/JSON."""
    if not isinstance(value, dict) or _RESOURCES.isdisjoint(value):
        return False
    return any(isinstance(value.get(name), list) for name in _RESOURCES)


def is_own_export(value: Any) -> bool:
    """Whether this is a line that `export otel` wrote."""
    resource = mapping(next(iter(items(_first_of(mapping(value), ("resourceSpans", "resourceLogs")))), None))
    about = attributes_of(mapping(resource.get("resource")).get("attributes"))
    scope = mapping(mapping(value).get("scope"))
    return "agent-eval" in (about.get("service.name"), scope.get("name"))


def is_row(value: Any) -> bool:
    """Whether this is a span, or an event, as a flat row."""
    value = _of_columns(value) if isinstance(value, dict) else {}
    if not isinstance(value.get("attributes"), dict):
        return False
    context = value.get("context", value.get("spanContext"))
    has_ids = any(name in value for name in _TRACE_IDS) or isinstance(context, dict)
    return (has_ids and any(name in value for name in ("name", "event_name", "span_name"))) or (
        "spanName" in value and any(name.startswith("gen_ai.") for name in value["attributes"])
    )


def _of_columns(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row whose columns are `context.span_id` and `attributes.NAME` as others are."""
    if "context.span_id" not in row:
        return row
    context, attributes = (
        {name.removeprefix(start): value for name, value in row.items() if name.startswith(start)}
        for start in ("context.", "attributes.")
    )
    return {**row, "context": context, "attributes": attributes}


def rows_of(value: Any) -> list[Any]:
    """Return the rows of spans that a record has: below `spans`, or below names, each a conversation."""
    if isinstance(spans := mapping(value).get("spans"), list):
        return spans
    traces = mapping(value)
    if not traces or not all(rows and is_row(rows[0]) for rows in map(items, traces.values())):
        return []
    return [
        {**mapping(row), "attributes": {**mapping(mapping(row).get("attributes")), "session.id": name}}
        for name, rows in traces.items()
        for row in rows
    ]


def is_jaeger(value: Any) -> bool:
    """Whether this is an answer of Jaeger's API."""
    traces = items(mapping(value).get("data"))
    return bool(traces) and all(
        "traceID" in mapping(trace) and "spans" in mapping(trace) for trace in traces[:20]
    )


def is_mlflow(value: Any) -> bool:
    """Whether this is a trace of MLflow."""
    spans = mapping(mapping(value).get("data")).get("spans")
    return isinstance(spans, list) and isinstance(mapping(value).get("info"), dict)


_TRACE_IDS = ("trace_id", "traceId")
_STARTS = ("start_time", "startTimeUnixNano", "start_time_unix_nano", "startTime", "start_timestamp")
_ENDS = ("end_time", "endTimeUnixNano", "end_time_unix_nano", "endTime", "end_timestamp")


_last: tuple[Any, list[SpanFields]] = (None, [])
"""The record that was recognised last, and its spans: each format asks for them, and preparing it does."""


def spans_of(value: Any) -> list[SpanFields]:
    """Return the spans and log records of a record, and remember them until `forget_spans`."""
    global _last
    if _last[0] is not value:
        spans = list(_spans(value))
        for span in spans:
            span["attributes"] = by_conventions(span["name"], span["attributes"])
        _last = (value, spans)
    return _last[1]


def forget_spans() -> None:
    """Free the memory of the record that was read last: it may be as large as a file."""
    global _last
    _last = (None, [])


def _spans(value: Any) -> Iterator[SpanFields]:
    if is_otlp(value) or is_otlp(mapping(value).get("trace")):
        yield from _of_otlp(value if is_otlp(value) else value["trace"])
    elif is_jaeger(value):
        yield from map(_span, _rows_of_jaeger(value))
    elif is_mlflow(value):
        for span in map(mapping, value["data"]["spans"]):
            # Each attribute is JSON text.
            own = {name: json_or_text(stated) for name, stated in mapping(span.get("attributes")).items()}
            yield _span({**span, "attributes": own})
    elif rows := rows_of(value):
        yield from (_span(mapping(span)) for span in rows)
    elif is_row(value):
        yield _span(value)


def _of_otlp(request: Mapping[str, Any]) -> Iterator[SpanFields]:
    for resource in items(_first_of(request, ("resourceSpans", "resource_spans", "batches"))):
        names = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
        for scope in items(_first_of(mapping(resource), names)):
            yield from (_span(mapping(span)) for span in items(mapping(scope).get("spans")))
    for resource in items(request.get("resourceLogs")):
        for scope in items(mapping(resource).get("scopeLogs")):
            for record in map(mapping, items(mapping(scope).get("logRecords"))):
                attributes = attributes_of(record.get("attributes"))
                name = text(record.get("eventName")) or text(attributes.get("event.name")) or ""
                time = _first_time(record, ("timeUnixNano", "observedTimeUnixNano"))
                ids = hex_id(record.get("traceId")), hex_id(record.get("spanId"))
                yield _log(*ids, name, time, attributes, any_value(record.get("body")))


def _first_of(fields: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if fields.get(name)), None)


def _log(
    trace: str | None, span: str | None, name: str, time: int | None, attributes: Any, body: Any
) -> SpanFields:
    event = {"name": name, "time": time, "attributes": attributes, "body": body}
    about = {"trace": trace, "span": span, "parent": None, "name": name, "start": time, "end": time}
    return {**about, "attributes": {}, "problem": None, "events": [event], "is_log": True}


def _span(row: Mapping[str, Any]) -> SpanFields:
    """Read a span, whichever names its fields have: those of OTLP, of SDKs, of data frames or of MLflow."""
    row = _of_columns(row)
    context = {**mapping(row.get("context", row.get("spanContext"))), **row}
    trace = hex_id(context.get("trace_id") or context.get("traceId"))
    span = hex_id(context.get("span_id") or context.get("spanId"))
    attributes = attributes_of(row.get("attributes"))
    if isinstance(row.get("span_kind"), str) and row["span_kind"] != "UNKNOWN":
        attributes.setdefault("openinference.span.kind", row["span_kind"])
    if text(row.get("event_name")) and "start_time" not in row:
        time = _nanoseconds(row.get("timestamp"))
        return _log(trace, span, row["event_name"], time, attributes, row.get("body"))
    events: list[dict[str, Any]] = [
        {
            "name": event.get("event_name") or event.get("name"),
            "time": _first_time(event, ("timeUnixNano", "timestamp")),
            "attributes": attributes_of(event.get("attributes")),
            "body": event.get("body"),
        }
        for event in map(mapping, items(_first_of(row, ("span_events", "events", "otel_events"))))
    ]
    parent = _first_of(row, ("parent_span_id", "parentSpanId", "parent_id"))
    parent = parent or mapping(row.get("parentSpanContext")).get("spanId")
    # What went wrong: the status's message, that of an exception, or the type of the error.
    stated: Any = row.get("status")
    code = row.get("status_code", row.get("otel_status_code", stated))
    status = {"code": code}
    if isinstance(stated, dict):
        status = {"code": stated.get("status_code"), **stated}
    problem = None
    if status["code"] in _ERROR_CODES or "error.type" in attributes:
        exceptions = [event["attributes"] for event in events if event["name"] == "exception"]
        words = [status.get("message", row.get("status_message"))]
        words += [exception.get("exception.message") for exception in exceptions]
        words += [attributes.get("error.message"), attributes.get("error.type"), "error"]
        problem = next(str(word) for word in words if word not in (None, ""))
    return {
        "trace": trace,
        "span": span,
        "parent": hex_id(parent),
        "name": str(_first_of(row, ("name", "span_name", "spanName")) or ""),
        "start": _first_time(row, _STARTS),
        "end": _first_time(row, _ENDS),
        "attributes": attributes,
        "problem": problem,
        "events": events,
    }


def attributes_of(pairs: Any) -> dict[str, Any]:
    """Read a list of `KeyValue`; some exporters write an object instead."""
    if isinstance(pairs, dict):
        return dict(pairs)
    return {str(pair.get("key")): any_value(pair.get("value")) for pair in map(mapping, items(pairs))}


def any_value(value: Any) -> Any:
    """Read an `AnyValue`; an empty one is null.

    Example:
        >>> any_value({"arrayValue": {"values": [{"intValue": "7"}, {"stringValue": "a"}, {}]}})
        [7, 'a', None]
    """
    fields = mapping(value)
    for name in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if name in fields:
            return fields[name]
    if "intValue" in fields:
        number = str(fields["intValue"])
        return int(number) if number.lstrip("-").isdecimal() else fields["intValue"]
    if "arrayValue" in fields:
        return [any_value(item) for item in items(mapping(fields["arrayValue"]).get("values"))]
    if "kvlistValue" in fields:
        return attributes_of(mapping(fields["kvlistValue"]).get("values"))
    return None


def hex_id(value: Any) -> str | None:
    """Return an id as it is, or in hexadecimal if it is base64; None for an empty one and for zeros."""
    identifier = text(value)
    if identifier is None:
        return None
    identifier = identifier.removeprefix("0x")
    if identifier.endswith("=") and len(identifier) in (12, 24):
        try:
            identifier = base64.b64decode(identifier, validate=True).hex()
        except (binascii.Error, ValueError):
            return identifier
    return identifier if identifier.strip("0") else None


def _first_time(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((time for name in names if (time := _nanoseconds(fields.get(name))) is not None), None)


def _nanoseconds(value: Any) -> int | None:
    if isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value):
        return int(value[0] * 10**9 + value[1])  # seconds and nanoseconds, as JavaScript's SDK writes them
    if isinstance(value, str) and value.isdecimal() and len(value) >= 18:
        return int(value)
    if isinstance(value, int) and value >= 10**17:
        return value
    seconds = seconds_of(value)
    return None if seconds is None else round(seconds * 1e6) * 1000


def json_or_text(value: Any) -> Any:
    """Parse a text that is JSON; return any other value as it is."""
    if not isinstance(value, str) or not value.strip():
        return value
    try:
        return parse(value.encode("utf-8", "surrogatepass"), source="attribute", limits=_LIMITS)
    except InvalidInput:
        return value


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
RUNS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
"""Operations of the AI SDK that repeat the answers within them, or state their sum."""
_OPERATIONS = (
    ("ai.operationId", ("ai.toolCall",), "execute_tool"),
    ("ai.operationId", ("ai.generateText.doGenerate", "ai.streamText.doStream"), "chat"),
    ("ai.operationId", ("ai.generateObject.doGenerate", "ai.streamObject.doStream"), "chat"),
    ("ai.operationId", RUNS, "invoke_agent"),
    ("mcp.method.name", ("tools/call",), "execute_tool"),
)


def by_conventions(name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span with what its dialect says added by the conventions' names."""
    is_sum = attributes.get("ai.operationId") in RUNS
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
        names = {"content": "ai.response.text", "toolCalls": "ai.response.toolCalls"}
        answer = {word: attributes.get(own) for word, own in names.items()}
        added["ai.response.messages"] = {"role": "assistant", **answer}
    return {**attributes, **added} if added else attributes


def _rows_of_jaeger(value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of an answer of Jaeger's API as flat rows."""

    def tags_of(pairs: Any) -> dict[str, Any]:
        return {str(pair.get("key")): pair.get("value") for pair in map(mapping, items(pairs))}

    spans = (span for trace in items(value.get("data")) for span in items(mapping(trace).get("spans")))
    for span in map(mapping, spans):
        parents = [mapping(each).get("spanID") for each in items(span.get("references"))]
        times = (span.get("startTime"), span.get("duration"))
        started, took = (time if isinstance(time, int) else 0 for time in times)
        tags, logs = tags_of(span.get("tags")), list[dict[str, Any]]()
        for log in map(mapping, items(span.get("logs"))):
            own = tags_of(log.get("fields"))
            name = own.pop("event", None)
            logs.append({"name": name, "timestamp": log.get("timestamp"), "attributes": own})
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
            "events": logs,
        }


INPUTS, OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
KIND, AGENT_NAME, SESSION = "openinference.span.kind", "gen_ai.agent.name", "session.id"


def span_fields(
    name: Any,
    ids: tuple[Any, Any, Any],
    times: tuple[Any, Any],
    attributes: Mapping[str, Any],
    error: Any = None,
) -> SpanFields:
    """Make a span of what a framework recorded.

    Args:
        ids: The ids of its trace, of itself, and of its parent.
        times: When it began and ended, in any form that `seconds_of` reads.
        attributes: By the names that spans have; null ones are left out.
        error: What went wrong; null if nothing did.
    """
    trace, span, parent = (text(identifier) for identifier in ids)
    start, end = (seconds_of(time) for time in times)
    words = mapping(error).get("message", error)
    return {
        "trace": None if trace is None else trace.replace("-", ""),
        "span": span,
        "parent": parent,
        "name": str(name or ""),
        "start": None if start is None else round(start * 1e6) * 1000,
        "end": None if end is None else round(end * 1e6) * 1000,
        "attributes": not_null(attributes),
        "problem": None if words in (None, "") else str(words),
        "events": [],
    }


def of_model(asked: Any, answer: Any, usage: Any, model: Any, reason: Any = None) -> dict[str, Any]:
    """Return the attributes of a span in which a model was asked; `usage` in any API's words."""
    return {
        KIND: "LLM",
        INPUTS: asked,
        OUTPUTS: answer,
        "gen_ai.response.model": text(model),
        "gen_ai.response.finish_reasons": [reason] if text(reason) else None,
        USAGE: usage_in(usage),
    }


def of_tool(name: Any, arguments: Any, kind: str = "TOOL") -> dict[str, Any]:
    """Return the attributes of a span in which a tool was called, or a retriever."""
    return {KIND: kind, "gen_ai.tool.name": name, INPUTS: arguments}

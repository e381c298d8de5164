"""Encode spans and verdicts as rows of JSON Lines, and as OTLP/JSON (1.x).

OTLP/JSON has identifiers in hexadecimal, 64-bit integers as text, and enumerations as numbers. A line holds
the spans, or the events, of one trial, as OpenTelemetry's file exporter writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agent_eval import __version__
from agent_eval.evidence.reader import Pack
from agent_eval.exporters.otel import EVALUATION, Evaluation, ExportedTrial, Span

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
_SCOPE = {"name": "agent-eval", "version": __version__}
_KINDS = {"INTERNAL": 1, "CLIENT": 3}
_STATUS = {"UNSET": 0, "OK": 1, "ERROR": 2}
_INFO = 9
"""The severity of a verdict's event: it reports a finding, whatever the finding is."""


def json_rows(trial: ExportedTrial) -> Iterator[dict[str, Any]]:
    """Yield the spans of a trial as plain rows, then its verdicts."""
    for span in trial.spans:
        status = {"code": span.status} | ({} if span.problem is None else {"message": span.problem})
        yield {
            "type": "span",
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_span_id,
            "name": span.name,
            "kind": span.kind,
            "start_time": span.start,
            "end_time": span.end,
            "attributes": span.attributes,
            "status": status,
            "span_events": [
                {"event_name": event.name, "timestamp": event.time, "attributes": event.attributes}
                for event in span.events
            ],
            "scope": _SCOPE,
        }
    for evaluation in trial.evaluations:
        yield {
            "type": "event",
            "event_name": EVALUATION,
            "trace_id": evaluation.trace_id,
            "span_id": evaluation.span_id,
            "timestamp": evaluation.time,
            "attributes": evaluation.attributes,
            "scope": _SCOPE,
        }


def traces_of(pack: Pack, spans: list[Span]) -> dict[str, Any]:
    """Encode spans as an `ExportTraceServiceRequest`."""
    scope = {"scope": _SCOPE, "schemaUrl": SCHEMA_URL, "spans": [_span(span) for span in spans]}
    return {"resourceSpans": [{"resource": _resource(pack), "scopeSpans": [scope], "schemaUrl": SCHEMA_URL}]}


def logs_of(pack: Pack, evaluations: list[Evaluation]) -> dict[str, Any]:
    """Encode verdicts as an `ExportLogsServiceRequest`."""
    records = [
        {
            "timeUnixNano": str(evaluation.time),
            "observedTimeUnixNano": str(evaluation.time),
            "severityNumber": _INFO,
            "eventName": EVALUATION,
            "attributes": attributes(evaluation.attributes),
            "traceId": evaluation.trace_id,
            "spanId": evaluation.span_id,
        }
        for evaluation in evaluations
    ]
    scope = {"scope": _SCOPE, "schemaUrl": SCHEMA_URL, "logRecords": records}
    return {"resourceLogs": [{"resource": _resource(pack), "scopeLogs": [scope], "schemaUrl": SCHEMA_URL}]}


def _resource(pack: Pack) -> dict[str, Any]:
    of_run = {"agent_eval.run_id": pack.config.run_id, "agent_eval.dataset_id": pack.config.dataset_id}
    program = {"service.name": "agent-eval", "service.version": __version__}
    return {"attributes": attributes({**program, **of_run})}


def _span(span: Span) -> dict[str, Any]:
    status: dict[str, Any] = {"code": _STATUS[span.status]}
    if span.problem is not None:
        status["message"] = span.problem
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **({} if span.parent_span_id is None else {"parentSpanId": span.parent_span_id}),
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": attributes(span.attributes),
        "events": [
            {"timeUnixNano": str(event.time), "name": event.name, "attributes": attributes(event.attributes)}
            for event in span.events
        ],
        "status": status,
    }


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Encode attributes as a list of `KeyValue`."""
    return [{"key": name, "value": any_value(value)} for name, value in values.items()]


def any_value(value: Any) -> dict[str, Any]:
    """Encode plain JSON as an `AnyValue`; null is an empty one.

    Example:
        >>> any_value({"order": 7, "items": [None, True, 0.5]})
        {'kvlistValue': {'values': [{'key': 'order', 'value': {'intValue': '7'}}, {'key': 'items', \
'value': {'arrayValue': {'values': [{}, {'boolValue': True}, {'doubleValue': 0.5}]}}}]}}
    """
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        fits = -(1 << 63) <= value < 1 << 63
        return {"intValue": str(value)} if fits else {"doubleValue": float(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(value)}}
    return {"stringValue": str(value)}

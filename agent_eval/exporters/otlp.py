"""Encode the rows of a trial as OTLP/JSON (1.x).

OTLP/JSON has identifiers in hexadecimal, 64-bit integers as text, and enumerations as numbers. A line holds
the spans, or the events, of one trial, as OpenTelemetry's file exporter writes them.
"""

from __future__ import annotations

from typing import Any

from agent_eval import __version__
from agent_eval.evidence.reader import Pack
from agent_eval.exporters.otel import SCOPE, Row

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
_KINDS = {"INTERNAL": 1, "CLIENT": 3}
_STATUS = {"UNSET": 0, "OK": 1, "ERROR": 2}
_INFO = 9
"""The severity of a verdict's event: it reports a finding, whatever the finding is."""


def otlp_requests(pack: Pack, rows: list[Row]) -> list[dict[str, Any]]:
    """Encode a trial as an `ExportTraceServiceRequest` and an `ExportLogsServiceRequest`."""
    of_run = {"agent_eval.run_id": pack.config.run_id, "agent_eval.dataset_id": pack.config.dataset_id}
    program = {"service.name": "agent-eval", "service.version": __version__}
    resource = {"attributes": attributes({**program, **of_run})}
    about = {"scope": SCOPE, "schemaUrl": SCHEMA_URL}
    spans = {**about, "spans": [_span(row) for row in rows if row["type"] == "span"]}
    records = {**about, "logRecords": [_log_record(row) for row in rows if row["type"] == "event"]}
    return [
        {"resourceSpans": [{"resource": resource, "scopeSpans": [spans], "schemaUrl": SCHEMA_URL}]},
        {"resourceLogs": [{"resource": resource, "scopeLogs": [records], "schemaUrl": SCHEMA_URL}]},
    ]


def _log_record(row: Row) -> dict[str, Any]:
    return {
        "timeUnixNano": str(row["timestamp"]),
        "observedTimeUnixNano": str(row["timestamp"]),
        "severityNumber": _INFO,
        "eventName": row["event_name"],
        "attributes": attributes(row["attributes"]),
        "traceId": row["trace_id"],
        "spanId": row["span_id"],
    }


def _span(row: Row) -> dict[str, Any]:
    parent, events = row["parent_span_id"], row["span_events"]
    return {
        "traceId": row["trace_id"],
        "spanId": row["span_id"],
        **({} if parent is None else {"parentSpanId": parent}),
        "name": row["name"],
        "kind": _KINDS[row["kind"]],
        "startTimeUnixNano": str(row["start_time"]),
        "endTimeUnixNano": str(row["end_time"]),
        "attributes": attributes(row["attributes"]),
        "events": [
            {
                "timeUnixNano": str(event["timestamp"]),
                "name": event["event_name"],
                "attributes": attributes(event["attributes"]),
            }
            for event in events
        ],
        "status": {**row["status"], "code": _STATUS[row["status"]["code"]]},
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

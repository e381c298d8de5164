"""Encode spans and verdicts as rows of JSON Lines and as OTLP/JSON (1.x), and send them to a collector.

OTLP/JSON has identifiers in hexadecimal, 64-bit integers as text, and enumerations as numbers. A line holds
the spans, or the events, of one trial, as OpenTelemetry's file exporter writes them.

By OTLP/HTTP, batches are packed with gzip. Rate limits and overload (429, 502, 503, 504) are waited for, as
`Retry-After` says. A collector that takes only a part of a batch is not sent it again: what it refused is
counted, and is an error at the end.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agent_eval import __version__
from agent_eval.errors import RemoteError, UsageError
from agent_eval.evidence.reader import Pack
from agent_eval.exporters.otel import EVALUATION, Evaluation, ExportedTrial, Span, exported_trials
from agent_eval.http.client import Answer, Session
from agent_eval.storage.json import dumps, parse
from agent_eval.text.numbers import count

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
_SCOPE = {"name": "agent-eval", "version": __version__}
_KINDS = {"INTERNAL": 1, "CLIENT": 3}
_STATUS = {"UNSET": 0, "OK": 1, "ERROR": 2}
_INFO = 9
"""The severity of a verdict's event: it reports a finding, whatever the finding is."""


BATCH = 512
"""Spans, or verdicts, in a request; what OpenTelemetry's SDKs send at once."""

ANSWER_BYTES = 1 << 20

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")


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
    records = [_log_record(evaluation) for evaluation in evaluations]
    scope = {"scope": _SCOPE, "schemaUrl": SCHEMA_URL, "logRecords": records}
    return {"resourceLogs": [{"resource": _resource(pack), "scopeLogs": [scope], "schemaUrl": SCHEMA_URL}]}


def _resource(pack: Pack) -> dict[str, Any]:
    config = pack.config
    values = {
        "service.name": "agent-eval",
        "service.version": __version__,
        "agent_eval.run_id": config.run_id,
        "agent_eval.dataset_id": config.dataset_id,
    }
    return {"attributes": attributes(values)}


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
            {
                "timeUnixNano": str(event.time),
                "name": event.name,
                "attributes": attributes(event.attributes),
            }
            for event in span.events
        ],
        "status": status,
    }


def _log_record(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "timeUnixNano": str(evaluation.time),
        "observedTimeUnixNano": str(evaluation.time),
        "severityNumber": _INFO,
        "eventName": EVALUATION,
        "attributes": attributes(evaluation.attributes),
        "traceId": evaluation.trace_id,
        "spanId": evaluation.span_id,
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


class PartialSuccess(RemoteError):
    """A collector refused a part of what it was sent; sending that again would not help."""

    code = "partial_success"


@dataclass(slots=True)
class Sent:
    """What a collector was sent, and what it refused of that."""

    spans: int = 0
    evaluations: int = 0
    rejected: int = 0
    warning: str = ""


def send(pack: Pack, session: Session) -> Sent:
    """Send all spans and verdicts of a pack.

    Raises:
        PartialSuccess: Everything was sent, and the collector refused a part.
        HttpError: The collector could not be reached, or refused a batch.
    """
    sender = _Sender(pack, session)
    for trial in exported_trials(pack):
        sender.add(trial.spans, trial.evaluations)
    sent = sender.finish()
    if sent.rejected:
        because = f": {sent.warning}" if sent.warning else ""
        raise PartialSuccess(
            f"The collector refused {sent.rejected:,} of {count(sent.spans, 'span')} and "
            f"{count(sent.evaluations, 'verdict')}{because}",
            remedy="See the collector's limits and its log; what it accepted need not be sent again.",
            rejected=sent.rejected,
        )
    return sent


def collector(endpoint: str, *, secret_headers: Mapping[str, str], plain_http: bool = False) -> Session:
    """Make the session for a collector.

    `endpoint` is its base address, such as `https://otel.example:4318`, without `/v1/traces`.

    Raises:
        UsageError: The address is not encrypted, and `plain_http` does not allow that.
    """
    if endpoint.lower().startswith("http://") and not plain_http and _name_of(endpoint) not in _THIS_MACHINE:
        raise UsageError(
            f"the collector at {_name_of(endpoint)} would be reached without encryption",
            remedy="Give an https address, or --plain-http for a collector on a network that you trust.",
            field="--endpoint",
        )
    packed = {"Content-Encoding": "gzip"}
    return Session(endpoint, secret_headers=secret_headers, headers=packed, plain_http=plain_http)


def _name_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # the session refuses it with the place of the mistake
        return None


class _Sender:
    """Collects batches and sends them when they are full."""

    def __init__(self, pack: Pack, session: Session) -> None:
        self._pack, self._session = pack, session
        self._spans: list[Span] = []
        self._evaluations: list[Evaluation] = []
        self._sent = Sent()

    def add(self, spans: list[Span], evaluations: list[Evaluation]) -> None:
        self._spans += spans
        self._evaluations += evaluations
        while len(self._spans) >= BATCH:
            self._send_spans()
        while len(self._evaluations) >= BATCH:
            self._send_evaluations()

    def finish(self) -> Sent:
        if self._spans:
            self._send_spans()
        if self._evaluations:
            self._send_evaluations()
        return self._sent

    def _send_spans(self) -> None:
        batch, self._spans = self._spans[:BATCH], self._spans[BATCH:]
        self._post("/v1/traces", traces_of(self._pack, batch), "rejectedSpans")
        self._sent.spans += len(batch)

    def _send_evaluations(self) -> None:
        batch, self._evaluations = self._evaluations[:BATCH], self._evaluations[BATCH:]
        self._post("/v1/logs", logs_of(self._pack, batch), "rejectedLogRecords")
        self._sent.evaluations += len(batch)

    def _post(self, path: str, request: dict[str, Any], rejected: str) -> None:
        # The time stamp in the head of gzip is left out, so that the same batch has the same bytes.
        body = gzip.compress(dumps(request), compresslevel=6, mtime=0)
        answer = self._session.request("POST", path, body=body, repeatable=True, max_bytes=ANSWER_BYTES)
        partial = _partial_success(answer)
        self._sent.rejected += _number(partial.get(rejected))
        message = partial.get("errorMessage")
        if isinstance(message, str) and message:
            self._sent.warning = message[:500]


def _partial_success(answer: Answer) -> dict[str, Any]:
    """Read what a collector says of a batch that it took; nothing, if its answer is no JSON."""
    if not answer.body.lstrip().startswith(b"{"):
        return {}
    partial = parse(answer.body, source="the collector's answer").get("partialSuccess")
    return partial if isinstance(partial, dict) else {}


def _number(value: object) -> int:
    """Read a 64-bit integer, which JSON of this protocol has as text."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 20 else 0

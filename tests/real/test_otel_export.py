"""What `export-otel` writes, held against OpenTelemetry's own schemas and its own protocol.

The schemas of messages (GenAI conventions 1.41.1) are beside the checkout; `opentelemetry-proto` is an
oracle, which `make oracles` installs. Tests skip without them, and on CI they fail.
"""

import base64
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.exporters.otel import Row, exported_trials
from agent_eval.exporters.otlp import otlp_requests
from tests.extent import unavailable
from tests.factories import make_config, make_pack, make_result
from tests.shared_data import shared_path


def spans_of(trial: list[Row]) -> list[Row]:
    return [row for row in trial if row["type"] == "span"]


REQUIRED = {
    "invoke_agent": {"gen_ai.operation.name", "gen_ai.provider.name"},
    "chat": {"gen_ai.operation.name", "gen_ai.provider.name"},
    "execute_tool": {"gen_ai.operation.name", "gen_ai.tool.name"},
}
"""Attributes that the conventions require of a span, by its operation."""


def oracle(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        unavailable(f"without {module.partition('.')[0]} (make oracles installs it)")


@pytest.fixture
def pack(tmp_path: Path) -> Pack:
    """A run of every kind of event: parallel calls, errors, reasoning, images, a handoff, no content."""
    agent, tool = {"actor": "agent"}, {"actor": "tool", "type": "tool_result", "tool": "look"}
    deep = {"deep": [None, 1.5, {"a": []}]}
    call = {**agent, "type": "tool_call", "tool": "look"}
    picture = {"type": "image", "media_type": "image/png", "sha256": "0" * 64, "size": 3}
    trace = [
        {"actor": "system", "type": "message", "output": "Be kind."},
        {"actor": "user", "type": "message", "parts": [picture, {"type": "text", "text": "This?"}]},
        {**agent, "type": "reasoning", "output": "Look it up."},
        {**call, "call_id": "1", "input": deep},
        {**call, "call_id": "2", "input": "not { json"},
        {**tool, "call_id": "2", "error": {"code": 7}},
        {**tool, "call_id": "1", "output": [1, "two", None]},
        {**agent, "type": "handoff", "output": "orders"},
        {**agent, "type": "message", "output": None, "content_recorded": False, "model": "m"},
        {"actor": "user", "type": "message", "input": "And?"},
        {**agent, "type": "message", "output": {"total": 7}, "usage": {"output_tokens": 3}},
    ]
    case = {"case_id": "a\u0000b", "trace": [{"idx": idx, **fields} for idx, fields in enumerate(trace)]}
    result = make_result("a\u0000b", failed="policy", error="regex")
    return open_pack(make_pack(tmp_path / "pack", [result], cases=[case], config=make_config()))


@pytest.mark.parametrize("which", ["input", "output"])
def test_messages_are_valid_by_the_schemas(pack: Pack, which: str) -> None:
    path = shared_path(f"data/formats/otel_genai/schemas/gen-ai-{which}-messages.json")
    validator = Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))
    (trial,) = exported_trials(pack)
    found = [span["attributes"].get(f"gen_ai.{which}.messages") for span in spans_of(trial)]
    texts = [text for text in found if text is not None]
    assert len(texts) >= 3
    for text in texts:
        assert [error.message for error in validator.iter_errors(json.loads(text))] == []


def test_spans_have_what_the_conventions_require(pack: Pack) -> None:
    (trial,) = exported_trials(pack)
    operations = [span["attributes"]["gen_ai.operation.name"] for span in spans_of(trial)]
    assert sorted(operations) == ["chat", "chat", "chat", "execute_tool", "execute_tool", "invoke_agent"]
    for span in spans_of(trial):
        operation = span["attributes"]["gen_ai.operation.name"]
        assert REQUIRED[operation] <= set(span["attributes"])
        assert span["name"].startswith(operation)
        assert span["kind"] == ("CLIENT" if operation == "chat" else "INTERNAL")
        assert (span["status"]["code"] == "ERROR") == ("error.type" in span["attributes"])
    for evaluation in trial[len(spans_of(trial)) :]:
        assert "gen_ai.evaluation.name" in evaluation["attributes"]
        assert isinstance(evaluation["attributes"].get("gen_ai.evaluation.score.value", 0.0), float)


def test_a_reader_of_the_protocol_reads_everything(pack: Pack) -> None:
    traces = oracle("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    logs = oracle("opentelemetry.proto.collector.logs.v1.logs_service_pb2")
    parse = oracle("google.protobuf.json_format").ParseDict
    (trial,) = exported_trials(pack)
    written, verdicts = spans_of(trial), trial[len(spans_of(trial)) :]
    of_traces, of_logs = otlp_requests(pack, trial)
    request = parse(_with_ids(of_traces), traces.ExportTraceServiceRequest())
    spans = request.resource_spans[0].scope_spans[0].spans
    request = parse(_with_ids(of_logs), logs.ExportLogsServiceRequest())
    records = request.resource_logs[0].scope_logs[0].log_records
    assert [(span.trace_id.hex(), span.span_id.hex(), span.name) for span in spans] == [
        (span["trace_id"], span["span_id"], span["name"]) for span in written
    ]
    assert [_values(span.attributes) for span in spans] == [span["attributes"] for span in written]
    assert [(span.start_time_unix_nano, span.end_time_unix_nano) for span in spans] == [
        (span["start_time"], span["end_time"]) for span in written
    ]
    assert [_values(record.attributes) for record in records] == [one["attributes"] for one in verdicts]
    assert {record.event_name for record in records} == {"gen_ai.evaluation.result"}
    assert {record.span_id for record in records} == {spans[0].span_id}


def _with_ids(value: Any, key: str = "") -> Any:
    """OTLP/JSON has ids in hexadecimal; protobuf's own JSON has bytes in base64."""
    if isinstance(value, dict):
        return {name: _with_ids(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_ids(inner) for inner in value]
    if key in ("traceId", "spanId", "parentSpanId"):
        return base64.b64encode(bytes.fromhex(value)).decode()
    return value


def _values(attributes: Any) -> dict[str, Any]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [_value(item) for item in inner.values]
    return _values(inner.values) if kind == "kvlist_value" else inner

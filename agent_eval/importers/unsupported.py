"""Formats that are known and cannot be imported: they are refused by their name, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from agent_eval.importers.events import items, mapping


class Unsupported(NamedTuple):
    """A row of `UNSUPPORTED`: a record with all these fields, for which `test` holds, is of this format."""

    name: str
    fields: str
    instead: str
    test: Callable[[Any], bool] = lambda _record: True


_SPANS = "have its spans exported by OpenTelemetry, and import those"
_REQUESTS = "import what its model was asked and answered, as lines of `request` and `response`"

UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported("Weave", "op_name trace_id started_at", _SPANS),
    Unsupported("Braintrust", "span_attributes root_span_id", _SPANS),
    Unsupported("Datadog's LLM Observability", "trace_id span_id start_ns meta", _SPANS),
    Unsupported("Zipkin", "traceId localEndpoint", "export the spans as OTLP/JSON, or to Jaeger"),
    Unsupported(
        "OpenTelemetry's metrics", "resourceMetrics", "import spans or log records: metrics quote nobody"
    ),
    Unsupported("Bot Framework and Copilot Studio", "activities", _REQUESTS),
    Unsupported("Rasa", "sender_id slots events", _REQUESTS),
    Unsupported("n8n", "workflowData data", _REQUESTS),
    Unsupported("Flowise", "chatId question text", _REQUESTS),
    Unsupported("Dify", "agent_thoughts answer", _REQUESTS),
    Unsupported(
        "Langflow", "session_id outputs", _REQUESTS, lambda run: "inputs" in mapping(items(run["outputs"])[0])
    ),
    Unsupported("the data export of ChatGPT", "mapping current_node", _REQUESTS),
    Unsupported("HAR", "log", _REQUESTS, lambda har: isinstance(mapping(har["log"]).get("entries"), list)),
    Unsupported(
        "OpenAI's Realtime API",
        "type event_id",
        _REQUESTS,
        lambda event: str(event["type"]).startswith(
            ("session.", "input_audio_buffer.", "conversation.item.")
        ),
    ),
    Unsupported(
        "a log of Bedrock's InvokeModel",
        "schemaType modelId operation",
        "call the model by Converse, whose log can be imported",
    ),
    Unsupported(
        "the log of AutoGen's runtime",
        "type",
        "import what a team returns or streams",
        lambda event: event["type"] in ("LLMCall", "LLMStreamStart", "LLMStreamEnd", "ToolCall"),
    ),
    Unsupported("test cases of DeepEval", "input actual_output", "write cases, and run the agent on them"),
    Unsupported("samples of Ragas", "user_input response", "write cases, and run the agent on them"),
    Unsupported("a JSON Schema", "$schema", "it describes data, and records nothing"),
    Unsupported(
        "agent-eval's own case", "case_id", "it is in a suite already: `agent-eval run --suite FILE`"
    ),
)


def unsupported(value: Any) -> str | None:
    """Say of which known format a record is, and what to do instead; None where it is of none."""
    if isinstance(value, str):
        row = _ASSISTANTS if value.startswith("event: thread.") else None
    else:
        record = mapping(next(iter(items(value)), value))
        rows = (row for row in UNSUPPORTED if record.keys() >= set(row.fields.split()))
        row = next((row for row in rows if row.test(record)), None)
    return None if row is None else f"it looks like {row.name}, which cannot be imported: {row.instead}"


_ASSISTANTS = Unsupported("a stream of Assistants", "", "export the thread's messages, runs and run steps")

"""Every format that can be imported, by family, and those that cannot. A new format needs a line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, Literal, NamedTuple

from agent_eval.errors import UsageError
from agent_eval.importers.events import items, mapping
from agent_eval.importers.format import Format
from agent_eval.importers.span_records import is_own_export


class Unsupported(NamedTuple):
    """A row of `UNSUPPORTED`: a record with all these fields, for which `test` holds, is of this format."""

    name: str
    fields: str
    instead: str
    test: Callable[[Any], bool] = lambda _record: True


_SPANS = "have its spans exported by OpenTelemetry, and import those"
_REQUESTS = "import what its model was asked and answered, as lines of `request` and `response`"

UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported(
        "a list of queries of ADK's first versions",
        "query expected_tool_use",
        "write it as an evaluation set, as later versions of ADK do",
    ),
    Unsupported("Weave", "op_name trace_id started_at", _SPANS),
    Unsupported("Braintrust", "span_attributes root_span_id", _SPANS),
    Unsupported("Datadog's LLM Observability", "trace_id span_id start_ns meta", _SPANS),
    Unsupported("Zipkin", "traceId localEndpoint", "export the spans as OTLP/JSON, or to Jaeger"),
    Unsupported(
        "OpenTelemetry's metrics", "resourceMetrics", "import spans or log records: metrics hold no messages"
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
        "what `agent-eval export otel` wrote",
        "",
        "the run has its traces, and `agent-eval rejudge` judges them",
        is_own_export,
    ),
    Unsupported(
        "agent-eval's own case", "case_id", "it is in a suite already: `agent-eval run --suite FILE`"
    ),
    Unsupported(
        "a stream of Assistants",
        "",
        "export the thread's messages, runs and run steps",
        lambda stream: isinstance(stream, str) and stream.startswith("event: thread."),
    ),
)


def unsupported(value: Any) -> str | None:
    """Say of which known format a record is, and what to do instead; None where it is of none."""
    record = value if isinstance(value, str) else mapping(next(iter(items(value)), value))
    for row in UNSUPPORTED:
        with suppress(TypeError, AttributeError, LookupError):  # what breaks a row's test is not of it
            if set(row.fields.split()) <= set(mapping(record)) and row.test(record):
                return f"it looks like {row.name}, which cannot be imported: {row.instead}"
    return None


AUTO = "auto"

Family = Literal["provider", "framework", "transcript"]
"""Formats among which one is recognised: a record of one family may resemble those of another."""


class Entry(NamedTuple):
    """A row of `FORMATS`."""

    family: Family
    name: str
    target: str


FORMATS: tuple[Entry, ...] = (
    Entry("provider", "openai", "agent_eval.importers.openai:OpenAI"),
    Entry("provider", "anthropic", "agent_eval.importers.anthropic:Anthropic"),
    Entry("provider", "vertex", "agent_eval.importers.vertex:Vertex"),
    Entry("provider", "foundry", "agent_eval.importers.foundry:Foundry"),
    Entry("provider", "bedrock", "agent_eval.importers.bedrock:Bedrock"),
    Entry("framework", "langgraph", "agent_eval.importers.langgraph:LangGraph"),
    Entry("framework", "openai_agents", "agent_eval.importers.openai_agents:OpenAIAgents"),
    Entry("framework", "autogen", "agent_eval.importers.autogen:AutoGen"),
    Entry("framework", "crewai", "agent_eval.importers.crewai:CrewAI"),
    Entry("framework", "semantic_kernel", "agent_eval.importers.message_formats:SEMANTIC_KERNEL"),
    Entry("framework", "ai_sdk", "agent_eval.importers.message_formats:AI_SDK"),
    Entry("framework", "pydantic_ai", "agent_eval.importers.message_formats:PYDANTIC_AI"),
    Entry("framework", "strands", "agent_eval.importers.message_formats:STRANDS"),
    Entry("framework", "haystack", "agent_eval.importers.message_formats:HAYSTACK"),
    Entry("framework", "llama_index", "agent_eval.importers.message_formats:LLAMA_INDEX"),
    Entry("framework", "agent_framework", "agent_eval.importers.message_formats:AGENT_FRAMEWORK"),
    Entry("framework", "smolagents", "agent_eval.importers.trajectories:SMOLAGENTS"),
    Entry("transcript", "otel", "agent_eval.importers.telemetry:OpenTelemetry"),
    Entry("transcript", "openinference", "agent_eval.importers.telemetry:OpenInference"),
    Entry("transcript", "mlflow", "agent_eval.importers.telemetry:MLflow"),
    Entry("transcript", "langfuse", "agent_eval.importers.telemetry:Langfuse"),
    Entry("transcript", "claude_code", "agent_eval.importers.claude_code:CLAUDE_CODE"),
    Entry("transcript", "codex", "agent_eval.importers.agent_sessions:CODEX"),
    Entry("transcript", "copilot_cli", "agent_eval.importers.agent_sessions:COPILOT_CLI"),
    Entry("transcript", "opencode", "agent_eval.importers.opencode:OPENCODE"),
    Entry("transcript", "swe_agent", "agent_eval.importers.trajectories:SWE_AGENT"),
    Entry("transcript", "openhands", "agent_eval.importers.opencode:OPENHANDS"),
    Entry("transcript", "mini_swe_agent", "agent_eval.importers.trajectories:MINI_SWE_AGENT"),
    Entry("transcript", "gemini_cli", "agent_eval.importers.agent_sessions:GEMINI_CLI"),
    Entry("transcript", "cursor", "agent_eval.importers.agent_sessions:CURSOR"),
    Entry("transcript", "droid", "agent_eval.importers.agent_sessions:DROID"),
    Entry("transcript", "kimi_cli", "agent_eval.importers.agent_sessions:KIMI_CLI"),
    Entry("transcript", "pi", "agent_eval.importers.agent_sessions:PI"),
    Entry("transcript", "managed_agents", "agent_eval.importers.agent_sessions:MANAGED_AGENTS"),
    Entry("transcript", "atif", "agent_eval.importers.trajectories:ATIF"),
    Entry("transcript", "inspect", "agent_eval.importers.benchmarks:Inspect"),
    Entry("transcript", "tau_bench", "agent_eval.importers.benchmarks:TauBench"),
    Entry("transcript", "promptfoo", "agent_eval.importers.benchmarks:Promptfoo"),
    Entry("transcript", "agentdojo", "agent_eval.importers.benchmarks:AgentDojo"),
)


def family_of(name: str, family: Family | None = None) -> Family:
    """Return the family of a format.

    `family` is the one that it must be of, if any.

    Raises:
        UsageError: There is no such format, or not in this family.
    """
    families = {entry.name: entry.family for entry in FORMATS if family in (None, entry.family)}
    if name not in families:
        raise UsageError(
            f"{name!r} is no format that can be imported{' here' if family else ''}",
            remedy=f"Name one of auto, {', '.join(families)}.",
            field="from",
        )
    return families[name]


def load(family: Family, name: str = AUTO) -> list[Format]:
    """Make the formats of a family: the one named, or all of them for `auto`."""
    return [_made(entry) for entry in FORMATS if entry.family == family and name in (AUTO, entry.name)]


@cache
def load_others(family: Family) -> list[tuple[Entry, Format]]:
    """Make the formats of the other families, to say by which command a record can be imported."""
    return [(entry, _made(entry)) for entry in FORMATS if entry.family != family]


def _made(entry: Entry) -> Format:
    module, _, name = entry.target.partition(":")
    made = getattr(importlib.import_module(module), name)
    made = made() if isinstance(made, type) else made
    if not isinstance(made, Format):
        raise TypeError(f"{entry.target} is not a format")
    return made

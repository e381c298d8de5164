"""Facts of a record beside its messages: ids of its conversation, settings of the request, unknown fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import is_amount, items, mapping, text, text_or_none

CONVERSATION_NAMES = ("conversation_id", "session_id", "thread_id", "chat_id")
"""Fields, of a record or of its metadata, whose value is the id of a conversation."""

_CONVERSATION_NAMES = frozenset(CONVERSATION_NAMES)

LATENCY_NAMES = ("latency_ms", "duration_ms", "response_time_ms", "elapsed_ms")
"""Fields of a record that say how long the answer took, in milliseconds."""

_COST_NAMES = ("response_cost", "cost", "cost_usd")
"""Fields of a record that say what the answer cost, in US dollars."""

_LATENCY_NAMES = frozenset(LATENCY_NAMES)

RECORD_NAMES = ("case_id", "custom_id", "id", "run_id", "trace_id", "request_id")
"""Fields whose value is the id of the record alone."""

_RECORD_NAMES = frozenset(RECORD_NAMES)

_SETTINGS = frozenset(
    {
        *(
            "model",
            "temperature",
            "top_p",
            "top_k",
            "seed",
            "n",
            "stop",
            "max_tokens",
            "max_completion_tokens",
        ),
        *("max_output_tokens", "frequency_penalty", "presence_penalty", "reasoning_effort", "tool_choice"),
        *("parallel_tool_calls", "stop_sequences"),
    }
)


def conversation_of(*places: Any) -> str | None:
    """Return the id of the conversation that one of several objects, or its `metadata`, states."""
    for place in places:
        for fields in (mapping(place), mapping(mapping(place).get("metadata"))):
            for name in () if _CONVERSATION_NAMES.isdisjoint(fields) else CONVERSATION_NAMES:
                stated = text_or_none(fields.get(name))
                if stated is not None:
                    return stated
    return None


def record_ids(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids that a record has beside that of its conversation."""
    if _RECORD_NAMES.isdisjoint(fields):
        return ()
    stated = (text_or_none(fields.get(name)) for name in RECORD_NAMES)
    return tuple(dict.fromkeys(id_text for id_text in stated if id_text is not None))


def settings_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a request and the names of the tools that it offers."""
    settings = {name: value for name, value in request.items() if name in _SETTINGS and value is not None}
    tools = [name for tool in items(request.get("tools")) if (name := tool_name(tool)) is not None]
    return settings | ({"tools": tools} if tools else {})


def tool_name(tool: Any) -> str | None:
    """Return the name of a tool that a request declares; a hosted one has its type as name."""
    fields = mapping(tool)
    return (
        text(fields.get("name"))
        or text(mapping(fields.get("function")).get("name"))
        or text(fields.get("type"))
    )


def report_unknown(
    fields: Mapping[str, Any], known: Set[str], place: str, prefix: str, diagnostics: Diagnostics
) -> None:
    """Report the fields of an object that its format does not define, unless they are null."""
    for name, value in fields.items():
        if name not in known and value is not None:
            diagnostics.unknown(place, f"{prefix}{name}")


REQUEST_NAMES = ("request", "request_body", "kwargs")
"""Fields of a record that hold a request."""

_ENVELOPE = frozenset(
    {
        *REQUEST_NAMES,
        *("response", "response_body", "completion", "body", "params"),
        *("status", "status_code", "uri", "url", "method", "custom_id", "id", "key", "error", "result"),
        *LATENCY_NAMES,
        *_COST_NAMES,
    }
)
"""Fields of a record that hold a request or its answer, or are read elsewhere."""


_OF_A_REQUEST = _SETTINGS | {
    *("messages", "input", "contents", "system", "systemInstruction", "system_instruction", "instructions"),
    *("tools", "functions", "function_call", "stream", "stream_options", "response_format", "metadata"),
    *("generationConfig", "generation_config", "toolConfig", "safetySettings", "cachedContent", "thinking"),
    *("logit_bias", "logprobs", "top_logprobs", "modalities", "prediction", "service_tier", "store", "user"),
    *("text", "reasoning", "include", "truncation", "background", "previous_response_id", "conversation"),
    *("prompt_cache_key", "safety_identifier", "anthropic_version", "betas", "container", "mcp_servers"),
    *("output", "object", "type", "created", "created_at", "timestamp", "choices", "usage", "candidates"),
    *_CONVERSATION_NAMES,
    *_RECORD_NAMES,
}
"""Fields of a record that is itself a request or an answer, or that are read elsewhere."""


def add_record_facts(
    record: Mapping[str, Any], answer: Sequence[dict[str, Any]], metadata: dict[str, Any]
) -> None:
    """Take over what a record says beside request and answer: how long it took, what it cost, its own fields.

    The last event of the answer gets latency and cost, the conversation's metadata the rest as `record`.
    """
    latency = None
    if not _LATENCY_NAMES.isdisjoint(record):
        latency = next((record[name] for name in LATENCY_NAMES if is_amount(record.get(name))), None)
    if latency is not None and answer:
        answer[-1].setdefault("latency_ms", latency)
    cost = next((record[name] for name in _COST_NAMES if is_amount(record.get(name))), None)
    if cost is not None and answer and not any("cost_usd" in fields for fields in answer):
        answer[-1]["cost_usd"] = cost
    known = _ENVELOPE if any(name in record for name in REQUEST_NAMES) else _ENVELOPE | _OF_A_REQUEST
    others = {name: value for name, value in record.items() if name not in known and value is not None}
    if others:
        metadata["record"] = others

"""What a span is: an answer of a model, a tool call, an agent, a handoff; and the facts of each."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from agent_eval.importers.events import content_of, items, mapping, text, text_or_none
from agent_eval.importers.langchain import fields_of
from agent_eval.importers.span_records import USAGE, SpanFields, json_or_text
from agent_eval.importers.usage import usage_in

Kind = Literal["model", "tool", "agent", "handoff", "guardrail", "other"]

_OPERATIONS: Mapping[str, Kind] = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion", "llm_call"), "model"),
    **dict.fromkeys(("execute_tool", "retrieval"), "tool"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow"), "agent"),
    "agent_handoff": "handoff",
}
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("LLM", "CHAT_MODEL"), "model"),
    **dict.fromkeys(("TOOL", "RETRIEVER"), "tool"),
    "AGENT": "agent",
    "GUARDRAIL": "guardrail",
}
"""Kinds of OpenInference and types of MLflow."""

_HANDOFF = "handoff to "
MISSING: object = object()
"""Marks a value that the span does not have, where null is a value."""


def kind_of(span: SpanFields) -> Kind:
    """Tell what a span is."""
    attributes, name = span["attributes"], span["name"]
    if name.startswith(_HANDOFF):
        return "handoff"
    if text(attributes.get("gcp.vertex.agent.llm_request")) not in (None, "{}"):
        return "model"
    stated = attributes.get("openinference.span.kind") or attributes.get("mlflow.spanType")
    operation = attributes.get("gen_ai.operation.name")
    by_body = _kind_of_body(span)
    if by_body is not None:
        return by_body
    known = _KINDS.get(str(stated).upper()) or _OPERATIONS.get(str(operation))
    if known is not None:
        return known
    if operation is None and ("gen_ai.request.model" in attributes or "gen_ai.prompt.0.role" in attributes):
        return "model"
    if any(each["name"] == "gen_ai.client.inference.operation.details" for each in span["events"]):
        return "model"
    kinds: dict[str, Kind] = {"tool": "tool", "agent": "agent"}
    return kinds.get(str(attributes.get("traceloop.span.kind")), "other")


def _kind_of_body(span: SpanFields) -> Kind | None:
    """Tell what an event with a body is, in which some exporters put what a span would have."""
    for recorded in span["events"]:
        body = mapping(recorded.get("body"))
        if isinstance(body.get("output"), dict):
            answer = body_answer(span)
            if mapping(answer).get("type") == "tool" or fields_of(answer) is not None:
                return "tool"
            return "model" if "generations" in mapping(answer) else "other"
    return None


def body_answer(span: SpanFields) -> Any:
    """Return the value that the body of an event has as the output; None if there is none."""
    for recorded in span["events"]:
        messages = items(mapping(mapping(recorded.get("body")).get("output")).get("messages"))
        if messages:
            return json_or_text(mapping(messages[-1]).get("content"))
    return None


def tool_name(span: SpanFields) -> str:
    """Return the name of the tool that a span is of."""
    attributes = span["attributes"]
    named = text(attributes.get("gen_ai.tool.name")) or text(attributes.get("tool.name"))
    body = mapping(body_answer(span))
    return named or text(body.get("name")) or span["name"].removeprefix("execute_tool ").strip()


def tool_arguments(span: SpanFields) -> Any:
    """Return the arguments of a tool call; `MISSING` if the span has none."""
    attributes = span["attributes"]
    for name in ("gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args"):
        if name in attributes:
            return json_or_text(attributes[name])
    for name in ("mlflow.spanInputs", "input.value", "traceloop.entity.input"):
        if name in attributes:
            return _called_with(_structure(attributes[name]))
    for recorded in span["events"]:
        messages = items(mapping(mapping(recorded.get("body")).get("input")).get("messages"))
        if messages:
            return _structure(mapping(messages[-1]).get("content"))
    return MISSING


def _structure(value: Any) -> Any:
    """Parse JSON, or a literal of Python, as some instrumentations write arguments."""
    parsed = json_or_text(value)
    if isinstance(parsed, str) and parsed[:1] == "{" and len(parsed) < 1 << 20:
        try:
            literal = ast.literal_eval(parsed)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return parsed
        return literal if isinstance(literal, dict) and _is_json(literal) else parsed
    return parsed


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_json(item) for name, item in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | bool | int | float)


def _called_with(value: Any) -> Any:
    """Return the named arguments where an instrumentation records how a function was called."""
    fields = mapping(value)
    if isinstance(fields.get("kwargs"), dict) and not items(fields.get("args")):
        return fields["kwargs"]
    return value


def tool_output(span: SpanFields) -> tuple[Any, str | None, Any]:
    """Return a tool's output (`MISSING` if the span has none), its call id, and its error."""
    attributes = span["attributes"]
    call_id = next((known for name in _CALL_IDS if (known := text_or_none(attributes.get(name)))), None)
    output: Any = MISSING
    for name in ("gen_ai.tool.call.result", "gcp.vertex.agent.tool_response"):
        if name in attributes:
            output = attributes[name]
    for name in ("mlflow.spanOutputs", "output.value", "traceloop.entity.output"):
        if output is MISSING and name in attributes:
            is_json = "json" in str(attributes.get("output.mime_type", "json"))
            output = json_or_text(attributes[name]) if is_json else attributes[name]
    answer = body_answer(span)
    if output is MISSING and answer is not None:
        output = answer
    message = fields_of(output)
    if message is None or message[0] != "tool":
        return output, call_id, span["problem"]
    fields = message[1]
    call_id = call_id or text_or_none(fields.get("tool_call_id"))
    if fields.get("status") == "error":
        return MISSING, call_id, span["problem"] or content_of(fields.get("content")).value or "error"
    return fields.get("content"), call_id, span["problem"]


_CALL_IDS = ("gen_ai.tool.call.id", "tool.id", "tool_call.id", "tool.call_id")


def answer_fields(span: SpanFields) -> dict[str, Any]:
    """Return what a span says of a model's answer: model, tokens, cost, stop reason, provider."""
    attributes = span["attributes"]
    reasons = attributes.get("gen_ai.response.finish_reasons") or attributes.get("llm.finish_reason")
    reason = next(iter(items(reasons)), None) if isinstance(reasons, list) else reasons
    provider = attributes.get("gen_ai.provider.name") or attributes.get("gen_ai.system")
    extra = {
        "gen_ai.response.id": attributes.get("gen_ai.response.id"),
        "gen_ai.provider.name": provider or attributes.get("llm.system"),
    }
    known = {
        "model": next((model for name in _MODELS if (model := text(attributes.get(name)))), None),
        "usage": attributes.get(USAGE) or _usage(attributes),
        "cost_usd": _number(attributes.get("llm.cost.total")),
        "stop_reason": text(reason),
        "ts": timestamp(span["end"]),
        "latency_ms": latency(span),
        "attributes": {name: value for name, value in extra.items() if isinstance(value, str)},
    }
    return {name: value for name, value in known.items() if value not in (None, {})}


_MODELS = ("gen_ai.response.model", "llm.model_name", "gen_ai.request.model", "mlflow.llm.model")


def _usage(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    stated = dict(mapping(json_or_text(attributes.get("mlflow.chat.tokenUsage"))))
    for name, value in attributes.items():
        for prefix in ("llm.token_count.", "gen_ai.usage."):
            if name.startswith(prefix) and (number := _number(value)) is not None:
                word = name.removeprefix(prefix)
                stated[_SAME.get(word, word)] = number
    usage = usage_in(stated)
    cached = 0 if usage is None else usage.get("cached_tokens", 0) + usage.get("cache_write_tokens", 0)
    if usage is not None and cached > usage.get("input_tokens", cached):
        # The input cannot be less than what of it came from a cache: this instrumentation left that out.
        usage["input_tokens"] += cached
    return usage


_SAME = {
    "prompt": "input_tokens",
    "prompt_tokens": "input_tokens",
    "completion": "output_tokens",
    "completion_tokens": "output_tokens",
    "cache_read_input_tokens": "cached_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


def _number(value: Any) -> Any:
    """Return a number; also one that the encoding has as text."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        return int(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def timestamp(nanoseconds: int | None) -> str | None:
    """Write a time as `Event.ts` has it."""
    if nanoseconds is None or not 0 < nanoseconds < 1 << 62:
        return None
    return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, UTC).isoformat()


def latency(span: SpanFields) -> float | None:
    """Return how long a span took, in milliseconds."""
    if span["start"] is None or span["end"] is None or span["end"] < span["start"]:
        return None
    return float((span["end"] - span["start"]) / 1e6)

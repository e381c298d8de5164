"""What a span is: an answer of a model, a tool call, an agent, a handoff; and what it says.

The messages in spans are by OpenTelemetry's GenAI conventions, by OpenInference, by MLflow, or by older ones.
Here they are brought together, wherever a span has them; `messages` reads them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import (
    agent_message,
    content_of,
    items,
    mapping,
    system_message,
    text,
    text_or_none,
    usage_in,
    user_message,
)
from agent_eval.importers.langchain import fields_of, generation_message, is_message, is_messages
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.responses_items import is_items
from agent_eval.importers.span_records import USAGE, SpanFields, json_or_text
from agent_eval.importers.vertex import system_message_of

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
    if (by_body := _kind_of_body(span)) is not None:
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
            value = _structure(attributes[name])
            # An instrumentation records how a function was called: its named arguments are those of the call.
            fields = mapping(value)
            is_named = isinstance(fields.get("kwargs"), dict) and not items(fields.get("args"))
            return fields["kwargs"] if is_named else value
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


_OLD_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Events of the conventions before 1.37, each a message; `gen_ai.choice` is the answer."""
_ROLES = dict.fromkeys(("developer", "tool-call", "tool-response"), "system")
_VALUES = {
    "input": ("gcp.vertex.agent.llm_request", "mlflow.spanInputs", "ai.prompt.messages", "ai.prompt"),
    "output": (
        "gcp.vertex.agent.llm_response",
        "mlflow.spanOutputs",
        "ai.response.messages",
        "ai.response.text",
    ),
}
"""Attributes that may hold the messages of one side, the surest first; `input.value` is the last."""


class SpanMessages:
    """Reads what a span says was asked of a model, and what it answered."""

    def __init__(self, span: SpanFields, place: str, diagnostics: Diagnostics) -> None:
        self._span = span
        self._reader = MessageReader(place, diagnostics)
        self._attributes: dict[str, Any] = dict(span["attributes"])
        for recorded in span["events"]:
            if recorded["name"] == "gen_ai.client.inference.operation.details":
                self._attributes = {**recorded["attributes"], **self._attributes}

    def inputs(self) -> list[Message]:
        """Return the messages of the request."""
        stated = json_or_text(self._attributes.get("gen_ai.system_instructions"))
        texts = (
            [stated] if isinstance(stated, str) else [mapping(part).get("content") for part in items(stated)]
        )
        joined = "\n".join(line for line in texts if isinstance(line, str))
        system = [message_of([system_message(joined)])] if joined else []
        parts = self._listed("gen_ai.input.messages", "llm.input_messages.", "gen_ai.prompt.")
        if parts is not None:
            return system + self._reader.messages(parts, "messages")
        old = [
            {"role": _OLD_EVENTS[recorded["name"]], **_of_event(recorded)}
            for recorded in self._span["events"]
            if recorded["name"] in _OLD_EVENTS
        ]
        if old:
            return system + self._reader.messages(old, "events")
        for value in self._values("input"):
            if messages := self.messages_in(value, is_answer=False):
                return system + messages
        return system

    def outputs(self) -> list[Message]:
        """Return the messages of the answer."""
        parts = self._listed("gen_ai.output.messages", "llm.output_messages.", "gen_ai.completion.")
        if parts is not None:
            return self._reader.messages(parts, "messages", role="assistant")
        if (generated := generation_message(body_answer(self._span))) is not None:
            return [self._reader.message(generated, "answer")]
        choices = [_of_event(each) for each in self._span["events"] if each["name"] == "gen_ai.choice"]
        if choices:
            spoken = []
            for choice in choices:
                message = choice.get("message")
                inner = (
                    message if isinstance(message, dict) else {"content": message or choice.get("content")}
                )
                spoken.append({"role": "assistant", "tool_calls": choice.get("tool_calls"), **inner})
            return self._reader.messages(spoken, "gen_ai.choice")
        for value in self._values("output"):
            if messages := self.messages_in(value, is_answer=True):
                return messages
        return []

    def stated(self, side: Literal["input", "output"]) -> list[Message]:
        """Return what an agent was called with, or what it returned, as one message of whatever shape."""
        for value in self._values(side):
            return [message_of([user_message(value) if side == "input" else agent_message(value)])]
        return []

    def _listed(self, name: str, *prefixes: str) -> list[Any] | None:
        """Return the messages of an attribute, or those that were flattened into attributes."""
        parts = json_or_text(self._attributes.get(name))
        parts = [parts] if isinstance(parts, dict) else parts
        if isinstance(parts, list):
            return [_plain(message) for message in parts]
        flat = next((flat for prefix in prefixes if (flat := indexed(self._attributes, prefix))), None)
        return None if flat is None else [_flat_message(mapping(message)) for message in flat]

    def _values(self, side: Literal["input", "output"]) -> list[Any]:
        values = [self._attributes.get(name) for name in (*_VALUES[side], f"{side}.value")]
        values += [mapping(recorded.get("body")).get(side) for recorded in self._span["events"]]
        return [json_or_text(value) for value in values if value not in (None, "", {}, "{}")]

    def messages_in(self, value: Any, *, is_answer: bool) -> list[Message]:
        """Read messages out of a value of any known shape; a text is one message."""
        value = json_or_text(value)
        if value in (None, "", [], {}):
            return []
        if isinstance(value, str):
            return [message_of([agent_message(value) if is_answer else user_message(value)])]
        field = "answer" if is_answer else "request"
        if isinstance(value, list):
            value = value[0] if len(value) == 1 and isinstance(value[0], list) else value
            is_known = is_messages(value) or is_items(value)
            fields = map(mapping, () if is_known else value)
            is_known = is_known or all(
                "role" in each or isinstance(each.get("parts"), list) for each in fields
            )
            return self._reader.messages(value, field) if is_known else []
        messages = self._messages_in_object(mapping(value), field, is_answer)
        for name in ("messages", "message", "output", "input", "prompt", "contents"):
            if not messages and name in value:
                messages = self.messages_in(value[name], is_answer=is_answer)
        return messages

    def _messages_in_object(self, fields: Mapping[str, Any], field: str, is_answer: bool) -> list[Message]:
        reader = self._reader
        if "toolCalls" in fields:
            return [reader.message({**fields, "toolCalls": json_or_text(fields["toolCalls"])}, field)]
        if is_message(fields):
            nested = json_or_text(fields.get("content")) if is_answer else None
            inner = generation_message(nested) if isinstance(nested, dict) else None
            return [reader.message(inner or fields, field)]
        if (generated := generation_message(fields)) is not None:
            return [reader.message(generated, field)]
        if isinstance(fields.get("choices"), list):
            choices = [mapping(mapping(choice).get("message")) for choice in fields["choices"]]
            return reader.messages(choices, field, role="assistant")
        if isinstance(fields.get("candidates"), list):
            answers = [mapping(each).get("content") for each in fields["candidates"]]
            return reader.messages([answer for answer in answers if answer], field, role="model")
        if isinstance(fields.get("contents"), list):
            instruction = mapping(fields.get("config")).get("system_instruction")
            return system_message_of(instruction) + reader.messages(fields["contents"], field, role="user")
        content = mapping(fields.get("content"))
        return [reader.message(content, field, role="model")] if "parts" in content else []


def _plain(message: Any) -> Any:
    """Leave out a reason to stop that says nothing, and read calls that are written as Python shows them."""
    fields = mapping(message)
    if fields.get("finish_reason") == "unknown":
        message = {name: value for name, value in fields.items() if name != "finish_reason"}
    parts = items(fields.get("parts"))
    if any(str(mapping(part).get("content")).startswith(_SHOWN_CALL) for part in parts):
        return {**message, "parts": [_shown_call(mapping(part)) for part in parts]}
    return message


_SHOWN_CALL = "ResponseFunctionToolCall("
"""How the text begins that Python shows for a call: an instrumentation of the Agents SDK records that."""

_LONGEST_SHOWN = 1 << 20


def _shown_call(part: Mapping[str, Any]) -> Mapping[str, Any]:
    written = part.get("content")
    if not isinstance(written, str) or len(written) > _LONGEST_SHOWN:
        return part
    try:
        expression = ast.parse(written, mode="eval").body
        stated = expression.keywords if isinstance(expression, ast.Call) else []
        call = {word.arg: ast.literal_eval(word.value) for word in stated}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return part
    named = {"id": call.get("call_id"), "name": call.get("name"), "arguments": call.get("arguments")}
    return {"type": "tool_call", **named} if call.get("name") else part


def _of_event(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a message that is an event; Azure puts them into one attribute as JSON."""
    fields = {**mapping(recorded.get("body")), **recorded["attributes"]}
    whole = json_or_text(fields.get("gen_ai.event.content"))
    fields |= whole if isinstance(whole, dict) else {}
    names = ("content", "tool_calls", "message")
    known = {name: json_or_text(fields[name]) for name in names if name in fields}
    if not isinstance(known.get("content"), list):
        stated = fields.get("content")
        known["content"] = mapping(mapping(stated).get("text")).get("value", stated)
    return known | ({"tool_call_id": fields["id"]} if "id" in fields else {})


def _flat_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose attributes were flattened; OpenInference puts `message.` before each."""
    fields = {**message, **mapping(message.get("message"))}
    content = fields.get("content")
    if isinstance(content, list):
        content = "".join(part for part in content if isinstance(part, str)) or None
    blocks = []
    for part in map(mapping, items(fields.get("contents"))):  # of OpenInference
        block = mapping(part.get("message_content")) or part
        image = mapping(mapping(block.get("image")).get("image"))
        is_image = block.get("type") == "image"
        blocks.append({"type": "image", "url": image.get("url")} if is_image else dict(block))
    names = ("tool_calls", "tool_call_id", "name")
    plain: dict[str, Any] = {name: fields[name] for name in names if name in fields}
    plain["content"] = blocks if blocks and content in (None, "") else content
    role = fields.get("role")
    return plain | ({"role": _ROLES.get(str(role), role)} if role is not None else {})


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Rebuild an array whose items were flattened into attributes such as `PREFIX0.message.role`.

    Example:
        >>> indexed({"m.0.role": "user", "m.1.role": "assistant", "m.1.calls.0.id": "c"}, "m.")
        [{'role': 'user'}, {'role': 'assistant', 'calls': [{'id': 'c'}]}]
    """
    tree: dict[str, Any] = {}
    for name, value in _flat(attributes.get(prefix[:-1]), prefix) or attributes.items():
        if name.startswith(prefix):
            *steps, last = name[len(prefix) :].split(".")
            inner = tree
            for step in steps:
                inner = inner.setdefault(step, {})
                if not isinstance(inner, dict):
                    break
            else:
                inner.setdefault(last, value)
    return items(_as_arrays(tree)) if tree else []


def _flat(value: Any, prefix: str) -> list[tuple[str, Any]]:
    """Flatten an array that a data frame has whole, with names such as `message.role` in it."""
    inner = enumerate(value) if isinstance(value, list) else mapping(value).items()
    pairs: list[tuple[str, Any]] = []
    for name, stated in inner:
        pairs += _flat(stated, f"{prefix}{name}.") or [(f"{prefix}{name}", stated)]
    return pairs


def _as_arrays(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    values = {step: _as_arrays(value) for step, value in tree.items()}
    if values and all(step.isdecimal() for step in values):
        return [values[step] for step in sorted(values, key=int)]
    return values

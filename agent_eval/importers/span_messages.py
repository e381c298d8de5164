"""The messages in spans: by OpenTelemetry's GenAI conventions, by OpenInference, by MLflow, by older ones.

Here they are brought together, wherever a span has them; `messages` reads them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, Literal

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import agent_message, items, mapping, system_message, user_message
from agent_eval.importers.langchain import generation_message, is_message, is_messages
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.responses_items import is_items
from agent_eval.importers.span_facts import body_answer
from agent_eval.importers.span_records import SpanFields, json_or_text
from agent_eval.importers.vertex import system_message_of

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
        system = self._system()
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
            return self._reader.messages([_choice(choice) for choice in choices], "gen_ai.choice")
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
            is_known = (
                is_messages(value)
                or is_items(value)
                or all(
                    "role" in mapping(each) or isinstance(mapping(each).get("parts"), list) for each in value
                )
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

    def _system(self) -> list[Message]:
        parts = json_or_text(self._attributes.get("gen_ai.system_instructions"))
        texts = [parts] if isinstance(parts, str) else [mapping(part).get("content") for part in items(parts)]
        joined = "\n".join(line for line in texts if isinstance(line, str))
        return [message_of([system_message(joined)])] if joined else []


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
    known = {
        name: json_or_text(fields[name]) for name in ("content", "tool_calls", "message") if name in fields
    }
    if not isinstance(known.get("content"), list):
        stated = fields.get("content")
        known["content"] = mapping(mapping(stated).get("text")).get("value", stated)
    return known | ({"tool_call_id": fields["id"]} if "id" in fields else {})


def _choice(fields: Mapping[str, Any]) -> dict[str, Any]:
    message = fields.get("message")
    inner = message if isinstance(message, dict) else {"content": message or fields.get("content")}
    return {"role": "assistant", "tool_calls": fields.get("tool_calls"), **inner}


def _flat_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose attributes were flattened; OpenInference puts `message.` before each."""
    fields = {**message, **mapping(message.get("message"))}
    content = fields.get("content")
    if isinstance(content, list):
        content = "".join(part for part in content if isinstance(part, str)) or None
    blocks = [_block(mapping(part)) for part in items(fields.get("contents"))]
    plain: dict[str, Any] = {
        name: fields[name] for name in ("tool_calls", "tool_call_id", "name") if name in fields
    }
    plain["content"] = blocks if blocks and content in (None, "") else content
    role = fields.get("role")
    return plain | ({"role": _ROLES.get(str(role), role)} if role is not None else {})


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return one of OpenInference's `contents`."""
    fields = mapping(part.get("message_content")) or part
    if fields.get("type") == "image":
        return {"type": "image", "url": mapping(mapping(fields.get("image")).get("image")).get("url")}
    return dict(fields)


_STEP = re.compile(r"\.")


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Rebuild an array whose items were flattened into attributes such as `PREFIX0.message.role`.

    Example:
        >>> indexed({"m.0.role": "user", "m.1.role": "assistant", "m.1.calls.0.id": "c"}, "m.")
        [{'role': 'user'}, {'role': 'assistant', 'calls': [{'id': 'c'}]}]
    """
    tree: dict[str, Any] = {}
    for name, value in _flat(attributes.get(prefix[:-1]), prefix) or attributes.items():
        if name.startswith(prefix):
            _put(tree, _STEP.split(name[len(prefix) :]), value)
    return items(_as_arrays(tree)) if tree else []


def _flat(value: Any, prefix: str) -> list[tuple[str, Any]]:
    """Flatten an array that a data frame has whole, with names such as `message.role` in it."""
    inner = enumerate(value) if isinstance(value, list) else mapping(value).items()
    pairs: list[tuple[str, Any]] = []
    for name, stated in inner:
        pairs += _flat(stated, f"{prefix}{name}.") or [(f"{prefix}{name}", stated)]
    return pairs


def _put(tree: dict[str, Any], steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        inner = tree.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree.setdefault(steps[-1], value)


def _as_arrays(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    values = {step: _as_arrays(value) for step, value in tree.items()}
    if values and all(step.isdecimal() for step in values):
        return [values[step] for step in sorted(values, key=int)]
    return values

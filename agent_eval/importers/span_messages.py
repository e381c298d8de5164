"""The messages in spans: by OpenTelemetry's GenAI conventions, by OpenInference, by MLflow, by older ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from agent_eval.importers.content import described
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    items,
    mapping,
    reasoning,
    system_message,
    text,
    tool_call,
    tool_result,
    user_message,
)
from agent_eval.importers.langchain_messages import (
    generation_message,
    is_message,
    is_messages,
    read_message,
    read_messages,
)
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.openai_responses import is_items, item_messages
from agent_eval.importers.span_facts import body_answer
from agent_eval.importers.span_records import SpanFields, json_or_text
from agent_eval.importers.vertex_parts import content_message, system_message_of

_OLD_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Events of the conventions before 1.37, each a message; `gen_ai.choice` is the answer."""


class SpanMessages:
    """Reads what a span says was asked of a model, and what it answered."""

    def __init__(self, span: SpanFields, place: str, diagnostics: Diagnostics) -> None:
        self._span, self._place, self._diagnostics = span, place, diagnostics
        self._attributes: dict[str, Any] = dict(span["attributes"])
        for recorded in span["events"]:
            if recorded["name"] == "gen_ai.client.inference.operation.details":
                self._attributes = {**recorded["attributes"], **self._attributes}

    def inputs(self) -> list[Message]:
        """Return the messages of the request."""
        attributes = self._attributes
        system = self._system()
        parts = json_or_text(attributes.get("gen_ai.input.messages"))
        if isinstance(parts, list):
            return system + [self._genai_message(message) for message in parts]
        flat = indexed(attributes, "llm.input_messages.") or indexed(attributes, "gen_ai.prompt.")
        if flat:
            return system + [self._flat_message(mapping(message)) for message in flat]
        old = [self._old_event(recorded) for recorded in self._span["events"]]
        if any(message is not None for message in old):
            return system + [message for message in old if message is not None]
        for value in self._values("input"):
            messages = self.messages_in(value, is_answer=False)
            if messages:
                return system + messages
        return system

    def outputs(self) -> list[Message]:
        """Return the messages of the answer."""
        attributes = self._attributes
        parts = json_or_text(attributes.get("gen_ai.output.messages"))
        if isinstance(parts, list):
            return [self._genai_message(message) for message in parts]
        flat = indexed(attributes, "llm.output_messages.") or indexed(attributes, "gen_ai.completion.")
        if flat:
            return [self._flat_message({"role": "assistant", **mapping(message)}) for message in flat]
        generated = generation_message(body_answer(self._span))
        if generated is not None:
            return [read_message(generated, self._place, "answer", self._diagnostics)]
        choices = [each for each in self._span["events"] if each["name"] == "gen_ai.choice"]
        if choices:
            return [self._choice(mapping(choice)) for choice in choices]
        for value in self._values("output"):
            messages = self.messages_in(value, is_answer=True)
            if messages:
                return messages
        return []

    def stated(self, side: Literal["input", "output"]) -> list[Message]:
        """Return what an agent was called with, or what it returned, as one message of whatever shape."""
        for value in self._values(side):
            return [message_of([user_message(value) if side == "input" else agent_message(value)])]
        return []

    def _values(self, side: str) -> list[Any]:
        """Return values that may hold the messages of one side, the surest first."""
        adk = {"input": "gcp.vertex.agent.llm_request", "output": "gcp.vertex.agent.llm_response"}[side]
        mlflow = {"input": "mlflow.spanInputs", "output": "mlflow.spanOutputs"}[side]
        sdk = {"input": "ai.prompt.messages", "output": "ai.response.messages"}[side]
        agent = {"input": "ai.prompt", "output": "ai.response.text"}[side]
        names = (adk, mlflow, sdk, agent, f"{side}.value")
        values = [self._attributes.get(name) for name in names]
        bodies = [mapping(recorded.get("body")).get(side) for recorded in self._span["events"]]
        return [json_or_text(value) for value in (*values, *bodies) if value not in (None, "", {}, "{}")]

    def messages_in(self, value: Any, *, is_answer: bool) -> list[Message]:
        """Read messages out of a value of any known shape; a text is one message."""
        value = json_or_text(value)
        if value in (None, "", [], {}):
            return []
        if isinstance(value, str):
            return [message_of([agent_message(value) if is_answer else user_message(value)])]
        field = "answer" if is_answer else "request"
        if isinstance(value, list):
            return self._messages_in_list(value, field)
        fields = mapping(value)
        messages = self._messages_in_object(fields, field, is_answer)
        for name in ("messages", "message", "output", "input", "prompt", "contents"):
            if not messages and name in fields:
                messages = self.messages_in(fields[name], is_answer=is_answer)
        return messages

    def _messages_in_list(self, value: list[Any], field: str) -> list[Message]:
        if len(value) == 1 and isinstance(value[0], list):
            value = value[0]
        if is_messages(value):
            return read_messages(value, self._place, field, self._diagnostics)
        if is_items(value):
            return item_messages(value, self._place, field, self._diagnostics)
        if all(isinstance(mapping(message).get("parts"), list) for message in value):
            return [self._genai_message(message) for message in value]
        if all("role" in mapping(message) for message in value):
            return self._of_any_dialect(value, field)
        return []

    def _of_any_dialect(self, messages: list[Any], field: str) -> list[Message]:
        reader = MessageReader(self._place, self._diagnostics)
        read = [reader.read(message, f"{field}[{number}]") for number, message in enumerate(messages)]
        return [message_of(events) for events in read if events]

    def _messages_in_object(self, fields: Mapping[str, Any], field: str, is_answer: bool) -> list[Message]:
        place, notes = self._place, self._diagnostics
        if "toolCalls" in fields:
            calls = json_or_text(fields["toolCalls"])
            return self._of_any_dialect([{**fields, "toolCalls": calls}], field)
        if is_message(fields):
            nested = json_or_text(fields.get("content")) if is_answer else None
            inner = generation_message(nested) if isinstance(nested, dict) else None
            return [read_message(inner or fields, place, field, notes)]
        generated = generation_message(fields)
        if generated is not None:
            return [read_message(generated, place, field, notes)]
        if isinstance(fields.get("choices"), list):
            choices = [mapping(mapping(choice).get("message")) for choice in fields["choices"]]
            return [read_message({"role": "assistant", **choice}, place, field, notes) for choice in choices]
        if isinstance(fields.get("candidates"), list):
            answers = [mapping(mapping(each).get("content")) for each in fields["candidates"]]
            return [content_message(answer, place, field, notes) for answer in answers if answer]
        if isinstance(fields.get("contents"), list):
            instruction = mapping(fields.get("config")).get("system_instruction")
            contents = [content_message(each, place, field, notes) for each in fields["contents"]]
            return system_message_of(instruction) + contents
        content = mapping(fields.get("content"))
        return [content_message(content, place, field, notes)] if "parts" in content else []

    def _system(self) -> list[Message]:
        parts = json_or_text(self._attributes.get("gen_ai.system_instructions"))
        if isinstance(parts, str):
            return [message_of([system_message(parts)])]
        texts = [mapping(part).get("content") for part in items(parts)]
        joined = "\n".join(line for line in texts if isinstance(line, str))
        return [message_of([system_message(joined)])] if joined else []

    def _old_event(self, recorded: Any) -> Message | None:
        role = _OLD_EVENTS.get(recorded["name"])
        if role is None:
            return None
        fields = {**mapping(recorded.get("body")), **recorded["attributes"]}
        blocks = json_or_text(fields.get("content"))
        if isinstance(blocks, list) and role != "system":
            return self._of_blocks(role, blocks, recorded["name"])
        message = {"role": role, "content": fields.get("content"), "tool_calls": fields.get("tool_calls")}
        message["tool_call_id"] = fields.get("id")
        return read_message(message, self._place, recorded["name"], self._diagnostics)

    def _choice(self, recorded: Mapping[str, Any]) -> Message:
        fields = {**mapping(recorded.get("body")), **recorded["attributes"]}
        message = json_or_text(fields.get("message"))
        if isinstance(message, list):
            return self._of_blocks("assistant", message, "gen_ai.choice")
        inner = message if isinstance(message, dict) else {"content": message or fields.get("content")}
        return read_message({"role": "assistant", **inner}, self._place, "gen_ai.choice", self._diagnostics)

    def _of_blocks(self, role: str, blocks: list[Any], field: str) -> Message:
        reader = MessageReader(self._place, self._diagnostics)
        return message_of(reader.read({"role": role, "content": blocks}, field))

    def _flat_message(self, message: Mapping[str, Any]) -> Message:
        """Read a message whose attributes were flattened; OpenInference puts `message.` before each."""
        fields = {**message, **mapping(message.get("message"))}
        role = "assistant" if fields.get("role") in ("ai", "model") else fields.get("role")
        content: Any = fields.get("content")
        blocks = [_block(mapping(part)) for part in items(fields.get("contents"))]
        thoughts = [block for block in blocks if block.get("type") == "reasoning"]
        spoken = [block for block in blocks if block.get("type") != "reasoning"]
        if isinstance(content, list):
            content = "".join(part for part in content if isinstance(part, str)) or None
        calls = [_flat_call(mapping(call)) for call in items(fields.get("tool_calls"))]
        plain = {
            "role": _ROLES.get(str(role), role),
            "content": spoken if spoken and content in (None, "") else content,
            "tool_calls": calls,
            "tool_call_id": fields.get("tool_call_id"),
            "name": fields.get("name"),
        }
        read = read_message(plain, self._place, "messages", self._diagnostics)
        if not thoughts:
            return read
        return message_of([*(reasoning(block.get("text")) for block in thoughts), *read.events])

    def _genai_message(self, message: Any) -> Message:
        """Read a message by the conventions: `{"role", "parts", "name", "finish_reason"}`."""
        fields = mapping(message)
        if "parts" not in fields and is_message(fields):
            return read_message(fields, self._place, "messages", self._diagnostics)
        role = str(fields.get("role"))
        events: list[EventFields] = []
        spoken: list[Any] = []
        for part in map(mapping, items(fields.get("parts"))):
            made = self._part(part)
            if made is None:
                spoken.append(_standard(part))
                continue
            events += _spoken(spoken, role)
            spoken = []
            events.append(made)
        events += _spoken(spoken, role)
        reason = text(fields.get("finish_reason"))
        if events and reason not in (None, "unknown"):
            events[-1].setdefault("stop_reason", reason)
        return message_of(events)

    def _part(self, part: Mapping[str, Any]) -> EventFields | None:
        """Read a part that is an event of its own; None for content."""
        kind = part.get("type")
        if kind == "tool_call":
            return tool_call(text(part.get("name")), part.get("arguments"), part.get("id"))
        if kind == "server_tool_call":
            arguments = mapping(part.get("server_tool_call")).get("arguments", part.get("server_tool_call"))
            return tool_call(text(part.get("name")), arguments, part.get("id"), ran_on="server")
        if kind in ("tool_call_response", "server_tool_call_response"):
            names = ("response", "result", "server_tool_call_response", "content")
            return tool_result(next((part[name] for name in names if name in part), None), part.get("id"))
        if kind in ("reasoning", "thinking"):
            return reasoning(part.get("content"))
        return None


_ROLES = {
    "human": "user",
    **dict.fromkeys(("ai", "model"), "assistant"),
    **dict.fromkeys(("developer", "tool-call", "tool-response"), "system"),
}


def _spoken(parts: list[Any], role: str) -> list[EventFields]:
    if not parts:
        return []
    if role == "user":
        return [user_message(parts)]
    if role in ("system", "developer"):
        return [system_message(parts)]
    if role == "tool":
        return [tool_result(parts)]
    return [agent_message(parts)]


def _standard(part: Mapping[str, Any]) -> Any:
    """Write a part of content as `content_of` reads it."""
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part.get("content")}
    modality = part.get("modality") if part.get("modality") in ("image", "audio") else "file"
    if kind == "uri":
        return {"type": modality, "url": part.get("uri"), "mime_type": part.get("mime_type")}
    if kind == "blob":
        return {"type": modality, "data": part.get("content"), "mime_type": part.get("mime_type")}
    if kind == "file":
        return {"type": "file", "file_id": part.get("file_id"), "mime_type": part.get("mime_type")}
    return dict(part)


def _block(part: Mapping[str, Any]) -> dict[str, Any]:
    """Read one of OpenInference's `contents`."""
    fields = mapping(part.get("message_content")) or part
    if fields.get("type") == "image":
        address = mapping(mapping(fields.get("image")).get("image")).get("url")
        is_data = isinstance(address, str) and address.startswith("data:")
        if is_data:
            return {"type": "image", **described(address, None)}
        return {"type": "image", "url": address}
    return dict(fields)


def _flat_call(call: Mapping[str, Any]) -> dict[str, Any]:
    fields = mapping(call.get("tool_call")) or call
    function = mapping(fields.get("function")) or fields
    return {
        "id": fields.get("id"),
        "function": {"name": function.get("name"), "arguments": function.get("arguments")},
    }


_STEP = re.compile(r"\.")


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[Any]:
    """Rebuild an array whose items were flattened into attributes such as `PREFIX0.message.role`.

    Example:
        >>> indexed({"m.0.role": "user", "m.1.role": "assistant", "m.1.calls.0.id": "c"}, "m.")
        [{'role': 'user'}, {'role': 'assistant', 'calls': [{'id': 'c'}]}]
    """
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            _put(tree, _STEP.split(name[len(prefix) :]), value)
    return items(_as_arrays(tree)) if tree else []


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

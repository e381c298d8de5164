"""Chat histories of Semantic Kernel: serialized by Python, by .NET, and as dictionaries of OpenAI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.content import content_of
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.dialogue_format import DialogueFormat, Turn
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    items,
    mapping,
    reasoning,
    system_message,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.format import Match
from agent_eval.importers.openai_chat import chat_message, is_chat_messages
from agent_eval.importers.records import Record

_FAILED = "An error occurred while invoking the function"


class SemanticKernel(DialogueFormat):
    """Reads chat histories of Semantic Kernel."""

    name = "semantic_kernel"

    @override
    def detect(self, value: Any) -> Match | None:
        messages = mapping(value).get("messages", value)
        if not isinstance(messages, list) or not messages:
            return None
        fields = [mapping(message) for message in messages[:20]]
        if all(each.get("content_type") == "message" for each in fields):
            return Match(0.95, "python")
        if all("Role" in each and ("Items" in each or "Content" in each) for each in fields):
            return Match(0.95, ".net")
        if is_chat_messages(messages) and _has_plugins(messages):
            return Match(0.7, "dictionaries")
        return None

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        match = self.detect(record.value)
        variant = "python" if match is None else match.variant
        messages = items(mapping(record.value).get("messages", record.value))
        read: list[Message] = []
        for number, message in enumerate(map(mapping, messages)):
            field = f"messages[{number}]"
            if variant == "dictionaries":
                made = chat_message(message, record.place, field, diagnostics)
                for fields in made.events:
                    _mark_error(fields)
                read.append(message_of(made.events, made.id))
            else:
                read.append(
                    _message(_lowered(message) if variant == ".net" else message, record.place, diagnostics)
                )
        return [Turn(history=read)]


def _has_plugins(messages: list[Any]) -> bool:
    calls = [mapping(call) for message in messages for call in items(mapping(message).get("tool_calls"))]
    names = [str(mapping(call.get("function")).get("name") or "") for call in calls]
    return bool(names) and all("-" in name for name in names)


_KINDS = {
    "TextContent": "text",
    "FunctionCallContent": "function_call",
    "FunctionResultContent": "function_result",
    "ImageContent": "image",
    "ReasoningContent": "reasoning",
    "StreamingTextContent": "text",
}
_NAMES = {
    "Role": "role",
    "ModelId": "ai_model_id",
    "Metadata": "metadata",
    "AuthorName": "name",
    "Text": "text",
    "Id": "id",
    "PluginName": "plugin_name",
    "Content": "content",
    "FunctionName": "function_name",
    "Arguments": "arguments",
    "Result": "result",
    "Uri": "uri",
    "Data": "data",
    "MimeType": "mime_type",
    "DataUri": "data_uri",
}


def _lowered(message: Mapping[str, Any]) -> dict[str, Any]:
    """Write a message of .NET by the names of Python."""
    plain = {_NAMES.get(name, name): value for name, value in message.items() if name != "Items"}
    plain["role"] = str(mapping(message.get("Role")).get("Label", message.get("Role"))).lower()
    plain["items"] = [
        {
            **{_NAMES.get(name, name): value for name, value in mapping(item).items()},
            "content_type": _KINDS.get(str(mapping(item).get("$type")), str(mapping(item).get("$type"))),
        }
        for item in items(message.get("Items"))
    ]
    for item in plain["items"]:
        # A result has an id of its own and that of its call, which is what ties them.
        if "CallId" in mapping(item):
            item["id"] = item["CallId"]
    return plain


def _message(message: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Message:
    role = str(message.get("role"))
    parts = [mapping(item) for item in items(message.get("items"))]
    if not parts and text(message.get("content")):
        parts = [{"content_type": "text", "text": message["content"]}]
    events: list[EventFields] = []
    spoken: list[Any] = []
    for part in parts:
        kind = part.get("content_type")
        if kind == "text":
            spoken.append({"type": "text", "text": part.get("text")})
        elif kind == "image":
            spoken.append(_image(part))
        elif kind == "reasoning":
            events.append(reasoning(part.get("text")))
        elif kind == "function_call":
            events.append(tool_call(_tool(part), part.get("arguments"), part.get("id")))
        elif kind == "function_result":
            made = tool_result(part.get("result"), part.get("id"), tool=_tool(part))
            _mark_error(made)
            events.append(made)
        else:
            diagnostics.unknown(place, f"item of type {kind!r}"[:200])
    if spoken:
        events.insert(_first_act(events), _spoken(role, spoken))
    _add_answer(message, events)
    return message_of(events)


def _first_act(events: Sequence[EventFields]) -> int:
    return next(
        (position for position, each in enumerate(events) if each["type"] != "reasoning"), len(events)
    )


def _spoken(role: str, parts: list[Any]) -> EventFields:
    if role == "user":
        return user_message(parts)
    if role in ("system", "developer"):
        return system_message(parts)
    return tool_result(content_of(parts).value) if role == "tool" else agent_message(parts)


def _image(part: Mapping[str, Any]) -> dict[str, Any]:
    address = part.get("data_uri") or part.get("uri")
    return {"type": "image", "url": address, "data": part.get("data"), "mime_type": part.get("mime_type")}


def _tool(part: Mapping[str, Any]) -> str | None:
    plugin, function = text(part.get("plugin_name")), text(part.get("function_name"))
    if function is None:
        return text(part.get("name"))
    return function if plugin is None else f"{plugin}-{function}"


def _mark_error(fields: EventFields) -> None:
    """Take a result that says that it is an error for one: the framework has no other mark."""
    output = fields.get("output")
    if fields["type"] == "tool_result" and isinstance(output, str) and output.startswith(_FAILED):
        fields["error"] = fields.pop("output")


def _add_answer(message: Mapping[str, Any], events: list[EventFields]) -> None:
    if not events or events[-1]["actor"] != "agent":
        return
    metadata = mapping(message.get("metadata"))
    usage = mapping(metadata.get("usage") or metadata.get("Usage"))
    details = mapping(usage.get("prompt_tokens_details"))
    tokens = usage_of(
        input_tokens=usage.get("prompt_tokens", usage.get("InputTokenCount")),
        output_tokens=usage.get("completion_tokens", usage.get("OutputTokenCount")),
        cached=details.get("cached_tokens"),
        reasoning=mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"),
    )
    reason = message.get("finish_reason") or metadata.get("FinishReason")
    for name, value in (
        ("usage", tokens),
        ("model", text(message.get("ai_model_id"))),
        ("stop_reason", text(reason)),
        ("ts", timestamp_of(metadata.get("created") or metadata.get("CreatedAt"))),
        ("agent_name", text(message.get("name"))),
    ):
        if value is not None:
            events[-1].setdefault(name, value)

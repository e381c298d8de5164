"""The Responses API of OpenAI: items of requests and answers. Other formats hold such items as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Message, message_of
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    event,
    items,
    mapping,
    reasoning,
    system_message,
    text,
    text_or_none,
    tool_call,
    tool_result,
    user_message,
)

_SERVER_TOOLS = frozenset(
    {"web_search", "file_search", "code_interpreter", "image_generation", "tool_search"}
)
"""Hosted tools that run at OpenAI; the others (`computer`, `local_shell`, ...) run at the client."""

_RESULT_FIELDS = ("results", "outputs", "result", "output")
_ITEM_FIELDS = frozenset({"id", "call_id", "type", "status", "namespace", "created_by", "agent", "phase"})
_FAILED = ("failed", "incomplete", "cancelled")

Item = Mapping[str, Any]


def item_messages(values: Iterable[Any], place: str, field: str, diagnostics: Diagnostics) -> list[Message]:
    """Read items, each as a message.

    They are items of `input` or `output`; a message without a type is one as well.
    `place` is the record, and `field` where in it the items are, for diagnostics.
    """
    return [
        message_of(item_events(item, place, f"{field}[{number}]", diagnostics))
        for number, item in enumerate(values)
    ]


def item_events(item: Any, place: str, field: str, diagnostics: Diagnostics) -> list[EventFields]:
    """Read one item as its events: a hosted tool's item is a call and its result."""
    fields = mapping(item)
    kind = text(fields.get("type")) or ("message" if "role" in fields else "")
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(fields)
    if kind.endswith("_output"):
        return [_output(fields)]
    if kind.endswith("_call"):
        return _hosted(fields, kind.removesuffix("_call"))
    if kind == "item_reference":
        diagnostics.note(place, field, f"refers to item {fields.get('id')!r}, which is in an earlier record")
        return []
    diagnostics.lost(place, field, f"is of the type {kind!r}, which this format does not define")
    return []


def is_items(value: Any) -> bool:
    """Whether this is a list of items of Responses, and not of messages of Chat Completions."""
    if not isinstance(value, list) or not value:
        return False
    kinds = [item.get("type") for item in value[:50] if isinstance(item, dict)]
    if len(kinds) < len(value[:50]):
        return False
    own = sum(
        isinstance(kind, str) and (kind in _READERS or kind.endswith(("_call", "_output"))) for kind in kinds
    )
    return own > 0 and all(
        (isinstance(item.get("type"), str) or "role" in item) and "tool_calls" not in item
        for item in value[:50]
    )


def _message(item: Item) -> list[EventFields]:
    role, content = item.get("role"), item.get("content")
    if role == "user":
        return [user_message(content)]
    if role in ("system", "developer"):
        return [system_message(content)]
    blocks = items(content)
    refusals = [block.get("refusal") for block in map(mapping, blocks) if block.get("type") == "refusal"]
    rest = [block for block in blocks if mapping(block).get("type") != "refusal"] if blocks else content
    events = [] if rest in (None, "", []) else [agent_message(rest, attributes=_annotations(blocks))]
    return events + [agent_message(refusal, stop_reason="refusal") for refusal in refusals if refusal]


def _annotations(blocks: list[Any]) -> dict[str, Any] | None:
    stated = [note for block in map(mapping, blocks) for note in items(block.get("annotations"))]
    return {"openai.annotations": stated} if stated else None


def _reasoning(item: Item) -> list[EventFields]:
    blocks = [*items(item.get("summary")), *items(item.get("content"))]
    thoughts = [text(mapping(block).get("text")) for block in blocks]
    return [reasoning("\n\n".join(thought for thought in thoughts if thought))]


def _function_call(item: Item) -> list[EventFields]:
    return [tool_call(text(item.get("name")), item.get("arguments"), item.get("call_id") or item.get("id"))]


def _custom_call(item: Item) -> list[EventFields]:
    # The input of a custom tool is free text, not JSON.
    call_id = text_or_none(item.get("call_id")) or text_or_none(item.get("id"))
    return [
        event("agent", "tool_call", tool=text(item.get("name")), input=item.get("input"), call_id=call_id)
    ]


def _output(item: Item) -> EventFields:
    error = f"status {item['status']}" if item.get("status") in _FAILED else None
    output = item.get("output")
    if "image_url" in mapping(output):
        output = [{**mapping(output), "type": "input_image"}]
    return tool_result(output, item.get("call_id"), error=item.get("error") or error)


def _mcp_call(item: Item) -> list[EventFields]:
    place = f"mcp:{item.get('server_label') or ''}".removesuffix(":")
    tool, call_id = text(item.get("name")), item.get("id")
    call = tool_call(tool, item.get("arguments"), call_id, ran_on=place)
    if item.get("output") is None and item.get("error") is None and item.get("status") not in _FAILED:
        return [call]
    error = item.get("error") or (f"status {item['status']}" if item.get("status") in _FAILED else None)
    return [call, tool_result(item.get("output"), call_id, tool=tool, error=error, ran_on=place)]


def _mcp_tools(item: Item) -> list[EventFields]:
    names = [mapping(tool).get("name") for tool in items(item.get("tools"))]
    place = f"mcp:{item.get('server_label') or ''}".removesuffix(":")
    return [event("tool", "mcp_list_tools", output=names, error=item.get("error"), ran_on=place)]


def _approval_request(item: Item) -> list[EventFields]:
    tool, arguments = text(item.get("name")), item.get("arguments")
    request = {"approval_request": arguments}
    return [event("system", "guardrail", tool=tool, output=request, call_id=text_or_none(item.get("id")))]


def _approval_response(item: Item) -> list[EventFields]:
    answer = {name: item[name] for name in ("approve", "reason") if item.get(name) is not None}
    call_id = text_or_none(item.get("approval_request_id"))
    return [event("user", "guardrail", output=answer, call_id=call_id)]


def _compaction(_item: Item) -> list[EventFields]:
    """Read a compaction: what the model keeps of the dialogue, which is encrypted."""
    return [event("agent", "state", content_recorded=False)]


def _hosted(item: Item, tool: str) -> list[EventFields]:
    """Read the item of a hosted tool; what it returned is in it, or was not recorded."""
    call_id = item.get("call_id") or item.get("id")
    place = "server" if tool in _SERVER_TOOLS else "client"
    result = next((item[name] for name in _RESULT_FIELDS if item.get(name) is not None), None)
    arguments = {
        name: value for name, value in item.items() if name not in _ITEM_FIELDS and name not in _RESULT_FIELDS
    }
    call = tool_call(tool, arguments, call_id, ran_on=place)
    if place == "client" and result is None:
        return [call]
    error = f"status {item['status']}" if item.get("status") in _FAILED else None
    if tool == "image_generation" and isinstance(result, str):
        result = [
            {"type": "image", "data": result, "media_type": f"image/{item.get('output_format', 'png')}"}
        ]
    recorded = None if result is not None or error is not None else False
    answer = tool_result(result, call_id, tool=tool, error=error, ran_on=place, content_recorded=recorded)
    return [call, answer]


_READERS: dict[str, Callable[[Item], list[EventFields]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "mcp_call": _mcp_call,
    "mcp_list_tools": _mcp_tools,
    "mcp_approval_request": _approval_request,
    "mcp_approval_response": _approval_response,
    "compaction": _compaction,
    "compaction_summary": _compaction,
}

"""Items: what models and agents do as a list of things with a type, as the Responses API has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, text, text_or_none

_SERVER_TOOLS = frozenset(
    {"web_search", "file_search", "code_interpreter", "image_generation", "tool_search"}
)
"""Hosted tools that run at OpenAI; the others (`computer`, `local_shell`, ...) run at the client."""

_RESULT_FIELDS = ("results", "outputs", "result", "output")
_ITEM_FIELDS = frozenset({"id", "call_id", "type", "status", "namespace", "created_by", "agent", "phase"})
_FAILED = ("failed", "incomplete", "cancelled")

Item = Mapping[str, Any]


def item_events(item: Item, place: str, field: str, diagnostics: Diagnostics) -> list[EventFields]:
    """Read an item that is no message as its events: a hosted tool's item is a call and its result.

    `place` is the record, and `field` where in it the item is, for diagnostics.
    """
    kind, name = str(item.get("type")), text(item.get("name"))
    if kind == "reasoning":
        blocks = [*items(item.get("summary")), *items(item.get("content"))]
        thoughts = (text(mapping(block).get("text")) for block in blocks)
        return [make.reasoning("\n\n".join(filter(None, thoughts)))]
    if kind in _BESIDE:
        return [_beside(item, kind)]
    if kind == "custom_tool_call":  # its input is free text, not JSON
        call_id = text_or_none(item.get("call_id")) or text_or_none(item.get("id"))
        return [make.event("agent", "tool_call", tool=name, input=item.get("input"), call_id=call_id)]
    if kind == "mcp_call":
        server, error = _server(item), item.get("error") or _failure(item)
        call = make.tool_call(name, item.get("arguments"), item.get("id"), ran_on=server)
        if item.get("output") is None and error is None:
            return [call]
        return [
            call,
            make.tool_result(item.get("output"), item.get("id"), tool=name, error=error, ran_on=server),
        ]
    if kind.endswith("_output"):
        output = item.get("output")
        if "image_url" in mapping(output):
            output = [{**mapping(output), "type": "input_image"}]
        return [make.tool_result(output, item.get("call_id"), error=item.get("error") or _failure(item))]
    if kind == "function_call" or (kind.endswith("_call") and name and "arguments" in item):
        return [make.tool_call(name, item.get("arguments"), item.get("call_id") or item.get("id"))]
    if kind.endswith("_call"):
        return _hosted(item, kind.removesuffix("_call"))
    if kind == "item_reference":
        diagnostics.note(place, field, f"refers to item {item.get('id')!r}, which is in an earlier record")
    else:
        diagnostics.lost(place, field, f"is of the type {kind!r}, which this format does not define")
    return []


def is_items(value: Any) -> bool:
    """Whether this is a list of items of Responses, and not of messages of Chat Completions."""
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value[:50]):
        return False
    kinds = [item.get("type") for item in value[:50]]
    own = any(
        isinstance(kind, str)
        and (kind in _BESIDE or kind in ("message", "reasoning") or kind.endswith(("_call", "_output")))
        for kind in kinds
    )
    return own and all(
        (isinstance(item.get("type"), str) or "role" in item)
        and "tool_calls" not in item
        and "contents" not in item
        for item in value[:50]
    )


_BESIDE = frozenset(
    {"mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "compaction", "compaction_summary"}
)


def _beside(item: Item, kind: str) -> EventFields:
    """Read what is neither a call nor its result: the tools of a server, an approval, a compaction."""
    if kind == "mcp_list_tools":
        names = [mapping(tool).get("name") for tool in items(item.get("tools"))]
        return make.event("tool", kind, output=names, error=item.get("error"), ran_on=_server(item))
    if kind == "mcp_approval_request":
        asked = {"approval_request": item.get("arguments")}
        call_id, tool = text_or_none(item.get("id")), text(item.get("name"))
        return make.event("system", "guardrail", tool=tool, output=asked, call_id=call_id)
    if kind == "mcp_approval_response":
        answer = {name: item[name] for name in ("approve", "reason") if item.get(name) is not None}
        call_id = text_or_none(item.get("approval_request_id"))
        return make.event("user", "guardrail", output=answer, call_id=call_id)
    return make.event("agent", "state", content_recorded=False)  # what the model keeps is encrypted


def _server(item: Item) -> str:
    return f"mcp:{item.get('server_label') or ''}".removesuffix(":")


def _failure(item: Item) -> str | None:
    return f"status {item['status']}" if item.get("status") in _FAILED else None


def _hosted(item: Item, tool: str) -> list[EventFields]:
    """Read the item of a hosted tool; what it returned is in it, or was not recorded."""
    call_id = item.get("call_id") or item.get("id")
    place = "server" if tool in _SERVER_TOOLS else "client"
    result = next((item[name] for name in _RESULT_FIELDS if item.get(name) is not None), None)
    arguments = {
        name: value for name, value in item.items() if name not in _ITEM_FIELDS and name not in _RESULT_FIELDS
    }
    call = make.tool_call(tool, arguments, call_id, ran_on=place)
    if place == "client" and result is None:
        return [call]
    error = _failure(item)
    if tool == "image_generation" and isinstance(result, str):
        media_type = f"image/{item.get('output_format', 'png')}"
        result = [{"type": "image", "data": result, "media_type": media_type}]
    recorded = None if result is not None or error is not None else False
    more = {"error": error, "ran_on": place, "content_recorded": recorded}
    return [call, make.tool_result(result, call_id, tool=tool, **more)]

"""Put streamed fragments of LangChain's messages together again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers.events import items, mapping, text
from agent_eval.importers.langchain_messages import fields_of


class Chunks:
    """Collects the fragments of messages, by the ids of the messages."""

    def __init__(self) -> None:
        self._open: dict[str | None, dict[str, Any]] = {}

    def add(self, chunk: Any) -> None:
        """Add a fragment to its message."""
        known = fields_of(chunk)
        if known is None:
            return
        fields = known[1]
        identifier = text(fields.get("id"))
        message = self._open.setdefault(
            identifier, {"type": "ai", "id": identifier, "content": "", "calls": {}, "response_metadata": {}}
        )
        _add_content(message, fields.get("content"))
        for position, part in enumerate(map(mapping, items(fields.get("tool_call_chunks")))):
            _add_call(message["calls"], part, position)
        if not items(fields.get("tool_call_chunks")):
            for call in map(mapping, items(fields.get("tool_calls"))):
                if text(call.get("name")):
                    message["calls"].setdefault(call.get("id"), {**call, "args": call.get("args")})
        message["response_metadata"] |= mapping(fields.get("response_metadata"))
        if isinstance(fields.get("usage_metadata"), dict):
            message["usage_metadata"] = _added(message.get("usage_metadata"), fields["usage_metadata"])

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages that were collected, as whole ones, and forget them."""
        collected, self._open = list(self._open.values()), {}
        for message in collected:
            calls = message.pop("calls")
            message["tool_calls"] = [{"type": "tool_call", **call} for call in calls.values()]
        return collected


def _add_content(message: dict[str, Any], content: Any) -> None:
    if isinstance(content, str) and isinstance(message["content"], str):
        message["content"] += content
    elif isinstance(content, list):
        before = message["content"]
        blocks = [{"type": "text", "text": before}] if isinstance(before, str) and before else before or []
        for block in map(mapping, content):
            last = mapping(blocks[-1]) if blocks else {}
            if last.get("type") == block.get("type") == "text":
                blocks[-1] = {**last, "text": str(last.get("text", "")) + str(block.get("text", ""))}
            else:
                blocks = [*blocks, dict(block)]
        message["content"] = blocks


def _add_call(calls: dict[Any, dict[str, Any]], part: Mapping[str, Any], position: int) -> None:
    """Add a fragment of a call: the first has id and name, each has a piece of the arguments."""
    index = part.get("index", position)
    call = calls.setdefault(index, {"id": None, "name": "", "args": ""})
    call["id"] = call["id"] or text(part.get("id"))
    call["name"] += text(part.get("name")) or ""
    call["args"] += text(part.get("args")) or ""


def _added(before: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Add tokens: the fragments of an answer state them in parts."""
    total = dict(mapping(before))
    for name, value in more.items():
        if isinstance(value, dict):
            total[name] = _added(total.get(name), value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            total[name] = total.get(name, 0) + value
    return total

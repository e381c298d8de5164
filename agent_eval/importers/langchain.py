"""Messages of LangChain: what is one, in which of four encodings, and streamed fragments put together.

* `messages_to_dict`: `{"type": "ai", "data": {...}}`
* `model_dump`, and LangGraph's server: `{"type": "ai", "content": ..., "tool_calls": [...]}`
* `lc` dumps: `{"lc": 1, "type": "constructor", "id": [..., "AIMessage"], "kwargs": {...}}`
* dictionaries as OpenAI has them: `{"role": "assistant", ...}`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers.events import items, mapping, text

_TYPES = {
    **dict.fromkeys(("human", "HumanMessage", "HumanMessageChunk"), "human"),
    **dict.fromkeys(("ai", "AIMessage", "AIMessageChunk"), "ai"),
    **dict.fromkeys(("system", "SystemMessage", "SystemMessageChunk", "developer"), "system"),
    **dict.fromkeys(("tool", "ToolMessage", "ToolMessageChunk", "function", "FunctionMessage"), "tool"),
    **dict.fromkeys(("chat", "ChatMessage", "ChatMessageChunk"), "chat"),
    **dict.fromkeys(("remove", "RemoveMessage"), "remove"),
}
_OPENAI_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def fields_of(value: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return the kind of a message of the first three encodings, and its fields; None if it is none.

    Example:
        >>> fields_of({"type": "human", "data": {"content": "Hi"}})
        ('human', {'content': 'Hi'})
    """
    message = mapping(value)
    if message.get("lc") == 1 and isinstance(message.get("id"), list) and message["id"]:
        kind = _TYPES.get(str(message["id"][-1]))
        return None if kind is None else (kind, mapping(message.get("kwargs")))
    kind = _TYPES.get(message["type"]) if isinstance(message.get("type"), str) else None
    if kind is None:
        return None
    if isinstance(message.get("data"), dict):
        return kind, message["data"]
    return (kind, message) if "content" in message else None


def is_chunk(value: Any) -> bool:
    """Whether a message is a fragment of a streamed one."""
    message = mapping(value)
    name = message["id"][-1] if items(message.get("id")) else message.get("type")
    return isinstance(name, str) and name.endswith("Chunk")


def is_message(value: Any) -> bool:
    """Whether a value is a message in any of the four encodings."""
    if fields_of(value) is not None:
        return True
    message = mapping(value)
    return message.get("role") in _OPENAI_ROLES and ("content" in message or "tool_calls" in message)


def is_messages(value: Any) -> bool:
    """Whether a value is a list of messages, not empty."""
    return isinstance(value, list) and bool(value) and all(map(is_message, value[:20]))


def generation_message(output: Any) -> Mapping[str, Any] | None:
    """Return the message of a model's result, `{"generations": [[{"message"}]]}`; None if there is none."""
    generations = mapping(output).get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    generation = mapping(generations)
    message = generation.get("message")
    spoken = {"type": "ai", "content": generation.get("text")}
    if isinstance(message, dict):
        return message if is_message(message) else {**spoken, **message}
    return spoken if isinstance(spoken["content"], str) else None


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
        own = text(fields.get("id"))
        empty: dict[str, Any] = {"type": "ai", "id": own, "content": "", "calls": {}, "response_metadata": {}}
        message = self._open.setdefault(own, empty)
        _add_content(message, fields.get("content"))
        for position, part in enumerate(map(mapping, items(fields.get("tool_call_chunks")))):
            # The first fragment of a call has id and name, each has a piece of the arguments.
            begun = {"id": None, "name": "", "args": ""}
            call = message["calls"].setdefault(part.get("index", position), begun)
            call["id"] = call["id"] or text(part.get("id"))
            call["name"] += text(part.get("name")) or ""
            call["args"] += text(part.get("args")) or ""
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


def _added(before: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Add tokens: the fragments of an answer state them in parts."""
    total = dict(mapping(before))
    for name, value in more.items():
        if isinstance(value, dict):
            total[name] = _added(total.get(name), value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            total[name] = total.get(name, 0) + value
    return total

"""Event streams of Anthropic, put together to the message that the API gives without streaming."""

from __future__ import annotations

from typing import Any

from agent_eval.importers.events import arguments_of, mapping
from agent_eval.importers.sse import EventStream, place_of

_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def message_of_stream(stream: EventStream) -> tuple[dict[str, Any], bool]:
    """Return the message that a stream carries, and whether the stream is whole."""
    message: dict[str, Any] = {"content": []}
    blocks: dict[Any, dict[str, Any]] = {}
    whole = False
    for data in map(mapping, stream.events):
        kind = data.get("type")
        if kind == "message_start":
            message = {**mapping(data.get("message"))}
        elif kind == "content_block_start":
            blocks[place_of(data.get("index"), len(blocks))] = {**mapping(data.get("content_block"))}
        elif kind == "content_block_delta":
            _add_delta(
                blocks.setdefault(place_of(data.get("index"), 0), {"type": "text"}),
                mapping(data.get("delta")),
            )
        elif kind == "message_delta":
            _finish(message, data)
        elif kind == "error":
            message["error"] = data.get("error")
            whole = True
        whole = whole or kind == "message_stop"
    message["content"] = [_parsed(block) for block in blocks.values()]
    return message, whole


def _add_delta(block: dict[str, Any], delta: Any) -> None:
    kind = delta.get("type")
    if kind == "input_json_delta":
        block["partial"] = block.get("partial", "") + str(delta.get("partial_json") or "")
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
    elif isinstance(kind, str) and kind in _TEXTS:
        name = _TEXTS[kind]
        block[name] = str(block.get(name) or "") + str(delta.get(name) or "")


def _finish(message: dict[str, Any], data: Any) -> None:
    """Add a delta of the message; its usage is cumulative, so it replaces what was stated before."""
    message.update({name: value for name, value in mapping(data.get("delta")).items() if value is not None})
    usage = {name: value for name, value in mapping(data.get("usage")).items() if value is not None}
    message["usage"] = {**mapping(message.get("usage")), **usage}


def _parsed(block: dict[str, Any]) -> dict[str, Any]:
    partial = block.pop("partial", "")
    if partial:
        # Text that is no JSON remains text: the call is then marked as malformed.
        block["input"] = arguments_of(partial)[0]
    return block

"""Server-sent events, as recorders store them, and the whole answers that are made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval.errors import InvalidInput
from agent_eval.importers.events import arguments_of, items, mapping, not_null, text
from agent_eval.importers.records import LIMITS
from agent_eval.storage.json import parse

DONE = "[DONE]"


@dataclass(slots=True)
class EventStream:
    """The data of one stream, parsed.

    Attributes:
        events: The JSON values of its `data` fields, in order.
        broken: What could not be read, in words: usually the end of a stream that was cut off.
    """

    events: list[Any] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def is_event_stream(text: Any) -> bool:
    """Whether a value is the text of an event stream."""
    return isinstance(text, str) and text.lstrip()[:6].startswith(("data:", "event:", "id:", ":"))


def first_event(text: str) -> Any:
    """Return the first JSON value of a stream; None if there is none."""
    for data in _data_of(text):
        return _parsed(data, EventStream())
    return None


def streams_in(text: str, starts: frozenset[str] = frozenset()) -> Iterator[EventStream]:
    """Yield the streams of a text; `[DONE]` ends one, and an event of a type in `starts` begins one."""
    stream = EventStream()
    for data in _data_of(text):
        if data.strip() == DONE:
            if stream.events:
                yield stream
            stream = EventStream()
            continue
        value = _parsed(data, stream)
        if isinstance(value, dict) and str(value.get("type")) in starts and stream.events:
            yield stream
            stream = EventStream()
        if value is not None:
            stream.events.append(value)
    if stream.events or stream.broken:
        yield stream


def place_of(index: Any, default: int) -> int:
    """Return the index by which fragments of a stream belong together; `default` if it is no number."""
    return index if isinstance(index, int) else default


def _parsed(data: str, stream: EventStream) -> Any:
    try:
        return parse(data.encode("utf-8", "surrogatepass"), source="data", limits=LIMITS)
    except InvalidInput as error:
        stream.broken.append(error.message)
        return None


def _data_of(text: str) -> Iterator[str]:
    """Yield the `data` of each event; its lines belong together until a blank one."""
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def response_of(stream: EventStream) -> tuple[dict[str, Any], bool]:
    """Return the answer of Responses that a stream carries, and whether the stream is whole."""
    response: dict[str, Any] = {}
    done: dict[Any, Any] = {}
    for data in map(mapping, stream.events):
        kind = data.get("type")
        if kind == "error":
            response["error"] = {name: data.get(name) for name in ("code", "message")}
        if kind == "response.output_item.done":
            done[place_of(data.get("output_index"), len(done))] = data.get("item")
        stated = data.get("response")
        if isinstance(stated, dict):
            response = {**response, **stated}
            if kind in ENDS:
                if not response.get("output") and done:
                    response["output"] = list(done.values())
                return response, True
    return {**response, "output": list(done.values())}, False


def completion_of(stream: EventStream) -> tuple[dict[str, Any], bool]:
    """Return the answer of Chat Completions that a stream carries, and whether the stream is whole."""
    body: dict[str, Any] = {"object": "chat.completion"}
    choices: dict[int, dict[str, Any]] = {}
    for chunk in map(mapping, stream.events):
        for name in ("id", "model", "created", "usage", "error", "service_tier", "system_fingerprint"):
            if chunk.get(name) is not None:
                body[name] = chunk[name]
        for choice in map(mapping, items(chunk.get("choices"))):
            index = place_of(choice.get("index"), 0)
            made = choices.setdefault(index, {"index": index, "message": {"role": "assistant"}})
            _add_delta(made["message"], mapping(choice.get("delta")))
            if choice.get("finish_reason") is not None:
                made["finish_reason"] = choice["finish_reason"]
    for choice in choices.values():
        calls = sorted(choice["message"].pop("calls", []), key=lambda call: place_of(call["index"], 0))
        if calls:
            choice["message"]["tool_calls"] = [
                {"id": call["id"], "function": {"name": call["name"], "arguments": call["arguments"]}}
                for call in calls
            ]
    body["choices"] = [choices[index] for index in sorted(choices)]
    return body, "error" in body or all("finish_reason" in choice for choice in body["choices"])


def _add_delta(message: dict[str, Any], delta: Any) -> None:
    """Add a fragment of a message to it.

    Some servers give every call the index 0, or none: then a new id begins a call; without ids a name does.
    """
    for name in _TEXTS:
        if (part := text(delta.get(name))) is not None:
            message[name] = message.get(name, "") + part
    calls: list[dict[str, Any]] = message.setdefault("calls", [])
    for call in map(mapping, items(delta.get("tool_calls"))):
        function = mapping(call.get("function"))
        own, index, named = text(call.get("id")), call.get("index"), text(function.get("name"))
        last = next((known for known in reversed(calls) if known["index"] == index), None)
        if own is not None:
            is_begun = last is not None and not last["id"]
            made = next((known for known in calls if known["id"] == own), last if is_begun else None)
        else:
            is_next = index is None and named and last is not None and last["name"] and not last["id"]
            made = None if is_next else last
        if made is None:
            made = {"index": index, "id": "", "name": "", "arguments": ""}
            calls.append(made)
        # The id and the name are in the first fragment only; some servers repeat them in each.
        made["id"] = made["id"] or own or ""
        made["name"] = made["name"] or function.get("name") or ""
        made["arguments"] += function.get("arguments") or ""


def anthropic_message_of(stream: EventStream) -> tuple[dict[str, Any], bool]:
    """Return the message of Anthropic that a stream carries, and whether the stream is whole."""
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
            block = blocks.setdefault(place_of(data.get("index"), 0), {"type": "text"})
            delta = mapping(data.get("delta"))
            if delta.get("type") == "input_json_delta":
                block["partial"] = block.get("partial", "") + str(delta.get("partial_json") or "")
            elif delta.get("type") == "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
            elif (name := _DELTAS.get(str(delta.get("type")))) is not None:
                block[name] = str(block.get(name) or "") + str(delta.get(name) or "")
        elif kind == "message_delta":
            # Its usage is cumulative, so it replaces what was stated before.
            usage = {**mapping(message.get("usage")), **not_null(mapping(data.get("usage")))}
            message |= not_null(mapping(data.get("delta"))) | {"usage": usage}
        elif kind == "error":
            message["error"] = data.get("error")
            whole = True
        whole = whole or kind == "message_stop"
    for block in blocks.values():
        if partial := block.pop("partial", ""):
            # Text that is no JSON remains text: the call is then marked as malformed.
            block["input"] = arguments_of(partial)[0]
    return {**message, "content": list(blocks.values())}, whole


def converse_answer_of(events: Sequence[Any]) -> dict[str, Any]:
    """Put the events of Bedrock's ConverseStream together to the answer of Converse."""
    blocks: dict[Any, dict[str, Any]] = {}
    answer: dict[str, Any] = {"output": {"message": {"role": "assistant", "content": []}}}
    for event in map(mapping, events):
        begun, part = mapping(event.get("contentBlockStart")), mapping(event.get("contentBlockDelta"))
        index = {**begun, **part}.get("contentBlockIndex")
        if use := mapping(mapping(begun.get("start")).get("toolUse")):
            blocks[index] = {"toolUse": {**use, "input": ""}}
        delta = mapping(part.get("delta"))
        if "text" in delta:
            block = blocks.setdefault(index, {"text": ""})
            block["text"] += delta["text"]
        elif "toolUse" in delta and "toolUse" in blocks.get(index, {}):
            blocks[index]["toolUse"]["input"] += mapping(delta["toolUse"]).get("input", "")
        elif "reasoningContent" in delta:
            thought = blocks.setdefault(index, {"reasoningContent": {"reasoningText": {"text": ""}}})
            words = mapping(delta["reasoningContent"]).get("text", "")
            thought["reasoningContent"]["reasoningText"]["text"] += words
        answer |= {**mapping(event.get("messageStop")), **mapping(event.get("metadata"))}
    answer["output"]["message"]["content"] = [blocks[index] for index in sorted(blocks)]
    return answer


def gemini_answer_of(chunks: Sequence[Any]) -> dict[str, Any]:
    """Put the parts of each candidate together; of other fields, the last chunk that states them counts."""
    body: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for chunk in map(mapping, chunks):
        body |= not_null(chunk)
        for candidate in map(mapping, items(chunk.get("candidates"))):
            empty: dict[str, Any] = {"content": {"role": "model", "parts": []}}
            made = candidates.setdefault(place_of(candidate.get("index"), 0), empty)
            made.update({name: value for name, value in candidate.items() if name != "content"})
            made["content"]["parts"] += items(mapping(candidate.get("content")).get("parts"))
    body["candidates"] = [candidates[index] for index in sorted(candidates)]
    return body


_DATA_STREAM = re.compile(r"[0-9a-k]:(?=[\"{\[])")
_DATA_LINES = {
    "0": "text-delta",
    "3": "error",
    "9": "tool-input-available",
    "a": "tool-output-available",
    "d": "finish",
    "g": "reasoning-delta",
    "k": "file",
}
"""Events by the letter of a line in version 4; others say nothing, or repeat these in parts."""


def is_data_stream(value: Any) -> bool:
    """Whether a value is the text of a stream in version 4: each line is a letter, a colon and JSON."""
    return isinstance(value, str) and _DATA_STREAM.match(value) is not None


def data_stream_of(text: str) -> EventStream:
    """Return the events of a stream in version 4 as those of later versions."""
    stream = EventStream()
    for letter, _, data in (line.partition(":") for line in text.splitlines() if line.strip()):
        value = _parsed(data, stream)
        if letter in _DATA_LINES and value is not None:
            stated = value if isinstance(value, dict) else {"delta": value, "errorText": value}
            stream.events.append({"type": _DATA_LINES[letter], **stated})
    return stream


def ui_message_of(stream: EventStream) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the answer that a stream to the AI SDK's user interface carries, as a message of parts.

    Beside it is what the stream says of the whole: `usage`, and `error`. A stream that was cut off says so in
    `broken`.
    """
    parts: dict[Any, dict[str, Any]] = {}
    beside: dict[str, Any] = {}
    is_whole = False
    for data in map(mapping, stream.events):
        kind, own = str(data.get("type")), data.get("toolCallId", data.get("id"))
        is_whole = is_whole or kind in ("finish", "error", "abort")
        if kind in ("text-delta", "reasoning-delta"):
            last = next(reversed(parts), None)
            following = last if last is not None and last[0] == kind else (kind, len(parts))
            key = following if own is None else (kind, own)
            part = parts.setdefault(key, {"type": kind.removesuffix("-delta"), "text": ""})
            part["text"] += text(data.get("delta")) or text(data.get("textDelta")) or ""
        elif kind in ("tool-input-available", "tool-input-error"):
            called = {"input": data.get("input", data.get("args")), "toolName": data.get("toolName")}
            parts["call", own] = {"type": "dynamic-tool", "toolCallId": own, **called}
        elif kind.startswith("tool-output-") and ("call", own) in parts:
            parts["call", own] |= {"state": kind.removeprefix("tool-")}
            named = {"output": data.get("output", data.get("result")), "errorText": data.get("errorText")}
            parts["call", own] |= not_null(named)
        elif kind == "file":
            parts[kind, len(parts)] = {"mediaType": data.get("mimeType"), **data}
        elif kind == "error":
            beside["error"] = data.get("errorText")
        elif kind == "finish" and mapping(data.get("usage")):
            beside["usage"] = data["usage"]
    if not is_whole:
        stream.broken.append("ends before the answer does")
    return {"role": "assistant", "parts": list(parts.values())}, beside

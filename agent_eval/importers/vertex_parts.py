"""Contents and parts of Gemini, in camelCase as the API writes them and in snake_case as Python does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

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
    total,
    usage_of,
    user_message,
)

CODE_TOOL = "code_execution"
SEARCH_TOOL = "google_search"

_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_SNAKE = {
    name: _HUMP.sub("_", name).lower()
    for name in (
        *("functionCall", "functionResponse", "executableCode", "codeExecutionResult", "inlineData"),
        *("fileData", "mimeType", "fileUri", "displayName", "promptTokenCount", "candidatesTokenCount"),
        *("thoughtsTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount", "usageMetadata"),
        *("finishReason", "finishMessage", "promptFeedback", "blockReason", "blockReasonMessage"),
        *("modelVersion", "responseId", "createTime", "systemInstruction", "groundingMetadata"),
        *("webSearchQueries", "groundingChunks", "errorCode", "errorMessage", "invocationId"),
        *("evalSetId", "evalCases", "evalId", "userContent", "finalResponse", "intermediateData", "toolUses"),
        *("invocationEvents", "appName", "userId", "stateDelta", "transferToAgent", "sessionInput"),
        *("functionDeclarations", "toolCall", "toolResponse"),
    )
}


def field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field by its name in camelCase, or by the same name in snake_case."""
    value = fields.get(name)
    return fields.get(_SNAKE[name]) if value is None and name in _SNAKE else value


def content_message(content: Any, place: str, path: str, diagnostics: Diagnostics) -> Message:
    """Read a content, `{"role", "parts"}`; its role is `user`, `model` or `function`."""
    fields = mapping(content)
    role = fields.get("role")
    if role not in ("user", "model", "function", "system", None):
        diagnostics.lost(place, f"{path}.role", f"is {role!r}, which is none of this format")
        return message_of([])
    parts = fields.get("parts")
    return message_of(part_events(items(parts), role or "user", place, path, diagnostics))


def system_message_of(instruction: Any) -> list[Message]:
    """Read a system instruction: a text, a content, or parts."""
    parts = mapping(instruction).get("parts", instruction)
    parts = [parts] if isinstance(parts, str | dict) else items(parts)
    texts = [text(part) or text(mapping(part).get("text")) for part in parts]
    joined = "".join(line for line in texts if line)
    return [message_of([system_message(joined)])] if joined else []


def part_events(
    parts: Iterable[Any], role: str, place: str, path: str, diagnostics: Diagnostics
) -> list[EventFields]:
    """Read the parts of one content as events; texts in a row are one message."""
    events: list[EventFields] = []
    spoken: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for number, part in enumerate(map(mapping, parts)):
        if part.get("thought") is True and isinstance(part.get("text"), str):
            thoughts.append(part["text"])
            continue
        block = _block(part)
        if block is not None:
            spoken.append(block)
            continue
        acted = _act(part)
        if acted is None:
            _report(part, place, f"{path}.parts[{number}]", diagnostics)
            continue
        events += _flushed(thoughts, spoken, role)
        events.append(acted)
    return events + _flushed(thoughts, spoken, role)


def _flushed(thoughts: list[str], spoken: list[dict[str, Any]], role: str) -> list[EventFields]:
    events = [reasoning("".join(thoughts))] if thoughts else []
    if spoken and (role != "model" or any(block["type"] != "text" or block["text"] for block in spoken)):
        make = {"user": user_message, "function": user_message, "system": system_message}
        events.append(make.get(role, agent_message)(list(spoken)))
    thoughts.clear()
    spoken.clear()
    return events


def _report(part: Mapping[str, Any], place: str, path: str, diagnostics: Diagnostics) -> None:
    named = sorted(name for name, value in part.items() if value is not None and not _is_opaque(name))
    if named:
        diagnostics.lost(place, path, f"is no part that this format defines: {', '.join(named)}")


def _is_opaque(name: str) -> bool:
    return name.lower().replace("_", "") in ("thoughtsignature", "thought", "videometadata", "partmetadata")


def _block(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a part says: text, or bytes that are kept by digest."""
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    inline, file = mapping(field(part, "inlineData")), mapping(field(part, "fileData"))
    if not inline and not file:
        return None
    media_type = field(inline, "mimeType") or field(file, "mimeType")
    kind = str(media_type).partition("/")[0]
    stated: dict[str, Any] = {"type": kind if kind in ("image", "audio") else "file"}
    name = text(field(inline, "displayName")) or text(field(file, "displayName"))
    if name is not None:
        stated["filename"] = name
    if file:
        return {**stated, "url": field(file, "fileUri"), "mime_type": media_type}
    return {**stated, "data": _standard(inline.get("data")), "mime_type": media_type}


def _standard(data: Any) -> Any:
    """Write base64 in the alphabet of URLs, which Python writes, in the standard one."""
    if not isinstance(data, str):
        return data
    data = data.replace("-", "+").replace("_", "/")
    return data + "=" * (-len(data) % 4)


def _act(part: Mapping[str, Any]) -> EventFields | None:
    call = mapping(field(part, "functionCall"))
    if call:
        return tool_call(text(call.get("name")), call.get("args"), call.get("id"))
    answer = mapping(field(part, "functionResponse"))
    if answer:
        response = answer.get("response")
        error = mapping(response).get("error")
        return tool_result(response, answer.get("id"), tool=text(answer.get("name")), error=error)
    code = mapping(field(part, "executableCode"))
    if code:
        arguments = {name: code[name] for name in ("language", "code") if code.get(name) is not None}
        return tool_call(CODE_TOOL, arguments, code.get("id"), ran_on="server")
    return _server_result(part)


def _server_result(part: Mapping[str, Any]) -> EventFields | None:
    result = mapping(field(part, "codeExecutionResult"))
    if result:
        outcome = result.get("outcome")
        error = None if outcome in (None, "OUTCOME_OK") else outcome
        output = result.get("output")
        return tool_result(output, result.get("id"), tool=CODE_TOOL, error=error, ran_on="server")
    call = mapping(field(part, "toolCall"))
    if call:
        name = text(call.get("toolType")) or text(call.get("tool_type")) or text(call.get("name"))
        return tool_call(name, call.get("args"), call.get("id"), ran_on="server")
    answer = mapping(field(part, "toolResponse"))
    if answer:
        name = text(answer.get("toolType")) or text(answer.get("tool_type")) or text(answer.get("name"))
        return tool_result(answer.get("response"), answer.get("id"), tool=name, ran_on="server")
    return None


def grounding_events(metadata: Any) -> list[EventFields]:
    """Return the search that grounded an answer as a call and its result; nothing if there was none."""
    queries = field(mapping(metadata), "webSearchQueries")
    chunks = field(mapping(metadata), "groundingChunks")
    if not queries and not chunks:
        return []
    arguments = {"queries": queries} if queries else {}
    result = tool_result(
        chunks, tool=SEARCH_TOOL, ran_on="server", content_recorded=None if chunks else False
    )
    return [tool_call(SEARCH_TOOL, arguments, ran_on="server"), result]


def usage_fields(metadata: Any) -> dict[str, Any] | None:
    """Read `usageMetadata`; its candidates leave out thoughts, its prompt what tools added."""
    usage = mapping(metadata)
    thoughts = field(usage, "thoughtsTokenCount")
    return usage_of(
        input_tokens=total(field(usage, "promptTokenCount"), field(usage, "toolUsePromptTokenCount")),
        output_tokens=total(field(usage, "candidatesTokenCount"), thoughts),
        cached=field(usage, "cachedContentTokenCount"),
        reasoning=thoughts,
    )

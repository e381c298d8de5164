"""Make the events of an imported trace. Formats make no event in another way.

An event is the dictionary of the fields of `contracts.Event` that the source has: what it lacks is left out.
`idx`, span ids and attributes of OpenTelemetry are added when the case is made.

An import makes millions of events, most of them of a text alone: those have the shortest way.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from agent_eval.errors import InvalidInput
from agent_eval.importers.vocabulary import first_text
from agent_eval.storage.json import Limits, parse

EventFields = dict[str, Any]
"""Fields of one event, as JSON."""

MALFORMED = "agent_eval.malformed_arguments"
"""Attribute of a call whose arguments are no JSON, and therefore kept as text."""

_ARGUMENTS = Limits(max_depth=40)


def event(actor: str, kind: str, **fields: Any) -> EventFields:
    """Make an event of the fields that are not null; an empty `call_id` counts as null.

    Example:
        >>> event("agent", "message", output="Hello!", model=None, call_id="")
        {'actor': 'agent', 'type': 'message', 'output': 'Hello!'}
    """
    made: EventFields = {"actor": actor, "type": kind}
    for name, value in fields.items():
        if value is not None and not (name in _NOT_EMPTY and value in ("", {})):
            made[name] = value
    return made


_NOT_EMPTY = frozenset({"call_id", "model", "agent_name", "usage", "attributes", "stop_reason"})


def user_message(content: Any, **fields: Any) -> EventFields:
    """Make the event of a user's message. `content` is text, JSON, or a list of content parts.

    Example:
        >>> user_message([{"type": "text", "text": "Hello"}])
        {'actor': 'user', 'type': 'message', 'input': 'Hello'}
    """
    if type(content) is str and not fields:
        return {"actor": "user", "type": "message", "input": content}
    read = content_of(content)
    value = "" if read == (None, None) and content is not None else read.value
    return event("user", "message", input=value, parts=read.parts, **fields)


def system_message(content: Any, **fields: Any) -> EventFields:
    """Make the event of a system's or developer's message."""
    if type(content) is str and content and not fields:
        return {"actor": "system", "type": "message", "output": content}
    read = content_of(content)
    return event("system", "message", output=read.value, parts=read.parts, **fields)


def agent_message(content: Any, **fields: Any) -> EventFields:
    """Make the event of an agent's message."""
    if type(content) is str and content and not fields:
        return {"actor": "agent", "type": "message", "output": content}
    read = content_of(content)
    return event("agent", "message", output=read.value, parts=read.parts, **fields)


def reasoning(text: Any, **fields: Any) -> EventFields:
    """Make the event of what the model thought; an empty text means that the source hides it."""
    if text in (None, "", []):
        return event("agent", "reasoning", content_recorded=False, **fields)
    return event("agent", "reasoning", output=text, **fields)


def tool_call(tool: str | None, arguments: Any, call_id: Any = None, **fields: Any) -> EventFields:
    """Make the event of a tool call.

    `arguments` are a value, or JSON text, which is parsed. Text that is no JSON is kept as it is, and marked.
    An empty `call_id` counts as none.

    Example:
        >>> tool_call("refund", '{"order": 7}', "call_1")["input"]
        {'order': 7}
        >>> tool_call("refund", '{"order": ')["attributes"]
        {'agent_eval.malformed_arguments': True}
    """
    value, is_malformed = arguments_of(arguments)
    made = event(
        "agent", "tool_call", tool=tool or None, input=value, call_id=text_or_none(call_id), **fields
    )
    if is_malformed:
        made["attributes"] = {**made.get("attributes", {}), MALFORMED: True}
    return made


def tool_result(
    output: Any, call_id: Any = None, *, tool: str | None = None, error: Any = None, **fields: Any
) -> EventFields:
    """Make the event of a tool's result. Without `tool` it gets the tool of the call with its id."""
    # An empty text or array is what the tool returned, not a lack of content.
    read = Content(output) if type(output) is str or output == [] else content_of(output)
    return event(
        "tool",
        "tool_result",
        tool=tool or None,
        output=read.value,
        parts=read.parts,
        call_id=text_or_none(call_id),
        error=error,
        **fields,
    )


def error_event(error: Any, **fields: Any) -> EventFields:
    """Make the event of an error outside of a tool."""
    return event("agent", "error", error=error, **fields)


def last_of_agent(made: Sequence[EventFields]) -> EventFields | None:
    """Return the last event of the agent, the one that has an answer's tokens and model; None without any."""
    return next((fields for fields in reversed(made) if fields["actor"] == "agent"), None)


def mark(made: Iterable[EventFields], *, agent: str | None = None, ts: str | None = None) -> None:
    """Give the events of the agent its name, and all of them their time, where these are known."""
    for fields in made:
        if agent is not None and fields["actor"] == "agent":
            fields["agent_name"] = agent
        if ts is not None:
            fields["ts"] = ts


def arguments_of(raw: Any) -> tuple[Any, bool]:
    """Return arguments as a value, and whether they are text that is no JSON.

    Example:
        >>> arguments_of('{"id": 7}'), arguments_of({"id": 7}), arguments_of("id=7"), arguments_of("")
        (({'id': 7}, False), ({'id': 7}, False), ('id=7', True), ({}, False))
    """
    if not isinstance(raw, str):
        return ({}, False) if raw is None else (raw, False)
    if not raw.strip():
        return {}, False
    try:
        return parse(raw.encode("utf-8", "surrogatepass"), source="arguments", limits=_ARGUMENTS), False
    except InvalidInput:
        return raw, True


def text_or_none(value: Any) -> str | None:
    """Return an identifier as text; None for null and for the empty text, which is no id."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def total(*amounts: Any) -> Any:
    """Add the amounts that are known; None if none is."""
    known = [amount for amount in amounts if is_amount(amount)]
    return sum(known) if known else None


def is_amount(value: Any) -> bool:
    """Whether a value is a number from 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def seconds_of(value: Any) -> float | None:
    """Read a point in time as seconds since the epoch; None if it is none.

    Numbers are seconds, milliseconds or nanoseconds by their size; texts are ISO 8601, or such a number. A
    text without an offset counts as UTC for the order, though `timestamp_of` does not claim so.

    Example:
        >>> seconds_of(1748902365), seconds_of("1970-01-01T00:01:00Z"), seconds_of("soon")
        (1748902365.0, 60.0, None)
    """
    if isinstance(value, str):
        if value.lstrip("-").replace(".", "", 1).isdigit():
            value = float(value)
        else:
            moment = _moment(value)
            return None if moment is None else moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        return None
    for scale, smallest in ((1e9, 1e17), (1e6, 1e14), (1e3, 1e11)):
        if value >= smallest:
            return float(value / scale)
    return float(value)


def timestamp_of(value: Any) -> str | None:
    """Write a point in time as `Event.ts` has it: ISO 8601 with its offset; None if it is none.

    Example:
        >>> timestamp_of(1748902365), timestamp_of("2026-01-13T09:00:00Z")
        ('2025-06-02T22:12:45+00:00', '2026-01-13T09:00:00Z')
    """
    if isinstance(value, str) and _moment(value) is not None:
        return value
    seconds = seconds_of(value)
    if seconds is None or seconds > _LAST_MOMENT:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat()


_LAST_MOMENT = 253402300799.0
"""The last second of the year 9999."""


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return an object as it is, and an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def not_null(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not null."""
    return {name: value for name, value in fields.items() if value is not None}


def items(value: Any) -> list[Any]:
    """Return an array as it is, and an empty one for any other value."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Return a text as it is, and None for any other value and for the empty text."""
    return value if isinstance(value, str) and value else None


class Content(NamedTuple):
    """Content of a message.

    Attributes:
        value: The text, or the JSON value; None if there is none, or it is in the parts.
        parts: Fields of `ContentPart`, where a text alone cannot hold the content.
    """

    value: Any
    parts: list[dict[str, Any]] | None = None


_TEXTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text"})
_MEDIA = {
    **dict.fromkeys(("image", "image_url", "input_image", "output_image"), "image"),
    **dict.fromkeys(("audio", "input_audio", "output_audio", "audio_url"), "audio"),
    **dict.fromkeys(("file", "input_file", "document", "video", "container_upload", "media"), "file"),
}


def content_of(content: Any) -> Content:
    """Read content as OpenAI, Anthropic and LangChain write it: a text, or a list of typed blocks.

    A list that holds other things than text, images, audio and files is a value like any other.

    Example:
        >>> content_of("").value, content_of([{"type": "text", "text": "Hi"}]).value
        (None, 'Hi')
    """
    if type(content) is str:
        return Content(content or None)
    if not isinstance(content, list) or (content and all(isinstance(block, str) for block in content)):
        return Content(content)
    parts = [part_of(block) for block in content]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return Content(content)
    if all(part["type"] == "text" for part in known):
        return Content("".join(part["text"] for part in known) or None)
    return Content(None, known)


def part_of(block: Any) -> dict[str, Any] | None:
    """Read one block as the fields of a `ContentPart`; None if it is no text, image, audio or file."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return None
    kind = block.get("type")
    if not isinstance(kind, str):
        return None
    if kind in _TEXTS:
        value = next((block[name] for name in ("text", "refusal") if isinstance(block.get(name), str)), None)
        return None if value is None else {"type": "text", "text": value}
    if kind not in _MEDIA:
        return None
    return _media(_MEDIA[kind], block)


def _media(kind: str, block: dict[str, Any]) -> dict[str, Any]:
    source = next((block[name] for name in _INNER if isinstance(block.get(name), dict)), block)
    if isinstance(source.get("source"), dict):
        source = source["source"]
    fields: dict[str, Any] = {"type": kind}
    name = source.get("filename") or block.get("filename") or block.get("title") or block.get("name")
    if isinstance(name, str) and name:
        fields["name"] = name
    data = first_text(source, _DATA)
    address = first_text(source, _ADDRESSES) or first_text(block, _ADDRESSES)
    media_type = source.get("media_type") or source.get("mime_type") or source.get("mimeType")
    if data is None and address is not None and address.startswith("data:"):
        head, _, data = address.partition(",")
        media_type, address = head[5:].removesuffix(";base64"), None
    if media_type is None and isinstance(source.get("format"), str):
        media_type = f"{kind}/{source['format']}"
    if isinstance(media_type, str) and media_type:
        fields["media_type"] = media_type
    if data is not None:  # its digest and its size are kept, and not the bytes
        encoded = data.partition(",")[2] if data.startswith("data:") else data
        try:
            raw = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raw = encoded.encode("utf-8", "surrogatepass")
        fields |= {"sha256": hashlib.sha256(raw).hexdigest(), "size": len(raw)}
    if address:
        fields["url"] = address
    return fields


_INNER = ("image_url", "input_audio", "audio_url", "file", "source", "image", "audio")
_DATA = ("data", "file_data", "base64")
_ADDRESSES = ("url", "image_url", "file_url", "file_uri", "fileUri", "uri", "file_id")


# --- The tokens that an answer states, whatever its API calls them ---

_WORDS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": (
        *("input_tokens", "inputTokens", "prompt_tokens", "promptTokens", "input_token_count"),
        *("promptTokenCount", "prompt_token_count", "InputTokenCount", "inputTokenCount", "prompt", "input"),
        "prompt_eval_count",
    ),
    "output_tokens": (
        *("output_tokens", "outputTokens", "completion_tokens", "completionTokens", "output_token_count"),
        *("candidatesTokenCount", "candidates_token_count", "OutputTokenCount", "outputTokenCount"),
        *("completion", "output", "eval_count"),
    ),
    "cached": (
        *("cache_read_tokens", "cacheReadInputTokens", "cachedInputTokens", "cached_input_tokens"),
        *("cached_tokens", "cached_prompt_tokens", "cachedContentTokenCount", "cached_content_token_count"),
        *("cacheReadTokens", "input_tokens_cache_read", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
        *("cached", "cacheRead", "input_cache_read", "input_cached_tokens"),
        *("cache_read.input_tokens", "prompt_details.cache_read"),
    ),
    "cache_write": (
        *("cache_write_tokens", "cacheWriteInputTokens", "cache_write_input_tokens"),
        *("input_tokens_cache_write", "cache_creation_input_tokens", "cacheWriteTokens"),
        *("cache_creation.input_tokens", "prompt_details.cache_write", "cache_write_input_tokens"),
    ),
    "reasoning": (
        *("reasoning_tokens", "reasoningTokens", "reasoning_output_tokens", "thoughtsTokenCount"),
        *("thoughts_token_count", "thoughts", "output_reasoning"),
        *("reasoning.output_tokens", "completion_details.reasoning"),
    ),
}
_DETAILS = {
    "cached": (
        *("input_tokens_details", "prompt_tokens_details", "prompt_token_details", "input_token_details"),
        *("inputTokenDetails", "cache"),
    ),
    "reasoning": (
        *("output_tokens_details", "completion_tokens_details", "output_token_details", "outputTokenDetails"),
    ),
}
_OF_DETAILS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "cached": ("cached", ("cached_tokens", "cache_read", "cacheReadTokens", "read")),
    "cache_write": ("cached", ("cache_creation", "cache_write_tokens", "cacheWriteTokens", "write")),
    "reasoning": ("reasoning", ("reasoning_tokens", "reasoning", "reasoningTokens", "thinking_tokens")),
}
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count", "thoughts")
"""Tokens that Gemini counts beside its output."""
_APART = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Tokens that Anthropic counts beside its input, and not within."""


@lru_cache(maxsize=1024)
def _plan(fields: tuple[str, ...]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return which of some fields may state tokens, by kind, and their details: many have the same fields."""
    tokens, details = (
        {name: [word for word in words if word in fields] for name, words in table.items()}
        for table in (_WORDS, _DETAILS)
    )
    return tokens, details


def _first(fields: Mapping[str, Any], words: Iterable[str]) -> Any:
    for word in words:
        if (value := fields.get(word)) is not None:
            return value
    return None


def usage_in(stated: Any) -> dict[str, Any] | None:
    """Return the tokens by the names of `TokenUsage`; None if none is stated.

    Input has what came from a cache, output has what was thought, wherever an API leaves these out.

    Example:
        >>> usage_in({"promptTokenCount": 57, "candidatesTokenCount": 15, "thoughtsTokenCount": 124})
        {'input_tokens': 57, 'output_tokens': 139, 'reasoning_tokens': 124}
        >>> usage_in({"input_tokens": 3, "cache_read_input_tokens": 11, "output_tokens": 2})
        {'input_tokens': 14, 'output_tokens': 2, 'cached_tokens': 11}
    """
    fields = mapping(stated)
    if not fields:
        return None
    plan, details = _plan(tuple(fields))
    tokens = {name: _first(fields, words) for name, words in plan.items()}
    for name, (side, words) in _OF_DETAILS.items():
        for place in details[side]:
            value = _first(mapping(fields[place]), words)
            if value is not None:
                tokens[name] = value
    if "prompt_tokens" in fields:  # a proxy repeats the names of another API, whose rules are not its own
        tokens["cache_write"] = None if "cache_write_tokens" not in fields else tokens["cache_write"]
    elif any(name in fields for name in _APART):
        tokens["input_tokens"] = total(tokens["input_tokens"], *(fields.get(name) for name in _APART))
    thoughts = next((fields[word] for word in _THOUGHTS if word in fields), None)
    if thoughts is not None:
        tokens["output_tokens"] = total(tokens["output_tokens"], thoughts)
    tools = fields.get("toolUsePromptTokenCount", fields.get("tool_use_prompt_token_count"))
    if tools is not None:
        tokens["input_tokens"] = total(tokens["input_tokens"], tools)
    return {
        name if name.endswith("_tokens") else f"{name}_tokens": value
        for name, value in tokens.items()
        if is_amount(value)
    } or None

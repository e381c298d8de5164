"""Messages of LangChain, in each of their four encodings, and the results of its models.

* `messages_to_dict`: `{"type": "ai", "data": {...}}`
* `model_dump`, and LangGraph's server: `{"type": "ai", "content": ..., "tool_calls": [...]}`
* `lc` dumps: `{"lc": 1, "type": "constructor", "id": [..., "AIMessage"], "kwargs": {...}}`
* dictionaries as OpenAI has them: `{"role": "assistant", ...}`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_eval.importers.content import content_of
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
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.openai_chat import chat_message

_TYPES = {
    **dict.fromkeys(("human", "HumanMessage", "HumanMessageChunk"), "human"),
    **dict.fromkeys(("ai", "AIMessage", "AIMessageChunk"), "ai"),
    **dict.fromkeys(("system", "SystemMessage", "SystemMessageChunk", "developer"), "system"),
    **dict.fromkeys(("tool", "ToolMessage", "ToolMessageChunk", "function", "FunctionMessage"), "tool"),
    **dict.fromkeys(("chat", "ChatMessage", "ChatMessageChunk"), "chat"),
    **dict.fromkeys(("remove", "RemoveMessage"), "remove"),
}
_CHUNK = "Chunk"
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
    return isinstance(name, str) and name.endswith(_CHUNK)


def is_message(value: Any) -> bool:
    """Whether a value is a message in any of the four encodings."""
    if fields_of(value) is not None:
        return True
    message = mapping(value)
    return message.get("role") in _OPENAI_ROLES and ("content" in message or "tool_calls" in message)


def is_messages(value: Any) -> bool:
    """Whether a value is a list of messages, not empty."""
    return isinstance(value, list) and bool(value) and all(map(is_message, value[:20]))


def read_message(value: Any, place: str, field: str, diagnostics: Diagnostics) -> Message:
    """Read a message in any of the four encodings.

    `place` is the record, and `field` where in it the message is, for diagnostics.
    """
    known = fields_of(value)
    if known is None:
        if mapping(value).get("role") in _OPENAI_ROLES:
            return chat_message(value, place, field, diagnostics)
        diagnostics.lost(place, field, "is no message in an encoding of LangChain")
        return message_of([])
    kind, fields = known
    if kind == "chat":
        kind = {"user": "human", "assistant": "ai", "system": "system"}.get(str(fields.get("role")), "ai")
    content, identifier = fields.get("content"), text(fields.get("id"))
    if kind == "human":
        return message_of([user_message(content)], identifier)
    if kind == "system":
        return message_of([system_message(content)], identifier)
    if kind == "tool":
        return message_of([tool_message(fields)], identifier)
    if kind == "remove":
        diagnostics.note(place, field, "removes an earlier message from the state; the trace keeps it")
        return message_of([])
    return message_of(ai_events(fields), identifier)


def tool_message(fields: Mapping[str, Any]) -> EventFields:
    """Read the fields of a tool's message: an error, if its status says so."""
    content = fields.get("content")
    tool, call_id = text(fields.get("name")), fields.get("tool_call_id")
    if fields.get("status") != "error":
        return tool_result(content, call_id, tool=tool)
    read = content_of(content)
    return tool_result(None, call_id, tool=tool, error=read.value or read.parts or "error")


def ai_events(fields: Mapping[str, Any]) -> list[EventFields]:
    """Read the fields of a model's message: reasoning, text, calls; model, tokens and stop reason."""
    events: list[EventFields] = []
    content = fields.get("content")
    thoughts, spoken = _divided(content)
    extra = mapping(fields.get("additional_kwargs"))
    if text(extra.get("reasoning_content")):
        thoughts.append(str(extra["reasoning_content"]))
    events += [reasoning(thought) for thought in thoughts]
    if spoken not in (None, "", []):
        events.append(agent_message(spoken))
    if text(extra.get("refusal")):
        events.append(agent_message(extra["refusal"], stop_reason="refusal"))
    events += _calls(fields, extra)
    if not events:
        events.append(agent_message(None))
    for name, value in _of_the_answer(fields).items():
        events[-1].setdefault(name, value)
    return events


def _divided(content: Any) -> tuple[list[str], Any]:
    """Divide content into thoughts and the rest; blocks of calls are repeated in `tool_calls`."""
    if not isinstance(content, list):
        return [], content
    thoughts, rest = [], []
    for block in content:
        kind = mapping(block).get("type")
        if kind in ("thinking", "reasoning", "redacted_thinking", "reasoning_content"):
            thought = mapping(block).get("thinking") or mapping(block).get("reasoning") or ""
            thoughts.append(thought if isinstance(thought, str) else "")
        elif kind not in ("tool_use", "tool_call", "function_call", "input_json_delta", "server_tool_use"):
            rest.append(block)
    return thoughts, rest


def _calls(fields: Mapping[str, Any], extra: Mapping[str, Any]) -> list[EventFields]:
    calls = [mapping(call) for call in items(fields.get("tool_calls"))]
    events = [tool_call(text(call.get("name")), call.get("args"), call.get("id")) for call in calls]
    for call in map(mapping, items(fields.get("invalid_tool_calls"))):
        made = tool_call(text(call.get("name")), call.get("args"), call.get("id"))
        if call.get("error"):
            made["error"] = call["error"]
        events.append(made)
    if events:
        return events
    # Older versions have calls only as the provider wrote them.
    for call in map(mapping, items(extra.get("tool_calls"))):
        function = mapping(call.get("function"))
        events.append(tool_call(text(function.get("name")), function.get("arguments"), call.get("id")))
    legacy = mapping(extra.get("function_call"))
    if legacy:
        events.append(tool_call(text(legacy.get("name")), legacy.get("arguments")))
    return events


def _of_the_answer(fields: Mapping[str, Any]) -> dict[str, Any]:
    usage, about = mapping(fields.get("usage_metadata")), mapping(fields.get("response_metadata"))
    stated = mapping(about.get("token_usage"))
    details = mapping(usage.get("input_token_details"))
    tokens = usage_of(
        input_tokens=usage.get("input_tokens", stated.get("prompt_tokens")),
        output_tokens=usage.get("output_tokens", stated.get("completion_tokens")),
        cached=details.get("cache_read"),
        cache_write=details.get("cache_creation"),
        reasoning=mapping(usage.get("output_token_details")).get("reasoning"),
    )
    known = {
        "model": text(about.get("model_name")) or text(about.get("model")),
        "stop_reason": text(about.get("finish_reason")) or text(about.get("stop_reason")),
        "usage": tokens,
        "agent_name": text(fields.get("name")),
    }
    return {name: value for name, value in known.items() if value is not None}


def read_messages(value: Any, place: str, field: str, diagnostics: Diagnostics) -> list[Message]:
    """Read a list of messages, or a list that holds one such list, as models take several prompts."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    return [
        read_message(message, place, f"{field}[{number}]", diagnostics)
        for number, message in enumerate(items(value))
    ]


def generation_message(output: Any) -> Mapping[str, Any] | None:
    """Return the message of a model's result, `{"generations": [[{"message"}]]}`; None if there is none."""
    generations = mapping(output).get("generations")
    while isinstance(generations, list) and generations:
        generations = generations[0]
    generation = mapping(generations)
    if isinstance(generation.get("message"), dict):
        message = generation["message"]
        return (
            message if is_message(message) else {"type": "ai", "content": generation.get("text"), **message}
        )
    if isinstance(generation.get("text"), str):
        return {"type": "ai", "content": generation["text"]}
    return None


def handoff_of(tool: str | None) -> str | None:
    """Return the agent that a tool hands over to, by its name `transfer_to_AGENT`; None for other tools."""
    return tool.removeprefix("transfer_to_") if tool and tool.startswith("transfer_to_") else None


def state_event(value: Any, **fields: Any) -> EventFields:
    """Make the event of a state that an agent keeps."""
    return event("agent", "state", output=value, **fields)


def spoken_messages(messages: Sequence[Message]) -> list[EventFields]:
    """Return the events of messages, in order."""
    return [fields for message in messages for fields in message.events]

"""Exports of AutoGen: results, streams and saved states of 0.4 and later, chat histories of 0.2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.content import content_of
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Dialogue, Message, message_of
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    event,
    items,
    mapping,
    reasoning,
    seconds_of,
    system_message,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.records import Record

_USERS = frozenset({"user", "user_proxy", "userproxy", "human", "human_user", "admin"})
"""Names that agents which speak for the user have, if none is set."""

_OF_THE_STREAM = frozenset({"ModelClientStreamingChunkEvent", "SelectSpeakerEvent"})
_STATES = frozenset({"AssistantAgentState", "TeamState", "ChatAgentContainerState"})
_SAYS_NOTHING = frozenset({"UserInputRequestedEvent"})


class AutoGen(Format):
    """Reads what AutoGen returns, streams and saves.

    In a chat history of 0.2 the roles are those of who began the chat, so that the human is an assistant and
    the agent a user; names say who is who.
    """

    name = "autogen"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            return Match(0.9, "0.2 history") if _is_old_history(value) else None
        fields = mapping(value)
        if _is_message(fields):
            return Match(0.95, "message")
        messages = fields.get("messages")
        first = items(messages)[:20]
        if first and all(_is_message(mapping(each)) for each in first):
            return Match(0.95, "result")
        if fields.get("type") in _STATES or str(fields.get("type")).endswith("ManagerState"):
            return Match(0.95, "state")
        if isinstance(fields.get("chat_history"), list) and {"summary", "cost", "chat_id"} & set(fields):
            return Match(0.95, "0.2 result")
        views = list(fields.values())
        is_views = bool(views) and all(isinstance(view, list) and _is_old_history(view) for view in views)
        return Match(0.8, "0.2 views") if is_views else None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        match = self.detect(record.value)
        variant = "message" if match is None else match.variant
        payload = {"variant": variant, "value": record.value}
        if variant == "message" or (variant == "result" and record.is_line):
            time = None if variant == "result" else seconds_of(record.value.get("created_at"))
            return Link(ids=(f"file:{record.source}",), time=time), payload
        return ALONE, payload

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        dialogue, about = Dialogue(), dict[str, Any]()
        for part in parts:
            variant, value = part.payload["variant"], part.payload["value"]
            if variant.startswith("0.2"):
                return [_old_conversation(variant, value, part.place, diagnostics)]
            if variant == "state":
                return [_of_state(mapping(value), part.place, diagnostics)]
            messages = items(value.get("messages")) if variant == "result" else [value]
            if variant == "result" and text(value.get("stop_reason")):
                about["stop_reason"] = value["stop_reason"]
            read = [_message(mapping(each), part.place, diagnostics) for each in messages]
            _add(dialogue, read)
        return [Conversation(dialogue.events, metadata=about)]


def _add(dialogue: Dialogue, messages: Sequence[Message]) -> None:
    """Add messages: the result at the end of a stream has all of them again."""
    if len(messages) > 1 and any(message.id is None for message in messages):
        dialogue.add_history(messages)
    else:
        for message in messages:
            dialogue.add(message)


def _is_message(fields: Mapping[str, Any]) -> bool:
    kind = _kind_of(fields)
    has_content = "content" in fields or "target" in fields
    return "source" in fields and kind.endswith(("Message", "Event")) and has_content


def _kind_of(fields: Mapping[str, Any]) -> str:
    """Return the type of a message; that of a structured one has the name of its model in brackets."""
    return str(fields.get("type")).partition("[")[0]


def _is_old_history(value: list[Any]) -> bool:
    messages = [mapping(message) for message in value]
    if not messages or not all("role" in message and "content" in message for message in messages):
        return False
    has_responses = any("tool_responses" in message for message in messages)
    named = sum("name" in message and message["role"] in ("user", "assistant") for message in messages)
    return has_responses or (named > 0 and named == sum("tool_calls" not in message for message in messages))


def _message(fields: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Message:
    kind, source = _kind_of(fields), text(fields.get("source"))
    reader = _READERS.get(kind)
    if reader is None:
        if kind not in _SAYS_NOTHING and kind not in _OF_THE_STREAM:
            diagnostics.unknown(place, f"message of type {kind!r}"[:200])
        return message_of([])
    events = reader(fields)
    usage = mapping(fields.get("models_usage"))
    tokens = usage_of(input_tokens=usage.get("prompt_tokens"), output_tokens=usage.get("completion_tokens"))
    for made in events:
        if made["actor"] == "agent" and source is not None:
            made["agent_name"] = source
        if timestamp_of(fields.get("created_at")) is not None:
            made["ts"] = timestamp_of(fields.get("created_at"))
    if events and tokens:
        events[-1]["usage"] = tokens
    return message_of(events, text(fields.get("id")))


def _calls(fields: Mapping[str, Any]) -> list[EventFields]:
    calls = map(mapping, items(fields.get("content")))
    return [tool_call(text(call.get("name")), call.get("arguments"), call.get("id")) for call in calls]


def _spoken(fields: Mapping[str, Any]) -> list[EventFields]:
    content = fields.get("content")
    if isinstance(content, list):
        content = [_part(part) for part in content]
    if str(fields.get("source")).lower() in _USERS:
        return [user_message(content)]
    return [agent_message(content)]


def _part(part: Any) -> Any:
    if isinstance(part, dict) and "data" in part and "type" not in part:
        return {"type": "image", "data": part["data"]}
    return {"type": "text", "text": part} if isinstance(part, str) else part


def _result(result: Mapping[str, Any]) -> EventFields:
    content, tool = result.get("content"), text(result.get("name"))
    if result.get("is_error"):
        return tool_result(None, result.get("call_id"), tool=tool, error=content or "error")
    return tool_result(content, result.get("call_id"), tool=tool)


def _code(fields: Mapping[str, Any]) -> list[EventFields]:
    """Read the code that a model wrote to be run: a call, whose result is the next event."""
    return [tool_call("code_executor", block) for block in items(fields.get("code_blocks"))]


def _execution(fields: Mapping[str, Any]) -> list[EventFields]:
    result = mapping(fields.get("result"))
    code, output = result.get("exit_code"), result.get("output")
    error = {"exit_code": code} if isinstance(code, int) and code != 0 else None
    return [tool_result(output, tool="code_executor", error=error)]


_READERS: Mapping[str, Callable[[Mapping[str, Any]], list[EventFields]]] = {
    **dict.fromkeys(("TextMessage", "StopMessage", "MultiModalMessage", "StructuredMessage"), _spoken),
    # Its calls and results repeat those before it; its content is what the agent answers.
    "ToolCallSummaryMessage": _spoken,
    "CodeGenerationEvent": _code,
    "ToolCallRequestEvent": _calls,
    "ToolCallExecutionEvent": lambda fields: [
        _result(mapping(each)) for each in items(fields.get("content"))
    ],
    "HandoffMessage": lambda fields: [event("agent", "handoff", output=fields.get("target"))],
    "ThoughtEvent": lambda fields: [reasoning(fields.get("content"))],
    "MemoryQueryEvent": lambda fields: [event("agent", "state", output={"memory": fields.get("content")})],
    "CodeExecutionEvent": _execution,
}


def _of_state(state: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
    """Read a saved state: the thread of the team, if it has one, else what each agent remembers."""
    dialogue = Dialogue()
    for thread in _values_of(state, "message_thread"):
        _add(dialogue, [_message(mapping(each), place, diagnostics) for each in items(thread)])
    calls = {fields.get("call_id") for fields in dialogue.events}
    has_thread = any(fields["type"] == "message" for fields in dialogue.events)
    for name, context in _contexts(state, None):
        messages = [_context_message(mapping(each), name) for each in items(context.get("messages"))]
        for message in messages if has_thread else []:
            # A thread has what agents said to each other; the calls are in what each remembers.
            message.events[:] = [each for each in message.events if _is_new_call(each, calls)]
        dialogue.add_history([message_of(message.events) for message in messages])
    return Conversation(dialogue.events)


def _is_new_call(fields: EventFields, known: set[Any]) -> bool:
    return fields["type"] != "message" and fields.get("call_id") not in known


def _values_of(value: Any, name: str) -> list[Any]:
    """Return every value of a name, however deep."""
    if isinstance(value, list):
        return [inner for each in value for inner in _values_of(each, name)]
    if not isinstance(value, dict):
        return []
    own = [value[name]] if value.get(name) else []
    return own + [inner for key, each in value.items() if key != name for inner in _values_of(each, name)]


def _contexts(state: Mapping[str, Any], name: str | None) -> list[tuple[str | None, Mapping[str, Any]]]:
    """Return what each agent remembers, with its name."""
    if isinstance(state.get("llm_context"), dict):
        return [(name, state["llm_context"])]
    contexts = []
    for agent, inner in mapping(state.get("agent_states")).items():
        contexts += _contexts(mapping(inner), agent.partition("/")[0])
    inner_state = state.get("agent_state")
    return contexts + (_contexts(inner_state, name) if isinstance(inner_state, dict) else [])


def _context_message(fields: Mapping[str, Any], agent: str | None) -> Message:
    """Read a message as models get it: `UserMessage`, `AssistantMessage`, ..."""
    kind, content = fields.get("type"), fields.get("content")
    if kind == "SystemMessage":
        return message_of([system_message(content)])
    if kind == "FunctionExecutionResultMessage":
        return message_of([_result(mapping(result)) for result in items(content)])
    source = text(fields.get("source")) or agent
    if kind == "UserMessage":
        if str(source).lower() in _USERS:
            return message_of([user_message([_part(part) for part in items(content)] or content)])
        return message_of([])  # what another agent said, which that one remembers as its own
    events = [reasoning(fields["thought"], agent_name=source)] if text(fields.get("thought")) else []
    if isinstance(content, list):
        calls = map(mapping, content)
        events += [
            tool_call(text(call.get("name")), call.get("arguments"), call.get("id"), agent_name=source)
            for call in calls
        ]
    else:
        events.append(agent_message(content, agent_name=source))
    return message_of(events)


def _old_conversation(variant: str, value: Any, place: str, diagnostics: Diagnostics) -> Conversation:
    if variant == "0.2 views":
        dialogue = Dialogue()
        for history in value.values():
            dialogue.add_history([message_of(_old_events(history, place, diagnostics))])
        return Conversation(dialogue.events)
    history = value if isinstance(value, list) else items(value.get("chat_history"))
    events = _old_events(history, place, diagnostics)
    about: dict[str, Any] = {}
    if isinstance(value, dict):
        about = {name: value[name] for name in ("summary", "chat_id", "human_input") if value.get(name)}
        events += _old_cost(mapping(value.get("cost")))
    return Conversation(events, metadata=about)


def _old_events(history: Sequence[Any], place: str, diagnostics: Diagnostics) -> list[EventFields]:
    messages = [mapping(message) for message in history]
    user = _user_of(messages)
    events: list[EventFields] = []
    tools: dict[str, str] = {}
    for number, message in enumerate(messages):
        made = _old_message(message, user)
        for fields in made:
            if fields["type"] == "tool_call" and "call_id" in fields and "tool" in fields:
                tools[fields["call_id"]] = fields["tool"]
        if not made:
            diagnostics.note(place, f"chat_history[{number}]", "says nothing")
        events += made
    return events


def _user_of(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the name of who speaks for the user: who began the chat, unless that is plainly an agent."""
    names = [text(message.get("name")) for message in messages]
    spoken = [name for name in names if name is not None]
    usual = next((name for name in spoken if name.lower() in _USERS), None)
    return usual or (spoken[0] if spoken else None)


def _old_message(message: Mapping[str, Any], user: str | None) -> list[EventFields]:
    role, content, name = message.get("role"), message.get("content"), text(message.get("name"))
    responses = [mapping(each) for each in items(message.get("tool_responses"))]
    if responses:  # the content repeats them, joined
        return [_old_result(each.get("content"), each.get("tool_call_id")) for each in responses]
    if role in ("tool", "function"):
        return [_old_result(content, message.get("tool_call_id"), name)]
    calls = [mapping(call) for call in items(message.get("tool_calls"))]
    legacy = mapping(message.get("function_call"))
    is_user = (name == user if name is not None else role == "user") and not calls and not legacy
    if role == "system":
        return [system_message(content)]
    if is_user:
        return [user_message(content)] if content not in (None, "") else []
    events = [agent_message(content, agent_name=name)] if content not in (None, "", []) else []
    for call in calls:
        function = mapping(call.get("function"))
        made = tool_call(text(function.get("name")), function.get("arguments"), call.get("id"))
        events.append({**made, "agent_name": name} if name else made)
    if legacy:
        events.append(tool_call(text(legacy.get("name")), legacy.get("arguments"), agent_name=name))
    return events


def _old_result(content: Any, call_id: Any, tool: str | None = None) -> EventFields:
    """Read a result: a failure has no other mark than how its text begins."""
    read = content_of(content).value
    if isinstance(read, str) and read.startswith("Error:"):
        return tool_result(None, call_id, tool=tool, error=read)
    return tool_result(content, call_id, tool=tool)


def _old_cost(cost: Mapping[str, Any]) -> list[EventFields]:
    """Read tokens and cost, which are those of the whole chat, by model."""
    usage = mapping(cost.get("usage_including_cached_inference"))
    events = []
    for model, amounts in usage.items():
        stated = mapping(amounts)
        tokens = usage_of(
            input_tokens=stated.get("prompt_tokens"), output_tokens=stated.get("completion_tokens")
        )
        if tokens:
            price = stated.get("cost")
            events.append(event("agent", "model_call", model=model, usage=tokens, cost_usd=price))
    return events

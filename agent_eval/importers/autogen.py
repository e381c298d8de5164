"""Exports of AutoGen: results, streams and saved states of 0.4 and later, chat histories of 0.2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Dialogue, Message, message_of
from agent_eval.importers.events import EventFields, items, mapping, text, usage_in
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.messages import MessageReader, mark_errors
from agent_eval.importers.records import Record

_USERS = frozenset({"user", "user_proxy", "userproxy", "human", "human_user", "admin"})
"""Names that agents which speak for the user have, if none is set."""
_STATES = frozenset({"AssistantAgentState", "TeamState", "ChatAgentContainerState"})
_SPOKEN = ("TextMessage", "StopMessage", "MultiModalMessage", "StructuredMessage", "ToolCallSummaryMessage")
"""Messages; a summary's calls and results repeat those before it, its content is what the agent answers."""
_SAYS_NOTHING = ("UserInputRequestedEvent", "ModelClientStreamingChunkEvent", "SelectSpeakerEvent")


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
        first = items(fields.get("messages"))[:20]
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
            time = None if variant == "result" else make.seconds_of(record.value.get("created_at"))
            return Link(ids=(f"file:{record.source}",), time=time), payload
        return ALONE, payload

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        dialogue, about = Dialogue(), dict[str, Any]()
        for part in parts:
            variant, value = part.payload["variant"], part.payload["value"]
            reader = MessageReader(part.place, diagnostics)
            if variant.startswith("0.2"):
                return [_old_conversation(variant, value, reader)]
            if variant == "state":
                return [_of_state(mapping(value), reader)]
            messages = items(value.get("messages")) if variant == "result" else [value]
            if variant == "result" and text(value.get("stop_reason")):
                about["stop_reason"] = value["stop_reason"]
            _add(dialogue, [_message(mapping(each), reader) for each in messages])
        return [Conversation(dialogue.events, metadata=about)]


def _add(dialogue: Dialogue, messages: Sequence[Message]) -> None:
    """Add messages: the result at the end of a stream has all of them again."""
    if len(messages) > 1 and any(message.id is None for message in messages):
        dialogue.add_history(messages)
    else:
        for message in messages:
            dialogue.add(message)


def _is_message(fields: Mapping[str, Any]) -> bool:
    has_content = "content" in fields or "target" in fields
    return "source" in fields and _kind_of(fields).endswith(("Message", "Event")) and has_content


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


def _message(fields: Mapping[str, Any], reader: MessageReader) -> Message:
    kind, source, content = _kind_of(fields), text(fields.get("source")), fields.get("content")
    events: list[EventFields] = []
    if kind in _SPOKEN:
        parts = [_part(part) for part in content] if isinstance(content, list) else content
        role = "user" if str(source).lower() in _USERS else "agent"
        events = [make.user_message(parts) if role == "user" else make.agent_message(parts)]
    elif kind == "ToolCallRequestEvent":
        events = reader.events({"role": "assistant", "tool_calls": content}, "content")
    elif kind == "ToolCallExecutionEvent":
        events = reader.blocks(content, "tool", "content")
    elif kind == "CodeGenerationEvent":  # code that a model wrote to be run: a call, whose result is the next
        events = [make.tool_call("code_executor", block) for block in items(fields.get("code_blocks"))]
    elif kind == "CodeExecutionEvent":
        result = mapping(fields.get("result"))
        code = result.get("exit_code")
        error = {"exit_code": code} if isinstance(code, int) and code != 0 else None
        events = [make.tool_result(result.get("output"), tool="code_executor", error=error)]
    elif kind == "HandoffMessage":
        events = [make.event("agent", "handoff", output=fields.get("target"))]
    elif kind == "ThoughtEvent":
        events = [make.reasoning(content)]
    elif kind == "MemoryQueryEvent":
        events = [make.event("agent", "state", output={"memory": content})]
    elif kind not in _SAYS_NOTHING:
        reader.diagnostics.unknown(reader.place, f"message of type {kind!r}"[:200])
    make.mark(events, agent=source, ts=make.timestamp_of(fields.get("created_at")))
    if events and (tokens := usage_in(fields.get("models_usage"))):
        events[-1]["usage"] = tokens
    return message_of(events, text(fields.get("id")))


def _part(part: Any) -> Any:
    if isinstance(part, dict) and "data" in part and "type" not in part:
        return {"type": "image", "data": part["data"]}
    return {"type": "text", "text": part} if isinstance(part, str) else part


def _of_state(state: Mapping[str, Any], reader: MessageReader) -> Conversation:
    """Read a saved state: the thread of the team, if it has one, else what each agent remembers."""
    dialogue = Dialogue()
    for thread in _values_of(state, "message_thread"):
        _add(dialogue, [_message(mapping(each), reader) for each in items(thread)])
    calls = {fields.get("call_id") for fields in dialogue.events}
    has_thread = any(fields["type"] == "message" for fields in dialogue.events)
    for name, context in _contexts(state, None):
        messages = [_context_message(mapping(each), name, reader) for each in items(context.get("messages"))]
        if has_thread:
            # A thread has what agents said to each other; the calls are in what each remembers.
            messages = [
                [each for each in made if each["type"] != "message" and each.get("call_id") not in calls]
                for made in messages
            ]
        dialogue.add_history([message_of(made) for made in messages])
    return Conversation(dialogue.events)


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


def _context_message(
    fields: Mapping[str, Any], agent: str | None, reader: MessageReader
) -> list[EventFields]:
    """Read a message as models get it: `UserMessage`, `AssistantMessage`, ..."""
    kind, content = fields.get("type"), fields.get("content")
    source = text(fields.get("source")) or agent
    if kind == "UserMessage":
        if str(source).lower() not in _USERS:
            return []  # what another agent said, which that one remembers as its own
        return [make.user_message([_part(part) for part in items(content)] or content)]
    if kind == "AssistantMessage" and isinstance(content, list):
        fields = {"type": kind, "tool_calls": content, "thought": fields.get("thought")}
    events = reader.events({name: fields[name] for name in fields if name != "source"}, "messages")
    make.mark(events, agent=source)
    return events


def _old_conversation(variant: str, value: Any, reader: MessageReader) -> Conversation:
    if variant == "0.2 views":
        dialogue = Dialogue()
        for history in value.values():
            dialogue.add_history([message_of(_old_events(history, reader))])
        return Conversation(dialogue.events)
    history = value if isinstance(value, list) else items(value.get("chat_history"))
    events = _old_events(history, reader)
    about: dict[str, Any] = {}
    if isinstance(value, dict):
        about = {name: value[name] for name in ("summary", "chat_id", "human_input") if value.get(name)}
        # Tokens and cost are those of the whole chat, by model.
        usage = mapping(mapping(value.get("cost")).get("usage_including_cached_inference"))
        for model, amounts in usage.items():
            if tokens := usage_in(amounts):
                cost = mapping(amounts).get("cost")
                events.append(make.event("agent", "model_call", model=model, usage=tokens, cost_usd=cost))
    return Conversation(events, metadata=about)


def _old_events(history: Sequence[Any], reader: MessageReader) -> list[EventFields]:
    messages = [mapping(message) for message in history]
    # Who began the chat speaks for the user, unless another has a name that is plainly the user's.
    speakers = [name for message in messages if (name := text(message.get("name")))]
    user = next((name for name in speakers if name.lower() in _USERS), next(iter(speakers), None))
    events: list[EventFields] = []
    for number, message in enumerate(messages):
        name, role = text(message.get("name")), message.get("role")
        if responses := items(message.get("tool_responses")):  # the content repeats them, joined
            results = [{"type": "tool_result", **mapping(each)} for each in responses]
            events += reader.blocks(results, "tool", "")
            continue
        is_agent, spoken = False, dict(message)
        if role not in ("tool", "function", "system"):
            acts = bool(message.get("tool_calls") or message.get("function_call"))
            is_agent = acts or not (name == user if name is not None else role == "user")
            spoken["role"] = "assistant" if is_agent else "user"
            spoken.pop("name", None)
        made = reader.events(spoken, f"chat_history[{number}]")
        for fields in made if is_agent and name else ():
            fields["agent_name"] = name
        events += made
    mark_errors(events, "Error:")
    return events

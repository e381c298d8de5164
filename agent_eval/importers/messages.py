"""Messages of any dialect as events: text, thoughts, calls and results in blocks, parts or contents.

Frameworks write the same message in their own words; `vocabulary` has them all. A format of such messages
only says by which words it is recognised, and where its list is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from agent_eval.importers.content import part_of
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import message_of
from agent_eval.importers.dialogue_format import DialogueFormat, Turn
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    items,
    mapping,
    reasoning,
    system_message,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.exchange import exchange_of
from agent_eval.importers.facts import conversation_of
from agent_eval.importers.format import Match
from agent_eval.importers.records import Record
from agent_eval.importers.vocabulary import (
    AGENTS,
    ARGUMENTS,
    CALL_IDS,
    CALLS_INSIDE,
    IDS,
    KINDS,
    NAMES,
    PAYLOADS,
    RESULTS_INSIDE,
    TYPED_BY_TOOL,
    kind_of,
)

_CONTENTS = ("parts", "blocks", "contents", "content", "_content")
_ROLES = ("role", "_role")
_SAYS_NOTHING = frozenset({"stepstart", "stepfinish", "stepend", "sourceurl", "sourcedocument", "usage"})
"""Kinds of blocks that hold nothing that was said or done; usage is read apart."""
_RETRY = "retryprompt"
"""What a model is told to do again: with the name of a tool it is the result of a call that failed."""
_OF_CALLS = ("tool_calls", "toolCalls", "toolInvocations")
_OF_USAGE: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("input_tokens", "inputTokens", "prompt_tokens", "promptTokens", "input_token_count"),
    "output_tokens": (
        *("output_tokens", "outputTokens", "completion_tokens", "completionTokens", "output_token_count"),
    ),
    "cached": ("cache_read_tokens", "cacheReadInputTokens", "cachedInputTokens", "cached_tokens"),
    "cache_write": ("cache_write_tokens", "cacheWriteInputTokens"),
    "reasoning": ("reasoning_tokens", "reasoningTokens"),
}


class MessageReader:
    """Reads messages in order; what of one it does not know becomes a diagnostic."""

    def __init__(self, place: str, diagnostics: Diagnostics) -> None:
        self._place, self._diagnostics = place, diagnostics

    def read(self, message: Any, field: str) -> list[EventFields]:
        """Return what happens in one message. `field` is its place in the record."""
        fields = mapping(message)
        role = next((fields[name] for name in _ROLES if isinstance(fields.get(name), str)), None)
        role = "agent" if role in AGENTS or fields.get("kind") == "response" else role
        content = next((fields[name] for name in _CONTENTS if fields.get(name) is not None), None)
        events = list(self._content(fields, role, content, field))
        listed = next((name for name in _OF_CALLS if isinstance(fields.get(name), list)), None)
        if listed is not None and not any(made["type"] == "tool_call" for made in events):
            for call in fields[listed]:
                events += self._block(mapping(call), is_call=True)
        self._add_facts(fields, events)
        return events

    def _content(
        self, fields: Mapping[str, Any], role: str | None, content: Any, field: str
    ) -> Iterator[EventFields]:
        if role in ("tool", "function") and not _holds_results(content):
            more = mapping(fields.get("additional_kwargs"))
            call_id = _first(fields, CALL_IDS) or text(more.get("tool_call_id")) or text(fields.get("id"))
            spoken = _text_of(content)
            yield tool_result(content if spoken is None else spoken, call_id, tool=text(fields.get("name")))
            return
        spoken_parts: list[dict[str, Any]] = []
        speaker = role
        for number, block in enumerate(content if isinstance(content, list) else [content]):
            spoken_by = _role_of_part(block) or role
            part = _spoken(block)
            if spoken_parts and (part is None or spoken_by != speaker):
                yield from self._message(speaker, spoken_parts, field)
                spoken_parts = []
            if part is not None:
                speaker = spoken_by
                spoken_parts.append(part)
            elif block is not None:
                yield from self._block_or_loss(mapping(block), f"{field}[{number}]")
        yield from self._message(speaker, spoken_parts, field)

    def _message(self, role: str | None, parts: list[dict[str, Any]], field: str) -> Iterator[EventFields]:
        if not parts:
            return
        spoken_parts: Any = parts
        if all(part["type"] == "text" for part in parts):
            spoken_parts = "".join(part["text"] for part in parts)
            if not spoken_parts:
                return
        make = _SPEAKERS.get(role or "")
        if make is None:
            self._diagnostics.lost(self._place, field, f"has the role {role!r}, which is none of this format")
        else:
            yield make(spoken_parts)

    def _block_or_loss(self, block: Mapping[str, Any], field: str) -> list[EventFields]:
        events = self._block(block)
        kinds = {kind_of(block[name]).word for name in KINDS if isinstance(block.get(name), str)}
        if not events and _SAYS_NOTHING.isdisjoint(kinds):
            named = next(iter(sorted(kinds)), None) or ", ".join(sorted(block)[:4]) or "nothing"
            self._diagnostics.lost(self._place, field, f"is of the kind {named}, which is not known")
        return events

    def _block(self, block: Mapping[str, Any], *, is_call: bool = False) -> list[EventFields]:
        """Read a call, a result, both in one, or a thought."""
        kinds = [kind_of(block[name]) for name in KINDS if isinstance(block.get(name), str)]
        if any(kind.word in ("reasoning", "thinking", "reasoningcontent") for kind in kinds) or (
            "reasoningContent" in block
        ):
            return [reasoning(_thought(block))]
        typed = TYPED_BY_TOOL.fullmatch(str(block.get("type"))) if "toolCallId" in block else None
        inside = next((name for name in CALLS_INSIDE if isinstance(block.get(name), dict)), None)
        answered = next((name for name in RESULTS_INSIDE if isinstance(block.get(name), dict)), None)
        events: list[EventFields] = []
        call = block if inside is None else block[inside]
        call_id = _first(block, IDS) or _first(call, IDS)
        is_result = answered is not None or any(kind.is_result or kind.word == _RETRY for kind in kinds)
        is_call = is_call or inside is not None or typed is not None or any(kind.is_call for kind in kinds)
        if is_call and not is_result:
            name = typed[1] if typed is not None else _first(call, NAMES)
            arguments = next((call[word] for word in ARGUMENTS if word in call), None)
            events.append(tool_call(name, arguments, call_id))
            if not any(word in call for word in ("output", "result", "errorText")):
                return events
        if is_result or events:
            result = block[answered] if answered is not None else call
            origin = mapping(result.get("origin"))
            call_id = _first(result, CALL_IDS) or text(origin.get("id")) or call_id
            output, error = _outcome(result)
            tool = None if events else _first(result, NAMES) or _first(origin, NAMES)
            events.append(tool_result(output, call_id, tool=tool, error=error))
        return events

    def _add_facts(self, fields: Mapping[str, Any], events: list[EventFields]) -> None:
        """Give usage, model and time of a message to its last event of the agent."""
        last = next((made for made in reversed(events) if made["actor"] == "agent"), None)
        moment = timestamp_of(fields.get("timestamp") or fields.get("createdAt"))
        for made in events if moment is not None else ():
            made.setdefault("ts", moment)
        if last is None:
            return
        about = mapping(fields.get("meta") or fields.get("metadata"))
        blocks = [
            block["usage_details"]
            for block in items(fields.get("contents"))
            if "usage_details" in mapping(block)
        ]
        for stated in (fields.get("usage"), about.get("usage"), *blocks):
            usage = usage_in(stated)
            if usage is not None:
                last.setdefault("usage", usage)
        model = text(fields.get("model_name")) or text(about.get("model"))
        if model is not None:
            last.setdefault("model", model)
        reason = text(fields.get("finish_reason")) or text(about.get("finish_reason"))
        if reason is not None:
            last.setdefault("stop_reason", reason)


_SPEAKERS: dict[str, Callable[[Any], EventFields]] = {
    "agent": agent_message,
    **dict.fromkeys(("user", "human"), user_message),
    **dict.fromkeys(("system", "developer"), system_message),
}
_ROLES_OF_PARTS = {"systemprompt": "system", "userprompt": "user", "retryprompt": "user"}


def _role_of_part(block: Any) -> str | None:
    kind = block.get("part_kind") if isinstance(block, dict) else None
    return _ROLES_OF_PARTS.get(kind_of(kind).word) if isinstance(kind, str) else None


def _spoken(block: Any) -> dict[str, Any] | None:
    """Return a block of text, an image or a file as the fields of a content part; None for anything else."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return None
    word = next((kind_of(block[name]).word for name in KINDS if isinstance(block.get(name), str)), "")
    if word in ("text", "systemprompt", "userprompt", "") or (
        word == "retryprompt" and not block.get("tool_name")
    ):
        for name in ("text", "content"):
            if isinstance(block.get(name), str) and (word or set(block) <= {"text", "type"}):
                return {"type": "text", "text": block[name]}
            if isinstance(block.get(name), list) and word == "userprompt":
                return {
                    "type": "text",
                    "text": "".join(part for part in block[name] if isinstance(part, str)),
                }
    return part_of(block) if word else None


def _thought(block: Mapping[str, Any]) -> Any:
    inner = mapping(block.get("reasoningContent", block))
    inner = mapping(inner.get("reasoningText", inner))
    return next(
        (inner[name] for name in ("text", "content", "thinking") if isinstance(inner.get(name), str)), None
    )


def _holds_results(content: Any) -> bool:
    for block in items(content):
        kinds = [kind_of(block[name]) for name in KINDS if isinstance(mapping(block).get(name), str)]
        if any(kind.is_result for kind in kinds) or not RESULTS_INSIDE.isdisjoint(mapping(block)):
            return True
    return False


def _text_of(content: Any) -> str | None:
    """Return the text of content; None where it holds anything else."""
    if isinstance(content, str):
        return content
    parts = [_spoken(block) for block in items(content)]
    if not parts or any(part is None or part["type"] != "text" for part in parts):
        return None
    return "".join(part["text"] for part in parts if part is not None)


def _outcome(result: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what a result holds and its error, of which one is None."""
    output = next((result[name] for name in PAYLOADS if result.get(name) is not None), None)
    kind = ""
    if isinstance(output, dict) and {"type", "value"} >= set(output) and isinstance(output.get("type"), str):
        kind, output = output["type"], output.get("value")
    if (
        isinstance(output, list)
        and output
        and all(isinstance(block, dict) and set(block) in ({"text"}, {"json"}) for block in output)
    ):
        values = [value for block in output for value in block.values()]
        output = values[0] if len(values) == 1 else values
    failed = (
        any(result.get(name) is True for name in ("is_error", "isError", "error"))
        or result.get("status") in ("error", "failed")
        or result.get("outcome") in ("failed", "denied", "retried")
        or result.get("state") in ("output-error", "output-denied")
        or kind.startswith("error")
        or kind == "execution-denied"
        or kind_of(str(result.get("part_kind", ""))).word == _RETRY
    )
    stated = next(
        (result[name] for name in ("errorText", "exception", "error") if text(result.get(name))), None
    )
    if stated is not None or failed:
        return None, stated if stated is not None and output in (None, stated) else output or stated or True
    return output, None


def usage_in(stated: Any) -> dict[str, Any] | None:
    """Return the tokens that an answer states, whatever its API calls them; None if it states none."""
    fields = mapping(stated)
    return usage_of(
        **{
            name: next((fields[word] for word in words if word in fields), None)
            for name, words in _OF_USAGE.items()
        }
    )


def _first(fields: Mapping[str, Any], names: Iterable[str]) -> str | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), str) and fields[name]), None)


class MessageFormat(DialogueFormat):
    """A format whose records are lists of messages, bare or in a field."""

    lists: ClassVar[tuple[str, ...]] = ("messages",)
    """Fields that may hold the list."""

    @classmethod
    def is_own(cls, message: Mapping[str, Any]) -> bool:
        """Whether a message has what only this format has."""
        raise NotImplementedError

    @override
    def detect(self, value: Any) -> Match | None:
        if exchange_of(value) is not None:
            return None  # a request with its answer is a provider's
        lists = self._lists_in(value)
        if any(self.is_own(message) for _, messages in lists for message in map(mapping, messages[:40])):
            return Match(0.97, "messages")
        return None

    def _lists_in(self, value: Any) -> list[tuple[str, list[Any]]]:
        if isinstance(value, list):
            return [("", value)]
        fields = mapping(value)
        own = [(name, fields[name]) for name in self.lists if isinstance(fields.get(name), list)]
        if own:
            return own
        # A file of named conversations.
        inner = [(name, self._lists_in(part)) for name, part in fields.items() if isinstance(part, dict)]
        return [(f"{name}.{path}", lists) for name, lists in inner[:100] for path, lists in lists]

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        reader = MessageReader(record.place, diagnostics)
        turns = []
        for name, messages in self._lists_in(record.value):
            history = [
                message_of(events, text(mapping(message).get("id")))
                for number, message in enumerate(messages)
                if (events := reader.read(message, f"{name}[{number}]"))
            ]
            turn = Turn(history, id=conversation_of(record.value, *messages[:1]))
            named = name.rpartition(".")[0]
            turn.id = turn.id or named or None
            turns.append(turn)
        return turns


def _parts(message: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    return (part for part in items(message.get(name)) if isinstance(part, dict))


class AiSdk(MessageFormat):
    """Messages of the Vercel AI SDK: of the model, and of its user interface."""

    name = "ai_sdk"

    @override
    @classmethod
    def is_own(cls, message: Mapping[str, Any]) -> bool:
        if "toolInvocations" in message or any(
            part.get("type") in ("tool-call", "tool-result") and "toolCallId" in part
            for part in _parts(message, "content")
        ):
            return True
        return any(isinstance(part.get("type"), str) for part in _parts(message, "parts"))


class PydanticAI(MessageFormat):
    """`all_messages_json` of pydantic-ai: requests and responses of parts."""

    name = "pydantic_ai"

    @override
    @classmethod
    def is_own(cls, message: Mapping[str, Any]) -> bool:
        return message.get("kind") in ("request", "response") and any(
            "part_kind" in part for part in _parts(message, "parts")
        )


class Strands(MessageFormat):
    """Messages of Strands, which are those of Bedrock's Converse."""

    name = "strands"

    @override
    @classmethod
    def is_own(cls, message: Mapping[str, Any]) -> bool:
        return any("toolUse" in part or "toolResult" in part for part in _parts(message, "content"))


class Haystack(MessageFormat):
    """Messages of Haystack."""

    name = "haystack"

    @override
    @classmethod
    def is_own(cls, message: Mapping[str, Any]) -> bool:
        return any(
            "tool_call" in part or "tool_call_result" in part
            for name in ("content", "_content")
            for part in _parts(message, name)
        )


class LlamaIndex(MessageFormat):
    """Chat messages of LlamaIndex."""

    name = "llama_index"

    @override
    @classmethod
    def is_own(cls, message: Mapping[str, Any]) -> bool:
        return any("block_type" in part for part in _parts(message, "blocks"))


class AgentFramework(MessageFormat):
    """Messages of Microsoft's Agent Framework, in Python and .NET."""

    name = "agent_framework"

    @override
    @classmethod
    def is_own(cls, message: Mapping[str, Any]) -> bool:
        return "role" in message and any(
            isinstance(part.get("type", part.get("$type")), str) for part in _parts(message, "contents")
        )

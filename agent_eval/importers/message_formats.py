"""Formats whose records are lists of messages: where the list is, and what only their messages have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import DialogueFormat, Turn, message_of
from agent_eval.importers.events import items, mapping, text, usage_in
from agent_eval.importers.format import Match
from agent_eval.importers.messages import MessageReader, mark_errors
from agent_eval.importers.openai import is_chat_messages
from agent_eval.importers.provider_format import CONVERSATION_NAMES, conversation_of, exchange_of
from agent_eval.importers.records import Record
from agent_eval.importers.streams import (
    EventStream,
    data_stream_of,
    first_event,
    is_data_stream,
    is_event_stream,
    streams_in,
    ui_message_of,
)

Lists = list[tuple[str, list[Any], Mapping[str, Any]]]
"""Lists of messages, each with its place in the record, and with what stands beside it there."""


@dataclass(frozen=True)
class MessageFormat(DialogueFormat):
    """A format of messages, bare or in a field, or in several fields of a file of named conversations.

    Attributes:
        is_own: How sure it is that a list of messages is of this format; 0 for not.
        failed: How the text of a result begins that is an error, where the format has no other mark.
    """

    name: str
    is_own: Callable[[list[Mapping[str, Any]]], float]
    failed: str | None = None

    @override
    def detect(self, value: Any) -> Match | None:
        if exchange_of(value) is not None:
            return None  # a request with its answer is a provider's
        lists = [[mapping(each) for each in messages[:40]] for _, messages, _ in self.lists(value)]
        sure = max((self.is_own(messages) for messages in lists), default=0)
        return Match(sure, "messages") if sure else None

    def lists(self, value: Any) -> Lists:
        """Return the lists of messages in a record."""
        if isinstance(value, list):
            return [("", value, {})]
        fields = mapping(value)
        if isinstance(fields.get("messages"), list):
            return [("messages", fields["messages"], _without(fields, "messages"))]
        inner = [(name, self.lists(part)) for name, part in fields.items() if isinstance(part, dict)]
        return [
            (f"{name}.{path}", messages, beside)
            for name, lists in inner[:100]
            for path, messages, beside in lists
        ]

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        reader = MessageReader(record.place, diagnostics)
        turns, lists = [], self.lists(record.value)
        if all("." in name for name, _, _ in lists):  # named conversations: what is none of them is not read
            for name, part in mapping(record.value).items():
                if part not in (None, "", [], {}) and not (isinstance(part, dict) and self.lists(part)):
                    diagnostics.unknown(record.place, name)
        for name, messages, beside in lists:
            history = [message for message in reader.messages(messages, name) if message.events]
            if self.failed is not None:
                mark_errors((fields for message in history for fields in message.events), self.failed)
            turn = Turn(history, id=conversation_of(record.value, *messages[:1]))
            turn.id = turn.id or name.rpartition(".")[0] or None
            _add_document(turn, beside)
            turns.append(turn)
        return turns


def _without(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def _add_document(turn: Turn, fields: Mapping[str, Any]) -> None:
    """Add what a document says beside its messages; of tokens what its messages do not state."""
    total = next((known for name in _TOTALS if (known := usage_in(fields.get(name)))), {})
    made = [event.get("usage", {}) for message in turn.history for event in message.events]
    rest = {name: number - sum(each.get(name, 0) for each in made) for name, number in total.items()}
    if rest and all(number >= 0 for number in rest.values()) and any(rest.values()):
        turn.history.append(message_of([make.event("agent", "model_call", usage=rest)]))
    if (error := fields.get("error")) not in (None, ""):
        turn.history.append(message_of([make.error_event(error)]))
    others = {name: value for name, value in fields.items() if name not in _READ and value not in (None, {})}
    turn.metadata |= {"record": others} if others else {}


_TOTALS = ("totalUsage", "total_usage", "usage_details", "usage")
_READ = frozenset(
    {*_TOTALS, "error", *CONVERSATION_NAMES, "type", "text", "finishReason", "responseMessages"}
)
"""Fields of a document that are read, or that repeat its messages."""


class AiSdk(MessageFormat):
    """Messages of the Vercel AI SDK, of the model and of its user interface; results, streams of answers."""

    @override
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        for number, stream in enumerate(_ui_streams(record.value) if isinstance(record.value, str) else ()):
            ui_message_of(stream)
            for problem in stream.broken:
                diagnostics.lost(record.place, f"stream[{number}]", problem)
        return super().turns(record, diagnostics)

    @override
    def lists(self, value: Any) -> Lists:
        if isinstance(value, str):
            answers = [ui_message_of(stream) for stream in _ui_streams(value)]
            return [("stream", [message], beside) for message, beside in answers]
        steps = [mapping(step) for step in items(mapping(value).get("steps"))]
        if steps and all(isinstance(step.get("content"), list) and "finishReason" in step for step in steps):
            spoken = [{**step, "role": "assistant"} for step in steps]
            return [("steps", spoken, _without(value, "steps"))]
        return super().lists(value)


def _ui_streams(value: str) -> list[EventStream]:
    """Return the streams to the user interface that a text is, in whichever version; none for other texts."""
    if is_data_stream(value):
        return [data_stream_of(value)]
    first = mapping(first_event(value) if is_event_stream(value) else None)
    is_own = str(first.get("type")) in ("start", "start-step", "text-start", "tool-input-start")
    return list(streams_in(value)) if is_own else []


def _blocks(messages: list[Mapping[str, Any]], *names: str) -> Iterator[Mapping[str, Any]]:
    """Yield the blocks that messages have in any of some fields."""
    for message in messages:
        for name in names:
            yield from (block for block in items(message.get(name)) if isinstance(block, dict))


def _of_ai_sdk(messages: list[Mapping[str, Any]]) -> float:
    typed = any(isinstance(part.get("type"), str) for part in _blocks(messages, "parts"))
    kinds = ("tool-call", "tool-result", "tool-error")
    acted = any(part.get("type") in kinds and "toolCallId" in part for part in _blocks(messages, "content"))
    finished = any("finishReason" in message and "content" in message for message in messages)
    return 0.97 if typed or acted or finished or any("toolInvocations" in each for each in messages) else 0


def _of_pydantic_ai(messages: list[Mapping[str, Any]]) -> float:
    kinds = any(message.get("kind") in ("request", "response") for message in messages)
    return 0.97 if kinds and any("part_kind" in part for part in _blocks(messages, "parts")) else 0


def _of_agent_framework(messages: list[Mapping[str, Any]]) -> float:
    kinds = [part.get("type", part.get("$type")) for part in _blocks(messages, "contents", "Contents")]
    return 0.97 if any(isinstance(kind, str) for kind in kinds) else 0


def _of_semantic_kernel(messages: list[Mapping[str, Any]]) -> float:
    if not messages:
        return 0
    if all(each.get("content_type") == "message" for each in messages):
        return 0.95
    if all("Role" in each and ("Items" in each or "Content" in each) for each in messages):
        return 0.95
    calls = [mapping(call.get("function")) for call in _blocks(messages, "tool_calls")]
    names = [text(call.get("name")) or "" for call in calls]
    return 0.7 if names and all("-" in name for name in names) and is_chat_messages(messages) else 0


def _with_blocks(
    *marks: str, fields: Sequence[str] = ("content",)
) -> Callable[[list[Mapping[str, Any]]], float]:
    """Return the test for messages that have a block with any of some fields."""
    return lambda messages: (
        0.97 if any(mark in block for block in _blocks(messages, *fields) for mark in marks) else 0
    )


AI_SDK = AiSdk("ai_sdk", _of_ai_sdk)
PYDANTIC_AI = MessageFormat("pydantic_ai", _of_pydantic_ai)
STRANDS = MessageFormat("strands", _with_blocks("toolUse", "toolResult"))
HAYSTACK = MessageFormat(
    "haystack", _with_blocks("tool_call", "tool_call_result", fields=("content", "_content"))
)
LLAMA_INDEX = MessageFormat("llama_index", _with_blocks("block_type", fields=("blocks",)))
AGENT_FRAMEWORK = MessageFormat("agent_framework", _of_agent_framework)
SEMANTIC_KERNEL = MessageFormat(
    "semantic_kernel", _of_semantic_kernel, "An error occurred while invoking the function"
)

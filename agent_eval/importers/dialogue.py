"""Put together a dialogue whose records repeat what came before: each message is in the trace once."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_eval.importers.events import EventFields
from agent_eval.storage.json import dumps

_IDENTIFYING = ("actor", "type", "tool", "input", "output", "parts", "error")


@dataclass(slots=True)
class Message:
    """One message as its events; `key` is equal for messages that say the same.

    The key leaves out ids, usage, reasoning and errors, which a history repeats differently or not at all. It
    is empty for a message that says nothing.

    Attributes:
        events: The events, made by `events.py`.
        key: Digest of what is said.
        id: The source's id of the message: messages with one id are parts of one message, or repeat it.

    Example:
        >>> from agent_eval.importers.events import agent_message
        >>> first = message_of([agent_message("Hello", stop_reason="stop")])
        >>> again = message_of([agent_message("Hello")])
        >>> first.key == again.key
        True
    """

    events: list[EventFields]
    key: str
    id: str | None = None

    @property
    def is_system(self) -> bool:
        """Whether this is an instruction, which a record may repeat or change."""
        return all(fields["actor"] == "system" for fields in self.events)


def message_of(events: list[EventFields], message_id: str | None = None) -> Message:
    """Make a message of its events."""
    return Message(events, key_of_events(events), message_id)


def key_of_events(events: Iterable[EventFields]) -> str:
    """Return the digest of what events say; the empty text if they say nothing."""
    content = [
        [fields.get(name) for name in _IDENTIFYING]
        for fields in events
        if fields["type"] not in _NOT_REPEATED and not _IS_SAID.isdisjoint(fields)
    ]
    return hashlib.blake2b(dumps(content), digest_size=12).hexdigest() if content else ""


_NOT_REPEATED = frozenset({"reasoning", "error"})
_IS_SAID = frozenset({"input", "output", "parts", "error"})


class Dialogue:
    """Collects messages and leaves out those that are repeated.

    Example:
        >>> from agent_eval.importers.events import agent_message, user_message
        >>> dialogue = Dialogue()
        >>> question, answer = message_of([user_message("Hello")]), message_of([agent_message("Hi!")])
        >>> dialogue.add_history([question])
        >>> dialogue.add(answer)
        >>> dialogue.add_history([question, answer, message_of([user_message("Bye")])])
        >>> [fields["actor"] for fields in dialogue.events]
        ['user', 'agent', 'user']
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._system: set[str] = set()
        self._by_id: dict[str, Message] = {}

    @property
    def events(self) -> list[EventFields]:
        """Events of all messages, in order."""
        return [fields for message in self.messages for fields in message.events]

    def add(self, message: Message) -> None:
        """Add a message that is new, unless one with its id is there: then the fuller one remains."""
        same = self._by_id.get(message.id) if message.id else None
        if same is None:
            self.messages.append(message)
            if message.id:
                self._by_id[message.id] = message
        elif _fullness(message) >= _fullness(same):
            same.events, same.key = message.events, message.key

    def add_history(self, messages: Sequence[Message]) -> None:
        """Add what is new in a history that a record repeats.

        The history may repeat the dialogue from its start, from a later point, or not at all.
        """
        history: list[Message] = []
        for message in messages:
            if message.is_system:
                self._add_system(message)
            elif message.key:
                history.append(message)
            else:
                self._add_empty(message)
        known = [message for message in self.messages if message.key and not message.is_system]
        repeated = _overlap([message.key for message in known], [message.key for message in history])
        start, count = repeated
        for older, again in zip(known[start : start + count], history[:count], strict=True):
            _adopt_ids(older, again)
        rest = Counter(message.key for message in known[start + count :]) if count else Counter()
        for message in history[count:]:
            if rest[message.key] > 0:
                rest[message.key] -= 1
            else:
                self.add(message)

    def _add_system(self, message: Message) -> None:
        if message.key and message.key not in self._system:
            self._system.add(message.key)
            self.messages.append(message)

    def _add_empty(self, message: Message) -> None:
        """Add a message that says nothing only to a dialogue that has none such: histories repeat it."""
        if message.events and not any(not known.key for known in self.messages):
            self.messages.append(message)


def _overlap(known: list[str], history: list[str]) -> tuple[int, int]:
    """Return where in `known` the history begins, and how many of its messages are there already."""
    if not known or not history:
        return 0, 0
    if known[0] == history[0]:
        return 0, _common(known, history)
    for start in range(len(known)):
        if known[start] == history[0] and known[start:] == history[: len(known) - start]:
            return start, len(known) - start
    return 0, 0


def _common(first: list[str], second: list[str]) -> int:
    for position, (one_key, other_key) in enumerate(zip(first, second, strict=False)):
        if one_key != other_key:
            return position
    return min(len(first), len(second))


def _fullness(message: Message) -> tuple[bool, int]:
    return bool(message.key), sum(len(fields) for fields in message.events)


def _adopt_ids(older: Message, again: Message) -> None:
    """Give calls and results without an id the one that the repetition has."""
    pairs = zip(_with_tools(older), _with_tools(again), strict=False)
    for event, repeated in pairs:
        if "call_id" not in event and "call_id" in repeated and event["type"] == repeated["type"]:
            event["call_id"] = repeated["call_id"]


def _with_tools(message: Message) -> list[EventFields]:
    return [fields for fields in message.events if fields["type"] in ("tool_call", "tool_result")]


def message_to_json(message: Message) -> list[Any]:
    """Return a message as JSON, to be read back by `message_from_json`."""
    return [message.events, message.key, message.id]


def message_from_json(value: Sequence[Any]) -> Message:
    """Read back what `message_to_json` wrote."""
    events, key, message_id = value
    return Message(events, key, message_id)

"""Put together a dialogue whose records repeat what came before: each message is in the trace once.

Messages are compared event by event, because a history may divide an answer otherwise than the answer does:
Responses repeats a message, its calls and its reasoning as items of a list.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields
from agent_eval.importers.format import Conversation, Format, Link, Part
from agent_eval.importers.records import Record
from agent_eval.storage.json import dumps

_NOT_REPEATED = frozenset({"reasoning", "error"})
_CONTENT = frozenset({"input", "output", "parts", "error"})


@dataclass(slots=True)
class Message:
    """One message as its events, with a key for each that is equal for events that say the same.

    A key leaves out ids, usage and stop reasons, which a history does not repeat, or not as they were. It is
    valid in this process only, and 0 for reasoning, for errors, and for an event without content.

    Messages with one `id` of the source are parts of one message, or repeat it.
    """

    events: list[EventFields]
    keys: list[int]
    id: str | None = None

    @property
    def spoken_keys(self) -> list[int]:
        """Keys of what a history would repeat: without instructions, reasoning, errors and empty events."""
        pairs = zip(self.events, self.keys, strict=True)
        return [key for fields, key in pairs if key and fields["actor"] != "system"]


def message_of(events: list[EventFields], message_id: str | None = None) -> Message:
    """Make a message of its events."""
    keys = [
        0 if fields["type"] in _NOT_REPEATED or _CONTENT.isdisjoint(fields) else _key_of(fields)
        for fields in events
    ]
    return Message(events, keys, message_id)


def _key_of(fields: EventFields) -> int:
    # Called for every event of every history, so that texts, which most values are, are not looked at.
    get = fields.get
    asked, output = get("input"), get("output")
    return hash(
        (
            fields["actor"],
            fields["type"],
            get("tool"),
            asked if asked is None or type(asked) is str else _comparable(asked),
            output if output is None or type(output) is str else _comparable(output),
            _comparable(fields["parts"]) if "parts" in fields else None,
            _comparable(fields["error"]) if "error" in fields else None,
        )
    )


def _comparable(value: Any) -> Any:
    if not isinstance(value, dict | list):
        return value
    encoded = dumps(value)
    return dumps(_without_nulls(value)) if b"null" in encoded else encoded


def _without_nulls(value: Any) -> Any:
    """Leave out null fields: clients add them, and leave them out, when they repeat a history."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


@dataclass(slots=True)
class _Unit:
    """One event of the dialogue."""

    fields: EventFields
    key: int
    message_id: str | None

    @property
    def is_spoken(self) -> bool:
        return bool(self.key) and self.fields["actor"] != "system"


class Dialogue:
    """Collects messages and leaves out those that are repeated."""

    def __init__(self) -> None:
        self._units: list[_Unit] = []
        self._system: set[int] = set()
        self._by_id: dict[str, list[_Unit]] = {}
        self._call_ids: dict[str, str] = {}

    @property
    def events(self) -> list[EventFields]:
        """Events of all messages, in order."""
        return [unit.fields for unit in self._units]

    def add(self, message: Message) -> None:
        """Add a message that is new; of one whose id is known, what is new of it.

        Of several parts of a message, only the last one that states usage keeps it.
        """
        if message.id is None:
            for unit in _units(message):
                self._append(unit)
            return
        known = self._by_id.setdefault(message.id, [])
        earlier = list(known)
        repeated = Counter(_identity(unit) for unit in known)
        for unit in _units(message):
            for older in earlier if "usage" in unit.fields else ():
                older.fields.pop("usage", None)  # the next part of the message states it again
            if repeated[_identity(unit)] > 0:
                repeated[_identity(unit)] -= 1
                older = next(old for old in known if _identity(old) == _identity(unit))
                for name, value in unit.fields.items():
                    older.fields.setdefault(name, value)  # such as usage and stop reason
                continue
            self._append(unit)
            known.append(unit)

    def add_history(self, messages: Sequence[Message]) -> None:
        """Add what is new in a history that a record repeats.

        The history may repeat the dialogue from its start, from a later point, or not at all. Reasoning in it
        is new if it directly precedes what is new.
        """
        history = [unit for message in messages for unit in _units(message)]
        spoken = [unit for unit in history if unit.is_spoken]
        known = [unit for unit in self._units if unit.is_spoken]
        start, count = _overlap([unit.key for unit in known], [unit.key for unit in spoken])
        for older, again in zip(known[start : start + count], spoken[:count], strict=True):
            # A call without an id gets the one that the repetition has; an id that it changed is remembered.
            again_id, own = again.fields.get("call_id"), older.fields.get("call_id")
            if again_id is None or again_id == own:
                continue
            if own is None:
                older.fields["call_id"] = again_id
            else:
                self._call_ids[again_id] = own
        rest = Counter(unit.key for unit in known[start + count :]) if count else Counter()
        repeated = {id(unit) for unit in spoken[:count]}
        waiting: list[_Unit] = []
        for unit in history:
            if unit.fields["actor"] == "system":
                if unit.key and unit.key not in self._system:
                    self._append(unit)
            elif not unit.is_spoken:
                waiting.append(unit)
            elif id(unit) in repeated:
                waiting.clear()
            elif rest[unit.key] > 0:
                rest[unit.key] -= 1
                waiting.clear()
            else:
                for pending in waiting:
                    self._append(pending)
                waiting.clear()
                self._append(unit)
        for pending in waiting if not count else ():
            self._append(pending)

    def _append(self, unit: _Unit) -> None:
        call_id = unit.fields.get("call_id")
        if call_id in self._call_ids:
            unit.fields["call_id"] = self._call_ids[call_id]
        if unit.fields["actor"] == "system":
            self._system.add(unit.key)
        self._units.append(unit)


def _units(message: Message) -> Iterable[_Unit]:
    return [_Unit(fields, key, message.id) for fields, key in zip(message.events, message.keys, strict=True)]


def _identity(unit: _Unit) -> int:
    return unit.key or _key_of(unit.fields)


def _overlap(known: list[int], history: list[int]) -> tuple[int, int]:
    """Return where in `known` the history begins, and how many of its events are there already."""
    if not known or not history:
        return 0, 0
    if known[0] == history[0]:
        pairs = enumerate(zip(known, history, strict=False))
        return 0, next((at for at, (old, new) in pairs if old != new), min(len(known), len(history)))
    for start in range(len(known)):
        if known[start] == history[0] and known[start:] == history[: len(known) - start]:
            return start, len(known) - start
    return 0, 0


@dataclass(slots=True)
class Turn:
    """What one record says: what came before, and the answer.

    Attributes:
        history: Messages of the request, in order.
        answer: None if the record has none.
        alternatives: Further answers to the same request (`n` above 1), which become trials.
        repeats: Whether `history` repeats the dialogue from its start, as requests to most APIs do; False if
            it has only what is new.
        ids: Ids by which records belong together, each with its kind: `response:resp_7`.
        previous: Id of the turn that this one continues.
        id: The source's id of the conversation.
        aliases: Further ids by which `--expect` may find the case.
        time: Seconds since the epoch.
        rank: 1 for an answer whose request is another record with an id in common.
        metadata: What else the record says of the conversation.
    """

    history: list[Message]
    answer: Message | None = None
    alternatives: list[Message] = field(default_factory=list)
    repeats: bool = True
    ids: tuple[str, ...] = ()
    previous: str | None = None
    id: str | None = None
    aliases: tuple[str, ...] = ()
    time: float | None = None
    rank: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    expected_output: Any = None


class DialogueFormat(Format):
    """A format whose records are single requests with their answers, or whole lists of messages.

    A record whose history is the dialogue after another record continues that one.
    """

    @abstractmethod
    def turns(self, record: Record, diagnostics: Diagnostics) -> Sequence[Turn]:
        """Read a record: one turn, or one for each conversation in it; none if it has nothing."""

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        turns = self.turns(record, diagnostics)
        link = link_of(turns[0], record.source) if len(turns) == 1 else Link()
        return link, turns

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        turns = [(part.place, _turn_of(turn)) for part in parts for turn in part.payload]
        if len(parts) > 1:
            return [_conversation(turns, diagnostics)] if turns else []
        conversations = []
        for place, turn in turns:  # each a conversation, which repeats nothing that is there already
            before = [fields for message in turn.history for fields in message.events]
            made = Conversation(
                before + (turn.answer.events if turn.answer is not None else []),
                id=turn.id,
                aliases=turn.aliases,
                expected_output=turn.expected_output,
                metadata=turn.metadata,
                trials=[[dict(fields) for fields in before] + other.events for other in turn.alternatives],
                records=[place],
            )
            conversations.append(made)
        return conversations


def _conversation(turns: Sequence[tuple[str, Turn]], diagnostics: Diagnostics) -> Conversation:
    dialogue = Dialogue()
    made = Conversation([])
    continued: set[str] = set()
    for place, turn in turns:
        if turn.previous is not None:
            if turn.previous in continued:
                reason = "is continued by another record as well: this case has both"
                diagnostics.lost(place, turn.previous, reason)
            continued.add(turn.previous)
        if turn.repeats:
            dialogue.add_history(turn.history)
        else:
            for message in turn.history:
                dialogue.add(message)
        if turn.answer is not None:
            dialogue.add(turn.answer)
        if turn.alternatives:
            diagnostics.lost(place, "choices", "has further answers, but the dialogue goes on with the first")
        made.id = made.id or turn.id
        made.aliases += turn.aliases
        made.metadata = {**made.metadata, **turn.metadata}
        if turn.expected_output is not None:
            made.expected_output = turn.expected_output
        made.records.append(place)
    made.events = dialogue.events
    return made


def link_of(turn: Turn, source: str) -> Link:
    """Link a turn by its ids and, where its history repeats the dialogue, by the dialogue's states.

    A request that failed adds nothing to its dialogue. Only a record of the same source repeats it: another
    may well ask the same for itself.
    """
    if not turn.repeats:
        return Link(ids=turn.ids, time=turn.time, rank=turn.rank)
    state, follows = 0, []
    for message in turn.history:
        for key in message.spoken_keys:
            state = hash((state, key))
            follows.append(state)
    repeated = hash((source, state))
    answer = turn.answer.spoken_keys if turn.answer is not None else []
    after = state
    for key in answer:
        after = hash((after, key))
    if turn.answer is not None and not answer:
        after = repeated
    length = len(follows)
    if follows:
        follows.append(repeated)
    return Link(turn.ids, after or None, tuple(reversed(follows)), turn.time, length, turn.rank)


def _turn_of(value: dict[str, Any]) -> Turn:
    """Read back a turn that was stored as JSON."""
    answer, sides = value["answer"], ("history", "alternatives")
    messages: dict[str, Any] = {side: [Message(**message) for message in value[side]] for side in sides}
    messages["answer"] = None if answer is None else Message(**answer)
    ids = {name: tuple(value[name]) for name in ("ids", "aliases")}
    return Turn(**{**value, **messages, **ids})

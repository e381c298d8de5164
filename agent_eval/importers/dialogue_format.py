"""Base of formats whose records are requests to a model with its answers: OpenAI, Anthropic, Gemini, ..."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Dialogue, Message
from agent_eval.importers.format import Conversation, Format, Link, Part
from agent_eval.importers.records import Record


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
        own: Id of this turn, where turns name the one that they continue.
        previous: Id of the turn that this one continues. Where two continue the same, each is a conversation.
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
    own: str | None = None
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
        if len(parts) == 1:
            place, payload = parts[0].place, parts[0].payload
            return [_single(place, _turn_of(turn)) for turn in payload]
        turns = [(part.place, _turn_of(turn)) for part in parts for turn in part.payload]
        return [_conversation(branch, diagnostics) for branch in branches_of(turns)] if turns else []


def _single(place: str, turn: Turn) -> Conversation:
    """Make a conversation of one turn: it repeats nothing that is there already."""
    before = [fields for message in turn.history for fields in message.events]
    answer = turn.answer.events if turn.answer is not None else []
    return Conversation(
        before + answer,
        id=turn.id,
        aliases=turn.aliases,
        expected_output=turn.expected_output,
        metadata=turn.metadata,
        trials=[[dict(fields) for fields in before] + other.events for other in turn.alternatives],
        records=[place],
    )


def _conversation(turns: Sequence[tuple[str, Turn]], diagnostics: Diagnostics) -> Conversation:
    dialogue = Dialogue()
    made = Conversation([])
    for place, turn in turns:
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


Placed = tuple[str, Turn]
"""A turn with the place of its record."""


def branches_of(turns: Sequence[Placed]) -> list[list[Placed]]:
    """Divide turns where two continue the same one: each end is a conversation with all that precedes it.

    An answer that several of them share states its usage only in the first.
    """
    names = [turn.own or f"turn {number}" for number, (_, turn) in enumerate(turns)]
    previous = {name: turn.previous for name, (_, turn) in zip(names, turns, strict=True) if turn.previous}
    continued = Counter(previous.values())
    if all(number < 2 for number in continued.values()):
        return [list(turns)]
    branches: list[list[Placed]] = []
    used: set[str] = set()
    for end in (name for name in dict.fromkeys(names) if name not in continued):
        path = _path_to(end, previous)
        branches.append(
            [
                (place, _without_usage(turn) if name in used else turn)
                for name, (place, turn) in zip(names, turns, strict=True)
                if name in path
            ]
        )
        used |= path
    return branches or [list(turns)]


def _path_to(end: str, previous: Mapping[str, str]) -> set[str]:
    path: set[str] = set()
    name: str | None = end
    while name is not None and name not in path:
        path.add(name)
        name = previous.get(name)
    return path


def _without_usage(turn: Turn) -> Turn:
    copied = copy.deepcopy(turn)
    for fields in copied.answer.events if copied.answer is not None else ():
        fields.pop("usage", None)
    return copied


def link_of(turn: Turn, source: str) -> Link:
    """Link a turn by its ids and, where its history repeats the dialogue, by the dialogue's states.

    A request that failed adds nothing to its dialogue. Only a record of the same source repeats it: another
    may well ask the same for itself.
    """
    if not turn.repeats:
        return Link(ids=turn.ids, time=turn.time, rank=turn.rank)
    state, follows = 0, []
    for message in turn.history:
        for fields, key in zip(message.events, message.keys, strict=True):
            if key and fields["actor"] != "system":
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

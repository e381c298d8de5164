"""Base of the formats of recorders: a session is a document, or lines that belong together.

A format is a test for its records, and a function that says what each line is: usually a message, as
`messages` reads it, in the fields of any dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, text, usage_in
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.records import Record


class Session:
    """Collects what happens in a session, line by line.

    Attributes:
        events: What happened so far.
        about: What is known of the session; `id` of it becomes the case's.
        place: The record that is read, for diagnostics.
        field: Where in the record, for diagnostics.
        memory: What a format remembers between the lines of one session.
    """

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.events: list[EventFields] = []
        self.about: dict[str, Any] = {}
        self.memory: dict[str, Any] = {}
        self.place, self.field = "", ""
        self.diagnostics = diagnostics
        self._calls: set[str] = set()

    def read(self, message: Mapping[str, Any], *, once: bool = False) -> list[EventFields]:
        """Add what happens in a message, in the fields of any dialect.

        `once` leaves out calls whose id is there already, for formats that record a call more than once.
        """
        made = MessageReader(self.place, self.diagnostics, is_whole=False).events(message, self.field)
        for call in [each for each in made if once and each["type"] == "tool_call" and "call_id" in each]:
            if call["call_id"] in self._calls:
                made = [each for each in made if each is not call]
            self._calls.add(call["call_id"])
        return self.add(*made)

    def add(self, *made: EventFields, ts: Any = None) -> list[EventFields]:
        """Add events, at a time if it is known."""
        moment = make.timestamp_of(ts)
        for fields in made if moment is not None else ():
            fields.setdefault("ts", moment)
        self.events += made
        return list(made)

    def use(self, usage: Any, *, cost: Any = None, model: str | None = None) -> None:
        """Add tokens and cost that are stated apart from any answer, unless they are zero."""
        tokens = usage_in(usage)
        if (tokens and any(tokens.values())) or (make.is_amount(cost) and cost):
            self.add(make.event("agent", "model_call", usage=tokens, model=model, cost_usd=cost or None))

    def unknown(self, what: str) -> None:
        """Report a kind of line that the format does not define."""
        self.diagnostics.unknown(self.place, what[:200])

    def remember(self, fields: Mapping[str, Any], *names: str) -> None:
        """Keep some texts of a line as what is known of the session."""
        self.about |= {name: fields[name] for name in names if text(fields.get(name))}


ReadLine = Callable[[Session, Mapping[str, Any]], object]


@dataclass(frozen=True)
class SessionFormat(Format):
    """A format of sessions.

    Attributes:
        recognise: How sure it is that a record is its own, and of which variant.
        line: Adds what a line says.
        lines: Returns the lines of a document that has all; None for a record that is a line.
        session: Names of the field of a line that has the session's id; without it, a file is a session.
        head: Keeps what a document says beside its lines.
        split: Returns the documents that a record has, each of which is a session.
        finish: Adds what is known at the end only.
    """

    name: str
    recognise: Callable[[Any], tuple[float, str] | None]
    line: ReadLine
    lines: Callable[[Any], list[Any] | None] = items
    session: tuple[str, ...] = ()
    head: ReadLine | None = None
    split: Callable[[Any], Iterable[Any]] | None = None
    finish: Callable[[Session], None] | None = None
    provider: str | None = None

    @override
    def detect(self, value: Any) -> Match | None:
        sure = self.recognise(value)
        return None if sure is None else Match(*sure)

    @override
    def prepare(self, record: Record, _diagnostics: Diagnostics) -> tuple[Link, Any]:
        value = record.value
        if (isinstance(value, list) and not record.is_line) or (
            isinstance(value, dict) and self.lines(value)
        ):
            return ALONE, value
        value = value if isinstance(value, dict) else mapping(next(iter(self.lines(value) or ()), None))
        stated = next((f"session:{value[name]}" for name in self.session if text(value.get(name))), None)
        # A file may hold several sessions, and the sub-agents of a session have files of their own.
        by_file = f"file:{record.source}" if record.is_line or record.position is not None else None
        ids = (stated or by_file,) if stated or by_file else ()
        return Link(ids=tuple(filter(None, ids)), time=make.seconds_of(value.get("timestamp"))), value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        documents: list[Sequence[Part]] = [parts]
        if self.split is not None:
            documents = [[Part(part.place, each)] for part in parts for each in self.split(part.payload)]
        made = [self._conversation(document, diagnostics) for document in documents]
        return [conversation for conversation in made if conversation is not None]

    def _conversation(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Conversation | None:
        session = Session(diagnostics)
        for part in parts:
            lines = part.payload if isinstance(part.payload, list) else self.lines(part.payload)
            session.place = part.place
            if lines and isinstance(part.payload, dict) and self.head is not None:
                self.head(session, part.payload)
            for number, line in enumerate(lines or [part.payload]):
                session.field = f"[{number}]" if lines else ""
                self.line(session, mapping(line))
        if self.finish is not None:
            self.finish(session)
        if session.memory.get("says_nothing"):
            return None
        own = text(session.about.pop("id", None))
        return Conversation(session.events, id=own, metadata=session.about)

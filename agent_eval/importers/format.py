"""The interface of an importer: recognise a record, link it with others, read conversations from them.

To add a format, write a file with a subclass of `Format` (of `dialogue.DialogueFormat`, if its records are
requests to a model and answers of it), and add a line to `catalog.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields
from agent_eval.importers.records import Record


class Match(NamedTuple):
    """How sure a format is that a record is its own, by the record's structure.

    Attributes:
        confidence: From 0 to 1. Above 0.9: a marker of this format only (`"object": "chat.completion"`).
            About 0.7: the names of several fields. Below 0.5: this could be another format.
        variant: Which kind of record of the format: `responses`, `batch`, ...
    """

    confidence: float
    variant: str


class Link(NamedTuple):
    """Which records belong to one conversation, and in which order.

    Attributes:
        ids: Records with an id in common are of one conversation: a thread, a trace, a session, a response.
        state: 64-bit key of what the dialogue is after this record, for a format whose records repeat the
            history.
        follows: The states that this record may continue, the longest first. Of several records that
            continue the same state, only the first is joined to it.
        time: Seconds since the epoch, if the record says when it was made. Records of a conversation are
            ordered by time if all have one, then by `length`, `rank`, and as they come.
        length: How much of the dialogue the record repeats.
        rank: Order of records that neither time nor length orders: 1 for an answer whose request is another
            record, so that it comes after that, wherever it is.
    """

    ids: tuple[str, ...] = ()
    state: int | None = None
    follows: tuple[int, ...] = ()
    time: float | None = None
    length: int = 0
    rank: int = 0


ALONE = Link()
"""Link of a record that is a whole conversation, or several."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a format prepared of one record, as it is read back to make conversations."""

    place: str
    payload: Any


@dataclass(slots=True)
class Conversation:
    """One conversation of an export, before it becomes a case.

    Attributes:
        events: What happened, in order, as fields of `Event` without `idx`; made by `events.py`.
        id: The source's own id; None if it has none, then the case id is derived from the content.
        aliases: Further ids by which `--expect` may find the case.
        input: What the user asked; None to take it from the user's messages.
        turns: Inputs and expectations of several turns, as fields of `CaseTurn`; None to derive them.
        expected_output: What the source says is the right answer.
        metadata: What else the source says; kept under `metadata.imported`.
        case: Further fields of the case, as JSON (`policy`, `final_output_tool`, ...); they win.
        trials: Further trials, as fields of `RecordedTrial`; their events are made by `events.py`, too.
        trial_metadata: What belongs to each further trial; keys of a case's metadata, such as verdicts.
        trace_id: The source's own trace id, 32 hexadecimal digits; None to derive one.
        records: Places of the records that it is made of.
    """

    events: list[EventFields]
    id: str | None = None
    aliases: tuple[str, ...] = ()
    input: Any = None
    turns: list[dict[str, Any]] | None = None
    expected_output: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    case: dict[str, Any] = field(default_factory=dict)
    trials: list[list[EventFields]] = field(default_factory=list)
    trial_metadata: list[dict[str, Any]] = field(default_factory=list)
    trace_id: str | None = None
    records: list[str] = field(default_factory=list)

    @property
    def all_events(self) -> list[EventFields]:
        """The events of all trials."""
        return [fields for events in (self.events, *self.trials) for fields in events]


class Format(ABC):
    """A format of exports.

    `detect` and `prepare` see each record once. `read` then gets the records of a conversation together,
    which need not be beside each other in the input. A format remembers nothing between calls.
    """

    name: str
    """As `--from` names it."""

    provider: str | None = None
    """Name of the model's provider by OpenTelemetry (`gen_ai.provider.name`); None if records say it."""

    @abstractmethod
    def detect(self, value: Any) -> Match | None:
        """Recognise a record, or an array of what is one record; None if it is of another format.

        Must be cheap, and must not raise, whatever `value` is.
        """

    def prepare(self, record: Record, _diagnostics: Diagnostics) -> tuple[Link, Any]:
        """Return the record's links, and what `read` needs of it as JSON; by default the record itself."""
        return ALONE, record.value

    @abstractmethod
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        """Make conversations of records that are linked, in their order.

        What cannot be taken over becomes a diagnostic. Malformed values are no reason to raise.
        """

"""Bring the records of a conversation together, however many records there are and wherever they are.

Records are prepared as they come and put into temporary storage; when all are there, they are linked and read
back conversation by conversation. Memory holds a few hundred bytes for each record, and one conversation.
"""

from __future__ import annotations

import math
import os
import tempfile
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby, repeat
from typing import Any

import orjson

from agent_eval.contracts.event import UNREAD, UNREAD_WHAT
from agent_eval.errors import StorageError
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, event
from agent_eval.importers.format import Conversation, Format, Link, Part
from agent_eval.importers.known_fields import report_unknown_in
from agent_eval.importers.recognise import Recogniser
from agent_eval.importers.records import Record
from agent_eval.importers.shapes import ANSWER, CALL, RESULT, STEP, Shape, digest_of, shapes_of
from agent_eval.storage.json import dumps


class Assembly:
    """Takes records, and gives the conversations that they make.

    `group_by` is the path of a field, such as `metadata.session_id`: records with the same value of it are
    one conversation, whatever their own ids say. None goes by these. `id_from` is the path of the field that
    has the id of a conversation, which is that of the first of its records with a value there.
    """

    def __init__(
        self,
        recogniser: Recogniser,
        diagnostics: Diagnostics,
        *,
        group_by: str | None = None,
        id_from: str | None = None,
    ) -> None:
        self._recogniser = recogniser
        self._diagnostics = diagnostics
        self._group_by, self._id_from = group_by, id_from
        self._formats = array("B")
        self._ends = array("Q", [0])
        try:
            self._file = tempfile.TemporaryFile(buffering=1 << 20)  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise _no_space(error) from error
        self._links = _Links()
        self._elsewhere: dict[int, str | None] = {}
        """What the first record of a format looks like more than like that."""

    def add(self, record: Record, encoded: bytes) -> None:
        """Store a record, of which `encoded` is the canonical JSON, if it is of one of the formats.

        Raises:
            InvalidInput: The record's format is ambiguous, or the import is strict and the record is lossy.
            StorageError: The temporary directory is full.
        """
        value, place = record.value, record.place
        with self._losing_what_breaks([place]):
            recognised = self._recogniser.recognise(record, self._diagnostics)
            if recognised is None:
                return
            number, match = recognised
            if number not in self._elsewhere:
                self._elsewhere[number] = self._recogniser.elsewhere(value, match.confidence)
            reader = self._recogniser.formats[number]
            report_unknown_in(value, f"{reader.name} {match.variant}", place, self._diagnostics)
            link, payload = reader.prepare(record, self._diagnostics)
            group = None
            if self._group_by is not None:
                group = _id_at(value, self._group_by)
                if group is None:
                    reason = "has no value to group by; it is a conversation of its own"
                    self._diagnostics.note(place, self._group_by, reason)
                link = Link(ids=(f"group:{group}",) if group is not None else (), time=link.time)
            named = group if self._id_from is None else _id_at(value, self._id_from)
            head = dumps([place, named, list(map(list, shapes_of(value)))])[:-1]
            data = b"%b,%b]" % (head, encoded if payload is value else dumps(payload))
            self._recogniser.count(number, match)
            try:
                self._file.write(data)
            except OSError as error:
                raise _no_space(error) from error
            self._ends.append(self._ends[-1] + len(data))
            self._formats.append(number)
            self._links.add(link)

    def groups(self) -> Iterator[list[int]]:
        """Link the records that were stored, and yield the numbers of those that belong together.

        Raises:
            StorageError: The temporary directory cannot be used.
        """
        try:
            self._file.flush()
        except OSError as error:
            raise _no_space(error) from error
        for numbers in self._links.groups():
            if len(numbers) == 1:
                yield numbers
                continue
            # Records of two formats are never one conversation, even if their ids are equal.
            by_format = sorted(numbers, key=self._formats.__getitem__)
            for _, same in groupby(by_format, key=self._formats.__getitem__):
                yield list(same)

    def read(self, numbers: Sequence[int]) -> Iterator[tuple[Format, Conversation]]:
        """Yield the conversations of one group.

        Raises:
            InvalidInput: The import is strict, and something cannot be taken over.
            StorageError: The temporary directory cannot be used.
        """
        reader = self._recogniser.formats[self._formats[numbers[0]]]
        stored = []
        try:
            for number in numbers:
                start, end = self._ends[number], self._ends[number + 1]
                stored.append(orjson.loads(os.pread(self._file.fileno(), end - start, start)))
        except OSError as error:
            raise _no_space(error) from error
        parts = [Part(place, payload) for place, _, _, payload in stored]
        named = next((named for _, named, _, _ in stored if named is not None), None)
        if named is None and self._id_from is not None:
            self._diagnostics.note(parts[0].place, self._id_from, "has no value to take as the case's id")
        conversations: list[Conversation] = []
        with self._losing_what_breaks([part.place for part in parts]):
            conversations = list(reader.read(parts, self._diagnostics))
        self._report_unread(stored, conversations, self._elsewhere.get(self._formats[numbers[0]]))
        for conversation in conversations:
            conversation.records = conversation.records or [part.place for part in parts]
            if not conversation.events and not conversation.turns:
                place = conversation.records[0]
                self._diagnostics.lost(place, "", "has no message, call or result; it makes no case")
                continue
            if named is not None:
                conversation.aliases += () if conversation.id is None else (conversation.id,)
                conversation.id = named
            yield reader, conversation

    @contextmanager
    def _losing_what_breaks(self, places: Sequence[str]) -> Iterator[None]:
        """Report the records whose reading breaks on a value that their format does not allow."""
        try:
            yield
        except (TypeError, AttributeError, LookupError, ValueError, RecursionError) as problem:
            for place in places:
                reason = f"has a value that its format does not allow ({type(problem).__name__}: {problem})"
                self._diagnostics.lost(place, "", reason[:300])

    def _report_unread(
        self, stored: Sequence[list[Any]], conversations: Sequence[Conversation], elsewhere: str | None
    ) -> None:
        """Report the calls, results and answers of the records that are in no conversation."""
        hint = "" if elsewhere is None else f"; {elsewhere}"
        events = [fields for conversation in conversations for fields in conversation.all_events]
        records = [[Shape(*shape) for shape in of_record] for _, _, of_record, _ in stored]
        places = {
            id(shape): place for (place, *_), shapes in zip(stored, records, strict=True) for shape in shapes
        }
        more = [[made.turns, made.expected_output, made.case, made.metadata] for made in conversations]
        for shape in _unread(records, events, more):
            place = places.get(id(shape), stored[0][0])
            reason = f"is {shape.described} by its shape, and was not read{hint}"
            self._diagnostics.lost(place, shape.path, reason)
            # Judges read it in the trace: a case that lost a call must never pass a judge of tools.
            where = f"{place}: {shape.path}" if shape.path else place
            sentence, what = f"{shape.described} ({where}) was not read", {UNREAD_WHAT: shape.what}
            for conversation in conversations:
                if conversation.events and (place in conversation.records or not conversation.records):
                    for trial in (conversation.events, *conversation.trials):
                        trial.append(event("environment", UNREAD, output=sentence, attributes=dict(what)))

    def close(self) -> None:
        """Remove the temporary storage."""
        self._file.close()


def _no_space(error: OSError) -> StorageError:
    return StorageError(
        f"the temporary directory cannot be used: {error}",
        remedy="Free space there, or set TMPDIR to a directory with more.",
    )


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path of keys and indices; None if there is none.

    Example:
        >>> value_at({"metadata": {"sessions": ["s1"]}}, "metadata.sessions.0")
        's1'
    """
    if isinstance(value, dict) and path in value:
        return value[path]
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _id_at(value: Any, path: str) -> str | None:
    stated = value_at(value, path)
    is_id = isinstance(stated, str | int) and not isinstance(stated, bool) and stated != ""
    return str(stated) if is_id else None


class _Links:
    """Which records are of one conversation: joined by ids, or because one continues the other's state."""

    def __init__(self) -> None:
        self._roots = array("I")
        self._times = array("d")
        self._lengths = array("I")
        self._ranks = array("B")
        self._ids: dict[int, int] = {}
        """The first record with each id, by the id's hash: texts would take more memory."""
        self._states: defaultdict[int, list[int]] = defaultdict(list)
        self._followers: list[tuple[int, int, tuple[int, ...]]] = []
        self._joined = False
        self._by_id: set[int] = set()

    def add(self, link: Link) -> None:
        number = len(self._roots)
        self._roots.append(number)
        self._times.append(math.nan if link.time is None else link.time)
        self._lengths.append(link.length)
        self._ranks.append(link.rank)
        for shared in link.ids:
            first = self._ids.setdefault(hash(shared), number)
            if first != number:
                self._by_id.add(self._join(first, number))
        if link.state is not None:
            self._states[link.state].append(number)
        if link.follows:
            own = 0 if link.state is None else link.state
            self._followers.append((number, own, tuple(link.follows)))

    def groups(self) -> Iterator[list[int]]:
        """Yield the records of each conversation in their order, by the first record."""
        # A record is joined to the one that it continues, if no record before it continues that one.
        claimed: set[int] = set()
        for number, own, follows in self._followers:
            for key in follows:
                candidates = [
                    candidate
                    for candidate in self._states.get(key, ())
                    # Of records after which the dialogue is the same, a later one continues an earlier one.
                    if candidate != number and (key != own or candidate < number)
                ]
                free = next((candidate for candidate in candidates if candidate not in claimed), None)
                if free is not None:
                    claimed.add(free)
                    self._join(free, number)
                if candidates:
                    break
        # Cases take their memory.
        self._ids.clear()
        self._states.clear()
        self._followers.clear()
        if not self._joined:
            yield from ([number] for number in range(len(self._roots)))
            return
        by_root = sorted(range(len(self._roots)), key=self._root)
        for root, same in groupby(by_root, key=self._root):
            numbers = list(same)
            times = [self._times[number] for number in numbers]
            timed = not any(map(math.isnan, times))
            lengths = [0 if root in self._by_id else self._lengths[number] for number in numbers]
            ranks = [self._ranks[number] for number in numbers]
            order = sorted(zip(times if timed else repeat(0), lengths, ranks, numbers, strict=False))
            yield [number for *_, number in order]

    def _join(self, first: int, second: int) -> int:
        """Make two records one conversation, and return the number of its first record."""
        self._joined = True
        first, second = sorted((self._root(first), self._root(second)))
        self._roots[second] = first
        if second in self._by_id:
            self._by_id.add(first)
        return first

    def _root(self, number: int) -> int:
        while self._roots[number] != number:
            self._roots[number] = self._roots[self._roots[number]]
            number = self._roots[number]
        return number


# --- What of a record no importer read: the net below every format. A call is read where an event has its id,
# its tool and its arguments; without an id, the same name and the same arguments.

_UNNAMED = "a tool without a name"
"""What a call is of whose event has no tool: an importer knew the call, and not its fields."""


def _unread(
    records: Sequence[Sequence[Shape]], events: Sequence[EventFields], more: Sequence[Any] = ()
) -> Iterator[Shape]:
    """Yield of the shapes of a conversation's records those that are in none of its events, each once.

    `more` is what else is kept, such as expected answers: what stands there is read, too.
    """
    by_what: dict[str, list[Shape]] = {CALL: [], RESULT: [], ANSWER: [], STEP: []}
    for shape in (shape for shapes in records for shape in shapes):
        by_what[shape.what].append(shape)
    calls = [fields for fields in events if fields["type"] == "tool_call"]
    yield from _unread_calls([[shape for shape in shapes if shape.what == CALL] for shapes in records], calls)
    named = {fields.get("call_id") for fields in events if fields.get("tool")}
    for fields in calls:
        if not fields.get("tool") and fields.get("call_id") not in named:
            yield Shape(CALL, "", fields.get("call_id"), _UNNAMED)
    yield from (shape._replace(what=CALL) for shape in by_what[STEP][len(calls) :])
    results = [fields for fields in events if fields["type"] == "tool_result"]
    yield from _unread_results(by_what[RESULT], results)
    yield from (shape._replace(what=RESULT) for shape in by_what[STEP][len(results) :])
    if answers := by_what[ANSWER]:
        texts = orjson.dumps([*events, *more], default=str).decode()
        starts = {answer.name for answer in answers if answer.name}
        if not any(start in texts or orjson.dumps(start).decode()[1:-1] in texts for start in starts):
            yield answers[-1]


def _unread_calls(records: Sequence[Sequence[Shape]], calls: list[EventFields]) -> Iterator[Shape]:
    by_id: dict[Any, list[EventFields]] = {}
    for fields in calls:
        by_id.setdefault(fields.get("call_id"), []).append(fields)
    names = {fields.get("tool") for fields in calls}

    @cache
    def ids_of_forms() -> dict[tuple[Any, str], set[Any]]:
        ids: dict[tuple[Any, str], set[Any]] = {}
        for fields in calls:
            ids.setdefault(_form_of(fields), set()).add(fields.get("call_id"))
        return ids

    forms: dict[str, set[tuple[Any, str]]] = {}
    """What has an id: some agents number their calls anew in each answer, or give all the same."""
    for shape in (shape for shapes in records for shape in shapes if shape.id):
        forms.setdefault(str(shape.id), set()).add((shape.name, shape.arguments))
    seen: set[Any] = set()
    for shapes in records:
        own_ids = {shape.id for shape in shapes}
        for shape in shapes:
            form = (shape.name, shape.arguments)
            if (shape.id, *form) in seen:
                continue
            seen.add((shape.id, *form))
            if shape.id and shape.id in by_id:
                is_read = _is_among(by_id[shape.id], shape, forms[shape.id])
            elif (not shape.arguments or not shape.certain) and shape.name in names:
                is_read = True
            else:  # an equal call with the id of another one of the record is that one
                is_read = bool(ids_of_forms().get(form, set()) - (own_ids if shape.id else set()))
            if not is_read:
                yield shape


def _is_among(made: list[EventFields], shape: Shape, forms: set[tuple[Any, str]]) -> bool:
    """Whether a call with a shape's id is that shape; `forms` are all that the records have with the id."""
    made = [fields for fields in made if fields.get("tool") == shape.name] or made
    if len(forms) > 1 and shape.certain and shape.arguments:
        others = forms - {(shape.name, shape.arguments)}
        made = [fields for fields in made if _form_of(fields) not in others]
    return any(
        fields.get("tool") and (fields.get("input") not in (None, {}, "") or not shape.arguments)
        for fields in made
    )


def _form_of(call: EventFields) -> tuple[Any, str]:
    return call.get("tool"), digest_of(call.get("input"))


def _unread_results(shapes: list[Shape], results: list[EventFields]) -> Iterator[Shape]:
    done = {fields.get("call_id") for fields in results} - {None}
    by_id: dict[str, Shape] = {}
    for shape in shapes:
        if shape.id:
            by_id.setdefault(shape.id, shape)
    missing = len(by_id) - len(results)
    if missing > 0:
        unseen = [shape for shape in by_id.values() if shape.id not in done]
        # Where the events name no calls, their number tells, and it is the last ones that have none.
        yield from unseen if done else unseen[-missing:]
    elif not by_id:
        # Requests repeat the results before them: without ids, equal ones count once.
        distinct = {shape.arguments: shape for shape in shapes if shape.certain}
        yield from list(distinct.values())[len(results) :]

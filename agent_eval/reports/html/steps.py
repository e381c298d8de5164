"""Align the events of two traces step by step, turn by turn, with what differs marked.

Differences are marked word by word where two texts are alike, and whole where they are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property, partial
from itertools import groupby
from typing import Any, Literal, NamedTuple

import orjson

from agent_eval.comparison.behaviour import Call, align, shared_ends
from agent_eval.contracts import Event, Trace
from agent_eval.contracts.event import ERROR, MESSAGE, TOOL_CALL, TOOL_RESULT
from agent_eval.reports.blocks import amount
from agent_eval.text.escape import many_lines, one_line
from agent_eval.text.numbers import count

NAME_LIMIT = 120
ONE_LINE = 90
"""Characters up to which JSON is written on one line."""
VALUE_LIMIT = 200_000
"""Characters of a value that are looked at."""
CELLS = 40_000
"""Most pairs of words that are compared; beyond it lines are compared, then nothing."""
ALIKE = 0.3
"""Share of characters in common from which words are marked; below it they would look like confetti."""
CONTEXT = 300
"""Characters shown before the first difference where a common beginning is left out."""

_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+|\s+|[^\w\s]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS

RowKind = Literal["same", "arguments", "added", "removed", "moved", "single", "gap"]


class StepContent:
    """What an event says: the arguments of a call, its answer or error, the text of a message."""

    def __init__(self, event: Event) -> None:
        self._event = event

    @property
    def text(self) -> str:
        """The content on one line where it is short, else with JSON indented."""
        return self.compact if len(self.compact) <= ONE_LINE else self.indented

    @cached_property
    def compact(self) -> str:
        """The content with JSON on one line; equal for equal contents."""
        return "\n".join(as_text(value, indented=False) for value in self._values)

    @cached_property
    def indented(self) -> str:
        """The content with JSON indented."""
        if all(isinstance(value, str) for value in self._values):
            return self.compact
        return "\n".join(map(as_text, self._values))

    @cached_property
    def _values(self) -> list[Any]:
        event = self._event
        if event.content_recorded is False:
            return ["(not recorded)"]
        if event.type in (TOOL_CALL, TOOL_RESULT, ERROR):
            values = [event.error, event.input if event.type == TOOL_CALL else event.output]
        else:
            values = [event.error, event.content if event.content is not None else event.input]
        return [value for value in values if value is not None]


def as_text(value: Any, *, indented: bool = True) -> str:
    """Write a value for reading: a text as it is, anything else as JSON with sorted keys."""
    if not isinstance(value, str):
        try:
            value = orjson.dumps(value, option=_INDENTED).decode() if indented else _json(value, indent=None)
        except TypeError:  # numbers of more than 64 bits, half of a surrogate pair
            value = _json(value, indent=2)
    return many_lines(value, limit=VALUE_LIMIT)


_json = partial(json.dumps, ensure_ascii=False, sort_keys=True, default=str)


class Piece(NamedTuple):
    """A part of a text, and whether the other text has something else in its place."""

    differs: bool
    text: str


def marked(before: str, now: str) -> tuple[list[Piece], list[Piece]]:
    """Divide two texts into pieces, marking those that the other text does not have."""
    if before == now:
        return _pieces([(False, before)]), _pieces([(False, now)])
    first, second = _WORD.findall(before), _WORD.findall(now)
    start, end = shared_ends(first, second)
    if (len(first) - start - end) * (len(second) - start - end) > CELLS:
        first, second = _LINE.findall(before), _LINE.findall(now)
        start, end = shared_ends(first, second)
    old, new = first[start : len(first) - end], second[start : len(second) - end]
    opcodes: list[tuple[str, int, int, int, int]] = [("replace", 0, len(old), 0, len(new))]
    if len(old) * len(new) <= CELLS:
        opcodes = [*SequenceMatcher(None, old, new, autojunk=False).get_opcodes()]
    # A space between two words that differ is no common ground.
    for place, (tag, low, high, *_) in enumerate(opcodes):
        if tag == "equal" and 0 < place < len(opcodes) - 1 and not "".join(old[low:high]).strip():
            opcodes[place] = ("replace", *opcodes[place][1:])
    shared = sum(len(word) for word in (*first[:start], *first[len(first) - end :]))
    shared += sum(len(word) for tag, low, high, _, _ in opcodes if tag == "equal" for word in old[low:high])
    if shared < ALIKE * max(len(before), len(now)):
        return _pieces([(True, before)]), _pieces([(True, now)])
    head, tail = (False, "".join(first[:start])), (False, "".join(first[len(first) - end :]))
    earlier = [(tag != "equal", "".join(old[low:high])) for tag, low, high, _, _ in opcodes]
    later = [(tag != "equal", "".join(new[low:high])) for tag, _, _, low, high in opcodes]
    return _pieces([head, *earlier, tail]), _pieces([head, *later, tail])


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a long text that is shown, with the numbers of characters left out before and after it."""

    text: str
    before: int = 0
    after: int = 0


def windows(before: str, now: str, *, limit: int) -> tuple[Window, Window]:
    """Cut two texts to a limit, so that their first difference is shown."""
    start = 0
    if max(len(before), len(now)) > limit:
        pairs = enumerate(zip(before, now, strict=False))
        first = next((place for place, (old, new) in pairs if old != new), min(len(before), len(now)))
        start = max(0, first - CONTEXT)
    return window(before, limit=limit, start=start), window(now, limit=limit, start=start)


def window(text: str, *, limit: int, start: int = 0) -> Window:
    """Cut one text to a limit."""
    return Window(text[start : start + limit], min(start, len(text)), max(0, len(text) - start - limit))


def _pieces(parts: Iterable[tuple[bool, str]]) -> list[Piece]:
    joined: list[Piece] = []
    for differs, text in parts:
        if not text:
            continue
        if joined and joined[-1].differs == differs:
            joined[-1] = Piece(differs, joined[-1].text + text)
        else:
            joined.append(Piece(differs, text))
    return joined


class StepNote(NamedTuple):
    """A verdict at the event that it rests on."""

    judge_id: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class StepCell:
    """One event of one run as it is shown.

    Attributes:
        view: The part of its content that is shown, with the characters left out before and after it.
        pieces: The same, with what differs marked; empty where there is none.
    """

    event: Event
    view: Window
    pieces: Sequence[Piece] = ()
    verdicts: Sequence[StepNote] = ()

    @property
    def title(self) -> str:
        """Who does what: `agent calls refund`."""
        event = self.event
        who = one_line(event.agent or event.actor, limit=NAME_LIMIT)
        tool = one_line(event.tool or "", limit=NAME_LIMIT)
        if event.type == TOOL_CALL:
            return f"{who} calls {tool or 'a tool'}"
        if event.type == TOOL_RESULT:
            return f"{tool or who} {'fails' if event.error is not None else 'answers'}"
        if event.type == MESSAGE:
            return f"{who} says"
        return f"{who}: {one_line(event.type, limit=NAME_LIMIT).replace('_', ' ')}"

    @property
    def facts(self) -> Iterator[str]:
        """The model, tokens, an attempt, in a few words each."""
        event = self.event
        if event.attempt is not None and event.attempt > 1:
            yield f"attempt {event.attempt}"
        if event.model:
            yield one_line(event.model, limit=NAME_LIMIT)
        if event.latency_ms is not None:
            yield amount("latency_ms", event.latency_ms)
        if event.usage is not None and event.usage.input_tokens is not None:
            yield count(round(event.usage.input_tokens), "input token")
        if event.usage is not None and event.usage.output_tokens is not None:
            yield count(round(event.usage.output_tokens), "output token")
        if event.stop is not None:
            yield f"stopped: {one_line(event.stop[1], limit=NAME_LIMIT)}"

    @property
    def tokens(self) -> float | None:
        """Tokens of input and output; None where the event records none."""
        usage = self.event.usage
        known = (
            [each for each in (usage.input_tokens, usage.output_tokens) if each is not None] if usage else []
        )
        return sum(known) if known else None

    @property
    def is_prose(self) -> bool:
        """Whether it is a whole message in words, which may be Markdown."""
        event, view = self.event, self.view
        return event.type == MESSAGE and isinstance(event.content, str) and not (view.before or view.after)


@dataclass(frozen=True, slots=True)
class StepRow:
    """A row of the aligned steps: an event of the baseline beside one of the candidate.

    A row of kind `gap` has no events: `hidden` is the number of rows that are not shown there. A row of kind
    `same` has only the candidate's event, unless a verdict rests on the baseline's.
    """

    kind: RowKind
    baseline: StepCell | None = None
    candidate: StepCell | None = None
    hidden: int = 0

    @property
    def cells(self) -> list[StepCell]:
        """The events that it shows."""
        return [cell for cell in (self.baseline, self.candidate) if cell is not None]


@dataclass(frozen=True, slots=True)
class StepTurn:
    """The rows of one turn of a conversation; `number` is None where a case has only one.

    `note` says how it compares with the baseline's turn; empty for nothing to say.
    """

    number: int | None
    rows: Sequence[StepRow]
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether a step of it is not the same in both runs."""
        return any(row.kind not in ("same", "single", "gap") for row in self.rows)


Notes = Mapping[int, Sequence[StepNote]]
"""Verdicts by the index of the event that they rest on."""


@dataclass(frozen=True, slots=True)
class TraceSide:
    """The trace of one run, and the verdicts on it."""

    trace: Trace
    notes: Notes = field(default_factory=dict)


def single_steps(side: TraceSide, *, limit: int, most: int) -> list[StepTurn]:
    """List the steps of one run: at most `most` rows, with at most `limit` characters of a value."""
    turns = [
        StepTurn(
            number,
            [
                StepRow("single", candidate=_cell(event, side.notes, StepContent(event).text, limit))
                for event in events
            ],
        )
        for number, events in _turns(side.trace).items()
    ]
    return _shortened(turns, most)


def aligned_steps(before: TraceSide, now: TraceSide, *, limit: int, most: int) -> list[StepTurn]:
    """Align the steps of two runs within each turn: `most` rows at most, `limit` characters of a value."""
    earlier, later = _turns(before.trace), _turns(now.trace)
    turns = []
    for number in sorted({*earlier, *later}):
        old, new = earlier.get(number, ()), later.get(number, ())
        turns.append(StepTurn(number, list(_aligned(old, new, before.notes, now.notes, limit))))
    return _shortened(turns, most)


def differing_first(turns: Sequence[StepTurn]) -> list[StepTurn]:
    """Move the turns before the first that differs to the end, and say so where there are any."""
    first = next((place for place, turn in enumerate(turns) if turn.differs and turn.number), 0)
    if not first:
        return list(turns)
    marked = replace(turns[first], note="the first that differs")
    earlier = [replace(turn, note="earlier, the same in both runs") for turn in turns[:first]]
    return [marked, *turns[first + 1 :], *earlier]


def _turns(trace: Trace) -> dict[int, list[Event]]:
    """Divide events by turn; number 0 holds those before the first."""
    of_turn = {turn.number: list(turn.trace.events) for turn in trace.turns}
    known = {event.idx for events in of_turn.values() for event in events}
    early = [event for event in trace.events if event.idx not in known]
    return {**({0: early} if early else {}), **of_turn}


def _aligned(
    before: Sequence[Event], now: Sequence[Event], notes_before: Notes, notes_now: Notes, limit: int
) -> Iterable[StepRow]:
    said_before, said_now = [StepContent(event) for event in before], [StepContent(event) for event in now]
    # What makes two events the same kind of step, and what makes them equal.
    calls: list[list[Call]] = [
        [
            (f"{event.type} {event.role} {event.tool or ''}", content.compact)
            for event, content in zip(events, contents, strict=True)
        ]
        for events, contents in ((before, said_before), (now, said_now))
    ]
    for step in align(*calls):
        there, here = step.baseline, step.candidate
        if there is None or here is None or step.kind != "arguments":
            yield StepRow(
                step.kind,
                None
                if there is None or (step.kind == "same" and before[there].idx not in notes_before)
                else _cell(before[there], notes_before, said_before[there].text, limit),
                None if here is None else _cell(now[here], notes_now, said_now[here].text, limit),
            )
            continue
        old, new = said_before[there], said_now[here]
        # Both on one line each, or both indented, so that only what they say differs.
        is_short = max(len(old.compact), len(new.compact)) <= ONE_LINE
        texts = (old.compact, new.compact) if is_short else (old.indented, new.indented)
        views = windows(*texts, limit=limit)
        pieces = marked(views[0].text, views[1].text)
        yield StepRow(
            step.kind,
            StepCell(before[there], views[0], pieces[0], notes_before.get(before[there].idx, ())),
            StepCell(now[here], views[1], pieces[1], notes_now.get(now[here].idx, ())),
        )


def _cell(event: Event, notes: Notes, text: str, limit: int) -> StepCell:
    view = window(text, limit=limit)
    return StepCell(event, view, [Piece(False, view.text)] if view.text else [], notes.get(event.idx, ()))


def _shortened(turns: Sequence[StepTurn], most: int) -> list[StepTurn]:
    """Leave out rows beyond a number: those with a verdict or a difference stay before others do.

    Turns are numbered only where there are several.
    """
    rows = [row for turn in turns for row in turn.rows]

    def rank(place: int) -> tuple[bool, bool, int]:
        has_verdict = any(cell.verdicts for cell in rows[place].cells)
        return not has_verdict, rows[place].kind in ("same", "single"), place

    chosen = set(sorted(range(len(rows)), key=rank)[:most])
    places = iter(range(len(rows)))
    shortened = []
    for turn in turns:
        rows_or_gaps: list[StepRow] = []
        for is_chosen, group in groupby(turn.rows, key=lambda _: next(places) in chosen):
            together = list(group)
            rows_or_gaps += together if is_chosen else [StepRow("gap", hidden=len(together))]
        shortened.append(StepTurn(turn.number, rows_or_gaps))
    if sum(turn.number != 0 for turn in turns) < 2:
        return [StepTurn(None, [row for turn in shortened for row in turn.rows])] if turns else []
    return shortened

"""Align the events of two traces step by step, turn by turn, with what differs marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

from agent_eval.comparison.behaviour import Call, align
from agent_eval.contracts import Event, Trace
from agent_eval.contracts.event import MESSAGE, TOOL_CALL, TOOL_RESULT
from agent_eval.reports.blocks import amount
from agent_eval.reports.html.content import Piece, StepContent, Window, alike_in_form, marked, window, windows
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count

NAME_LIMIT = 120

RowKind = Literal["same", "arguments", "added", "removed", "moved", "single", "gap"]


class StepNote(NamedTuple):
    """A verdict at the event that it rests on."""

    judge_id: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class StepCell:
    """One event of one run as it is shown.

    Attributes:
        number: Index of the event in its trace.
        title: Who does what: `agent calls refund`.
        pieces: The content, with what differs marked; empty where there is none.
        skipped: Characters left out before the pieces, equal in both runs.
        cut: Characters left out after them.
        facts: Short facts: the model, tokens, an attempt.
        latency: Milliseconds; None where the event records none. Likewise `tokens`, of input and output.
    """

    number: int
    title: str
    pieces: Sequence[Piece] = ()
    skipped: int = 0
    cut: int = 0
    facts: Sequence[str] = ()
    verdicts: Sequence[StepNote] = ()
    is_message: bool = False
    latency: float | None = None
    tokens: float | None = None

    @property
    def text(self) -> str:
        """The content as far as it is shown."""
        return "".join(piece.text for piece in self.pieces)


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
    return _numbered(_shortened(turns, most))


def aligned_steps(before: TraceSide, now: TraceSide, *, limit: int, most: int) -> list[StepTurn]:
    """Align the steps of two runs within each turn: `most` rows at most, `limit` characters of a value."""
    earlier, later = _turns(before.trace), _turns(now.trace)
    turns = [
        StepTurn(
            number,
            list(_aligned(earlier.get(number, ()), later.get(number, ()), before.notes, now.notes, limit)),
        )
        for number in sorted({*earlier, *later})
    ]
    return _numbered(_shortened(turns, most))


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


def _numbered(turns: Sequence[StepTurn]) -> list[StepTurn]:
    """Number the turns only where there are several."""
    if sum(turn.number != 0 for turn in turns) < 2:
        return [StepTurn(None, [row for turn in turns for row in turn.rows])] if turns else []
    return list(turns)


def _aligned(
    before: Sequence[Event], now: Sequence[Event], notes_before: Notes, notes_now: Notes, limit: int
) -> Iterable[StepRow]:
    said_before, said_now = [StepContent(event) for event in before], [StepContent(event) for event in now]
    steps = align(list(map(_key, before, said_before)), list(map(_key, now, said_now)))
    for step in steps:
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
        views = windows(*alike_in_form(said_before[there], said_now[here]), limit=limit)
        pieces = marked(views[0].text, views[1].text)
        yield StepRow(
            step.kind,
            _cell_with(before[there], notes_before, views[0], pieces[0]),
            _cell_with(now[here], notes_now, views[1], pieces[1]),
        )


def _key(event: Event, content: StepContent) -> Call:
    """Say what makes two events the same kind of step, and what makes them equal."""
    return f"{event.type} {event.role} {event.tool or ''}", content.compact


def _cell(event: Event, notes: Notes, text: str, limit: int) -> StepCell:
    view = window(text, limit=limit)
    return _cell_with(event, notes, view, [Piece(False, view.text)] if view.text else [])


def _cell_with(event: Event, notes: Notes, view: Window, pieces: Sequence[Piece]) -> StepCell:
    return StepCell(
        number=event.idx,
        title=_title(event),
        pieces=pieces,
        skipped=view.before,
        cut=view.after,
        facts=list(_facts(event)),
        verdicts=notes.get(event.idx, ()),
        is_message=event.type == MESSAGE and isinstance(event.content, str),
        latency=event.latency_ms,
        tokens=_tokens(event),
    )


def _tokens(event: Event) -> float | None:
    usage = event.usage
    known = [each for each in (usage.input_tokens, usage.output_tokens) if each is not None] if usage else []
    return sum(known) if known else None


def _title(event: Event) -> str:
    who = one_line(event.agent or event.actor, limit=NAME_LIMIT)
    tool = one_line(event.tool or "", limit=NAME_LIMIT)
    if event.type == TOOL_CALL:
        return f"{who} calls {tool or 'a tool'}"
    if event.type == TOOL_RESULT:
        return f"{tool or who} {'fails' if event.error is not None else 'answers'}"
    if event.type == MESSAGE:
        return f"{who} says"
    return f"{who}: {one_line(event.type, limit=NAME_LIMIT).replace('_', ' ')}"


def _facts(event: Event) -> Iterable[str]:
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


def _shortened(turns: Sequence[StepTurn], most: int) -> list[StepTurn]:
    """Leave out rows beyond a number: those with a verdict or a difference stay before others do."""
    rows = [row for turn in turns for row in turn.rows]
    if len(rows) <= most:
        return list(turns)
    ranked = sorted(range(len(rows)), key=lambda place: (_rank(rows[place]), place))
    chosen = set(ranked[:most])
    shortened, place = [], 0
    for turn in turns:
        places = range(place, place + len(turn.rows))
        shortened.append(
            StepTurn(turn.number, list(_with_gaps(turn.rows, [each in chosen for each in places])))
        )
        place += len(turn.rows)
    return shortened


def _rank(row: StepRow) -> int:
    if any(cell.verdicts for cell in row.cells):
        return 0
    return 1 if row.kind not in ("same", "single") else 2


def _with_gaps(rows: Sequence[StepRow], is_chosen: Sequence[bool]) -> Iterable[StepRow]:
    for is_kept, group in groupby(zip(rows, is_chosen, strict=True), key=itemgetter(1)):
        together = [row for row, _ in group]
        yield from together if is_kept else [StepRow("gap", hidden=len(together))]

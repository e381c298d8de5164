"""What of a record no importer read: shapes of calls, results and answers that are in no event of the case.

This is the net below every format. A call is read where an event has its id, its tool and its arguments;
without an id, the same name and the same arguments. What is not read is lost, and a case that lost a call
must never pass a judge of tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import orjson

from agent_eval.contracts.event import UNREAD, UNREAD_WHAT
from agent_eval.importers.events import EventFields, event
from agent_eval.importers.shapes import ANSWER, CALL, RESULT, STEP, Shape, digest_of

UNNAMED = "a tool without a name"
"""What a call is of whose event has no tool: an importer knew the call, and not its fields."""


def unread(
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
            yield Shape(CALL, "", fields.get("call_id"), UNNAMED)
    yield from (shape._replace(what=CALL) for shape in by_what[STEP][len(calls) :])
    results = [fields for fields in events if fields["type"] == "tool_result"]
    yield from _unread_results(by_what[RESULT], results)
    yield from (shape._replace(what=RESULT) for shape in by_what[STEP][len(results) :])
    if answers := by_what[ANSWER]:
        texts = orjson.dumps([*events, *more], default=str).decode()
        starts = {answer.name for answer in answers if answer.name}
        if not any(start in texts or orjson.dumps(start).decode()[1:-1] in texts for start in starts):
            yield answers[-1]


def unread_event(place: str, shape: Shape) -> EventFields:
    """Make the event that tells judges what of the record at `place` is not in the trace."""
    where = f"{place}: {shape.path}" if shape.path else place
    sentence = f"{shape.described} ({where}) was not read"
    return event("environment", UNREAD, output=sentence, attributes={UNREAD_WHAT: shape.what})


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

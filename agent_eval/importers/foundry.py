"""Exports of Azure AI Foundry: evaluation rows, threads with runs and run steps, evaluation datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, seconds_of, text, text_or_none, usage_in
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.provider_format import conversation_of, tool_name
from agent_eval.importers.records import Record

OBJECTS = ("thread", "thread.message", "thread.run", "thread.run.step")

_FAILED = ("failed", "expired", "cancelled", "incomplete")
_RESULTS = ("output", "outputs", "results", "response", "response_metadata")
_ENDS = ("failed_at", "completed_at", "cancelled_at", "created_at")
_NO_ARGUMENTS = frozenset({*_RESULTS, "name", "server_label"})
_USER, _STEP, _AGENT, _RUN = range(4)
"""Order of what has the same second."""


_Timed = tuple[float, int, list[EventFields]]
"""Events with their place in the order of the thread: seconds, and the order within a second."""


def thread_of(objects: Sequence[tuple[Any, str]], diagnostics: Diagnostics) -> Conversation:
    """Put the objects of one thread together.

    These are messages, runs and steps in any order, each with its place.
    """
    stated = [(mapping(value), place) for value, place in objects]
    # Lists of the API have the newest first: then what has one second is reversed.
    times = [at for fields, _ in stated if (at := seconds_of(fields.get("created_at"))) is not None]
    falls = sum((later < earlier) - (later > earlier) for earlier, later in pairwise(times))
    stated = stated[::-1] if falls > 0 else stated
    by_kind: dict[str, list[tuple[Mapping[str, Any], str]]] = {name: [] for name in OBJECTS}
    for fields, place in stated:
        by_kind.setdefault(str(fields.get("object")), []).append((fields, place))
    steps = [fields for fields, _ in by_kind["thread.run.step"]]
    runs = {text(fields.get("id")): fields for fields, _ in by_kind["thread.run"]}
    timed = [_message(fields, steps, runs, place, diagnostics) for fields, place in by_kind["thread.message"]]
    timed += [
        _step(fields, runs, place, diagnostics)
        for fields, place in by_kind["thread.run.step"]
        if fields.get("type") != "message_creation"
    ]
    with_steps = {text(step.get("run_id")) for step in steps if mapping(step.get("usage"))}
    timed += [_run(run, has_steps=run_id in with_steps) for run_id, run in runs.items()]
    timed.sort(key=lambda step: step[:2])
    ids = (text(each.get("id" if each.get("object") == "thread" else "thread_id")) for each, _ in stated)
    return Conversation(
        [fields for _, _, events in timed for fields in events],
        id=next(filter(None, ids), None),
        aliases=tuple(run_id for run_id in runs if isinstance(run_id, str)),
        records=list(dict.fromkeys(place for _, place in stated)),
    )


def _message(
    message: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    runs: Mapping[Any, Mapping[str, Any]],
    place: str,
    diagnostics: Diagnostics,
) -> _Timed:
    role = message.get("role")
    blocks = [_block(block) for block in items(message.get("content"))] or message.get("content")
    created = message.get("created_at")
    seconds, moment = seconds_of(created) or 0.0, make.timestamp_of(created)
    if role == "user":
        return seconds, _USER, [make.user_message(blocks, ts=moment)]
    if role not in ("assistant", "agent"):
        diagnostics.lost(place, "role", f"is {role!r}, which is none of this format")
        return seconds, _AGENT, []
    step: Mapping[str, Any] = {}
    for each in reversed(steps) if message.get("id") else ():
        made = mapping(mapping(each.get("step_details")).get("message_creation"))
        step = each if made.get("message_id") == message["id"] else step
    run = runs.get(text(message.get("run_id")), {})
    facts = {
        "agent_name": text(message.get("assistant_id")) or text(message.get("agent_id")),
        "model": text(run.get("model")),
        "usage": usage_in(step.get("usage")),
        "stop_reason": text(mapping(message.get("incomplete_details")).get("reason")),
    }
    return seconds, _AGENT, [make.agent_message(blocks, ts=moment, **facts)]


def _block(block: Any) -> Any:
    """Write a block of a message as content blocks are written elsewhere."""
    fields = mapping(block)
    kind = fields.get("type")
    if kind == "text":
        value = fields.get("text")
        value = value if isinstance(value, str) else mapping(value).get("value")
        return {"type": "text", "text": value or ""}
    if kind == "image_file":
        return {"type": "image", "url": mapping(fields.get("image_file")).get("file_id")}
    return block


def _step(
    step: Mapping[str, Any], runs: Mapping[Any, Mapping[str, Any]], place: str, diagnostics: Diagnostics
) -> _Timed:
    events: list[EventFields] = []
    calls = items(mapping(step.get("step_details")).get("tool_calls"))
    if not calls:
        diagnostics.lost(place, "step_details", f"has no tool calls; the step is a {step.get('type')!r}")
    for call in map(mapping, calls):
        events += _call(call, step)
    called = [fields for fields in events if fields["type"] == "tool_call"]
    if called:
        run = mapping(runs.get(text(step.get("run_id"))))
        facts = {"usage": usage_in(step.get("usage")), "model": text(run.get("model"))}
        called[-1].update({name: value for name, value in facts.items() if value})
    elif mapping(step.get("last_error")):
        events.append(make.error_event(dict(step["last_error"])))
    return seconds_of(step.get("created_at")) or 0.0, _STEP, events


def _call(call: Mapping[str, Any], step: Mapping[str, Any]) -> list[EventFields]:
    kind = text(call.get("type")) or "function"
    details = mapping(call.get(kind))
    name = text(details.get("name")) or kind
    arguments = details.get("arguments")
    if arguments is None:
        arguments = {key: value for key, value in details.items() if key not in _NO_ARGUMENTS}
    ran_on = "client" if kind == "function" else "server"
    if kind == "mcp":
        ran_on = f"mcp:{details.get('server_label', '')}".removesuffix(":")
    agent = text(step.get("assistant_id")) or text(step.get("agent_id"))
    started, ended = step.get("created_at"), step.get("completed_at") or step.get("failed_at")
    first, last = seconds_of(started), seconds_of(ended)
    took = None if first is None or last is None or last < first else (last - first) * 1000
    place: dict[str, Any] = {"ran_on": ran_on, "agent_name": agent, "ts": make.timestamp_of(started)}
    made = make.tool_call(name, arguments, call.get("id"), **place)
    output = next((details[key] for key in _RESULTS if details.get(key) is not None), None)
    failure = step.get("last_error") or (step.get("status") if step.get("status") in _FAILED else None)
    error = failure if output is None else None
    if output is None and error is None and step.get("status") != "completed":
        return [made]
    recorded = False if output is None and error is None else None
    about = {"ran_on": ran_on, "ts": make.timestamp_of(ended), "content_recorded": recorded}
    result = make.tool_result(output, call.get("id"), tool=name, error=error, latency_ms=took, **about)
    return [made, result]


def _run(run: Mapping[str, Any], *, has_steps: bool) -> _Timed:
    """Return what a run says beside its steps: its error, and its usage if no step states any."""
    events: list[EventFields] = []
    ended = next((run[name] for name in _ENDS if run.get(name)), None)
    usage = None if has_steps else usage_in(run.get("usage"))
    if usage is not None:
        events.append(make.event("agent", "model_call", model=text(run.get("model")), usage=usage))
    error = run.get("last_error") or (run.get("status") if run.get("status") in _FAILED else None)
    if error is not None:
        reason = text(mapping(run.get("incomplete_details")).get("reason"))
        events.append(make.error_event(error, ts=make.timestamp_of(ended), stop_reason=reason))
    return seconds_of(ended) or 0.0, _RUN, events


class Foundry(Format):
    """Reads what Azure AI Foundry exports, and what its evaluation SDK converts threads to.

    Its newer agents answer by the Responses API, which the format `openai` reads.
    """

    name = "foundry"
    provider = "azure.ai.inference"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            return Match(0.9, "converted messages") if _is_messages(value) else None
        if not isinstance(value, dict):
            return None
        if value.get("object") in OBJECTS or _is_bundle(value):
            return Match(0.95, "thread")
        if _is_dataset(value):
            return Match(0.9, "dataset")
        if _is_results(value):
            return Match(0.9, "evaluation results")
        return _match_of_row(value)

    @override
    def prepare(self, record: Record, _diagnostics: Diagnostics) -> tuple[Link, Any]:
        value = record.value
        if not isinstance(value, dict) or value.get("object") not in OBJECTS:
            return ALONE, value
        thread = value.get("thread_id") if value["object"] != "thread" else value.get("id")
        if text(thread) is None:
            return ALONE, value
        return Link(ids=(f"thread:{thread}",), time=seconds_of(value.get("created_at"))), value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        if mapping(parts[0].payload).get("object") in OBJECTS:
            return [thread_of([(part.payload, part.place) for part in parts], diagnostics)]
        return [made for part in parts for made in _read_alone(part.payload, part.place, diagnostics)]


def _read_alone(value: Any, place: str, diagnostics: Diagnostics) -> list[Conversation]:
    if isinstance(value, list):
        return [_of_row({"response": value}, place, diagnostics)]
    if _is_bundle(value):
        thread = [value["thread"]] if isinstance(value.get("thread"), dict) else []
        bundled = thread + [item for name in _BUNDLED for item in _listed(value.get(name))]
        return [thread_of([(item, place) for item in bundled], diagnostics)]
    name = "data" if _is_dataset(value) else "rows" if _is_results(value) else None
    rows = [("", value)] if name is None else [(f".{name}[{n}]", row) for n, row in enumerate(value[name])]
    return [_of_row(mapping(row), f"{place}{path}", diagnostics) for path, row in rows]


def _is_bundle(value: Mapping[str, Any]) -> bool:
    """Whether this holds the objects of one thread together."""
    lists = [_listed(value[name]) for name in _BUNDLED if name in value]
    return any(mapping(item).get("object") in OBJECTS for stated in lists for item in stated[:1])


_BUNDLED = ("messages", "runs", "run_steps", "steps")


def _listed(value: Any) -> list[Any]:
    """Return a list, also from a page of the API."""
    return items(value) or items(mapping(value).get("data"))


def _is_dataset(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("data"), list) and isinstance(value.get("evaluators"), list)


def _is_results(value: Mapping[str, Any]) -> bool:
    """Whether this is what `evaluate` writes: rows with columns `inputs.…` and `outputs.…`."""
    rows = value.get("rows")
    return isinstance(rows, list) and bool(rows) and _match_of_row(mapping(rows[0])) is not None


_COLUMNS = {
    "query": ("query", "question", "user_query", "prompt"),
    "response": ("response", "answer", "output"),
    "ground_truth": ("ground_truth", "expected_output", "expected", "reference"),
    "tool_definitions": ("tool_definitions",),
    "tool_calls": ("tool_calls",),
    "conversation": ("conversation",),
}
"""Columns by what they mean: the SDK's own name first, then names that its column mappings usually map."""
_PREFIXES = ("", "inputs.", "outputs.", "line.", "data.", "item.", "sample.")
_FULL_NAMES = {
    meaning: tuple(f"{prefix}{column}" for column in columns for prefix in _PREFIXES)
    for meaning, columns in _COLUMNS.items()
}
_READ = frozenset(name for names in _FULL_NAMES.values() for name in names)


def _match_of_row(row: Mapping[str, Any]) -> Match | None:
    """Recognise a row by its columns."""
    query, response = _column(row, "query"), _column(row, "response")
    if _is_messages(response) or _is_messages(query):
        return Match(0.95, "evaluation row")
    if isinstance(mapping(_column(row, "conversation")).get("messages"), list):
        return Match(0.85, "evaluation row")
    if isinstance(query, str) and isinstance(response, str | list):
        return Match(0.8 if "query" in row and "response" in row else 0.7, "evaluation row")
    return None


def _is_messages(value: Any) -> bool:
    """Whether this is a list of messages as the SDK converts them."""
    if not isinstance(value, list) or not value:
        return False
    messages = [mapping(message) for message in value[:50]]
    if not all("role" in message and "parts" not in message for message in messages):
        return False
    stamped = any("createdAt" in message or "run_id" in message for message in messages)
    blocks = [mapping(block) for message in messages for block in items(message.get("content"))]
    return stamped or any(block.get("type") in ("tool_call", "tool_result") for block in blocks)


def _column(row: Mapping[str, Any], name: str) -> Any:
    if _READ.isdisjoint(row):
        return None
    return next((row[full] for full in _FULL_NAMES[name] if row.get(full) is not None), None)


def _of_row(row: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
    """Read a row: `query` holds the earlier turns, `response` what the agent did then."""
    reader = MessageReader(place, diagnostics)
    conversation, response = mapping(_column(row, "conversation")), _column(row, "response")
    sides = (("conversation", conversation.get("messages")), ("query", _column(row, "query")))
    events: list[EventFields] = []
    for name, value in (*sides, ("response", response)):
        if isinstance(value, list):
            events += reader.events_of(value, name)
        elif value is not None:
            events.append(make.agent_message(value) if name == "response" else make.user_message(value))
    calls = _column(row, "tool_calls")
    if calls is not None and not isinstance(response, list):
        # The calls of a column of their own come before the answer, which is a text.
        made = reader.blocks(calls if isinstance(calls, list) else [calls], "agent", "tool_calls")
        answer = [events.pop()] if events and events[-1]["actor"] == "agent" else []
        events += made + answer
    # Threads are listed from the newest on: messages that all have a time are in that order.
    times = [seconds_of(fields.get("ts")) for fields in events]
    if None not in times:
        events.sort(key=lambda fields: seconds_of(fields.get("ts")) or 0)
    others = {name: value for name, value in row.items() if name not in _READ and value is not None}
    tools = filter(None, map(tool_name, items(_column(row, "tool_definitions"))))
    metadata = {"columns": others, "request": {"tools": names} if (names := list(tools)) else {}}
    result = Conversation(events, id=conversation_of(row), records=[place])
    result.metadata = {name: value for name, value in metadata.items() if value}
    result.expected_output = _column(row, "ground_truth")
    run = next((run for each in items(response) if (run := text(mapping(each).get("run_id")))), None)
    result.aliases = tuple(filter(None, (text_or_none(row.get("id")), run)))
    if response is None and not conversation:
        # A dataset asks, and records nothing.
        result.events, result.turns = [], [{"input": _column(row, "query")}]
        diagnostics.note(place, "response", "is missing: run an agent on the case")
    return result

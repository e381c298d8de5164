"""Threads of Azure AI Foundry's agents, and of OpenAI's Assistants: messages, runs and run steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    event,
    items,
    mapping,
    seconds_of,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    user_message,
)
from agent_eval.importers.format import Conversation
from agent_eval.importers.usage import usage_in

OBJECTS = ("thread", "thread.message", "thread.run", "thread.run.step")

_FAILED = ("failed", "expired", "cancelled", "incomplete")
_RESULTS = ("output", "outputs", "results", "response", "response_metadata")
_ENDS = ("failed_at", "completed_at", "cancelled_at", "created_at")
_NO_ARGUMENTS = frozenset({*_RESULTS, "name", "server_label"})
_USER, _STEP, _AGENT, _RUN = range(4)
"""Order of what has the same second."""


class _Timed(NamedTuple):
    """Events with their place in the order of the thread."""

    seconds: float
    kind: int
    events: list[EventFields]


def thread_of(objects: Sequence[tuple[Any, str]], diagnostics: Diagnostics) -> Conversation:
    """Put the objects of one thread together.

    These are messages, runs and steps in any order, each with its place.
    """
    stated = [(mapping(value), place) for value, place in objects]
    stated = stated[::-1] if _is_newest_first([fields for fields, _ in stated]) else stated
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
    timed.sort(key=lambda step: (step.seconds, step.kind))
    events = [fields for step in timed for fields in step.events]
    made = Conversation(events, id=_thread_id([fields for fields, _ in stated]))
    made.aliases = tuple(run_id for run_id in runs if isinstance(run_id, str))
    made.records = list(dict.fromkeys(place for _, place in stated))
    return made


def _thread_id(objects: Sequence[Mapping[str, Any]]) -> str | None:
    names = ["id" if fields.get("object") == "thread" else "thread_id" for fields in objects]
    ids = (text(fields.get(name)) for name, fields in zip(names, objects, strict=True))
    return next(filter(None, ids), None)


def _is_newest_first(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Whether lists are in the order of the API, newest first, so that what has one second is reversed."""
    times = [seconds for fields in objects if (seconds := seconds_of(fields.get("created_at"))) is not None]
    falls = sum(later < earlier for earlier, later in pairwise(times))
    rises = sum(later > earlier for earlier, later in pairwise(times))
    return falls > rises


def _message(
    message: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    runs: Mapping[Any, Mapping[str, Any]],
    place: str,
    diagnostics: Diagnostics,
) -> _Timed:
    role = message.get("role")
    blocks = [_block(block) for block in items(message.get("content"))] or message.get("content")
    seconds, moment = seconds_of(message.get("created_at")) or 0.0, timestamp_of(message.get("created_at"))
    if role == "user":
        return _Timed(seconds, _USER, [user_message(blocks, ts=moment)])
    if role not in ("assistant", "agent"):
        diagnostics.lost(place, "role", f"is {role!r}, which is none of this format")
        return _Timed(seconds, _AGENT, [])
    made = (mapping(mapping(step.get("step_details")).get("message_creation")) for step in steps)
    own = message.get("id")
    step = next(
        (step for step, each in zip(steps, made, strict=True) if own and each.get("message_id") == own), {}
    )
    run = runs.get(text(message.get("run_id")), {})
    answer = agent_message(
        blocks,
        ts=moment,
        agent_name=text(message.get("assistant_id")) or text(message.get("agent_id")),
        model=text(run.get("model")),
        usage=usage_in(step.get("usage")),
        stop_reason=text(mapping(message.get("incomplete_details")).get("reason")),
    )
    return _Timed(seconds, _AGENT, [answer])


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
        usage, model = (
            usage_in(step.get("usage")),
            text(mapping(runs.get(text(step.get("run_id")))).get("model")),
        )
        called[-1].update({"usage": usage} if usage else {})
        called[-1].update({"model": model} if model else {})
    elif mapping(step.get("last_error")):
        events.append(error_event(dict(step["last_error"])))
    return _Timed(seconds_of(step.get("created_at")) or 0.0, _STEP, events)


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
    took = None if first is None or last is None else last - first
    made = tool_call(
        name, arguments, call.get("id"), ran_on=ran_on, agent_name=agent, ts=timestamp_of(started)
    )
    output = next((details[key] for key in _RESULTS if details.get(key) is not None), None)
    failure = step.get("last_error") or (step.get("status") if step.get("status") in _FAILED else None)
    error = failure if output is None else None
    if output is None and error is None and step.get("status") != "completed":
        return [made]
    recorded = False if output is None and error is None else None
    result = tool_result(
        output,
        call.get("id"),
        tool=name,
        error=error,
        ran_on=ran_on,
        ts=timestamp_of(ended),
        latency_ms=took * 1000 if took is not None and took >= 0 else None,
        content_recorded=recorded,
    )
    return [made, result]


def _run(run: Mapping[str, Any], *, has_steps: bool) -> _Timed:
    """Return what a run says beside its steps: its error, and its usage if no step states any."""
    events: list[EventFields] = []
    ended = (
        run.get("failed_at") or run.get("completed_at") or run.get("cancelled_at") or run.get("created_at")
    )
    usage = None if has_steps else usage_in(run.get("usage"))
    if usage is not None:
        events.append(event("agent", "model_call", model=text(run.get("model")), usage=usage))
    error = run.get("last_error") or (run.get("status") if run.get("status") in _FAILED else None)
    if error is not None:
        reason = text(mapping(run.get("incomplete_details")).get("reason"))
        events.append(error_event(error, ts=timestamp_of(ended), stop_reason=reason))
    return _Timed(seconds_of(ended) or 0.0, _RUN, events)

"""Results of tau-bench and tau2-bench: trials of tasks, with the reward of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    error_event,
    event,
    items,
    mapping,
    seconds_of,
    text,
    text_or_none,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
)
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.recorded_verdicts import as_metadata, recorded
from agent_eval.importers.records import Record
from agent_eval.importers.trials import RecordedRun, conversations_of

_ENDED_BADLY = frozenset({"too_many_errors", "max_steps", "agent_error", "user_error", "timeout"})


class TauBench(Format):
    """Reads results of tau-bench (a record a trial) and of tau2-bench (`simulations`)."""

    name = "tau_bench"

    @override
    def detect(self, value: Any) -> Match | None:
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("traj"), list) and "task_id" in value:
            return Match(0.95, "tau")
        if isinstance(value.get("simulations"), list) and ("tasks" in value or "info" in value):
            return Match(0.95, "tau2")
        return None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        task = text_or_none(mapping(record.value).get("task_id"))
        link = ALONE if task is None else Link(ids=(f"{record.source}:{task}",))
        return link, record.value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        runs = []
        for part in parts:
            value = mapping(part.payload)
            if "simulations" in value:
                tasks = {text_or_none(mapping(task).get("id")): task for task in items(value.get("tasks"))}
                runs += [
                    _simulation(
                        mapping(simulation), tasks, f"{part.place}#simulations[{number}]", diagnostics
                    )
                    for number, simulation in enumerate(items(value.get("simulations")))
                ]
            else:
                runs.append(_trial(value, part.place, diagnostics))
        return conversations_of(runs, diagnostics)


def _trial(value: Any, place: str, diagnostics: Diagnostics) -> RecordedRun:
    events: list[EventFields] = []
    for number, message in enumerate(items(value.get("traj"))):
        made = MessageReader(place, diagnostics).events(message, f"traj[{number}]")
        for fields in made:
            _mark_error(fields)
        events += made
    info = mapping(value.get("info"))
    task, reward = mapping(info.get("task")), mapping(info.get("reward_info"))
    if text(info.get("error")):
        events.append(error_event(info["error"]))
    about = {"task": task, "reward_info": reward, "user_cost": info.get("user_cost")}
    return RecordedRun(
        task_id=text_or_none(value.get("task_id")),
        number=value.get("trial"),
        events=events,
        place=place,
        metadata=as_metadata({"reward": recorded(value.get("reward"))}),
        about={name: known for name, known in about.items() if known not in (None, {})},
        input=text(task.get("instruction")),
    )


def _mark_error(fields: EventFields) -> None:
    """Take a result that says that it is an error for one: tau-bench has no other mark."""
    output = fields.get("output")
    if fields["type"] == "tool_result" and isinstance(output, str) and output.startswith("Error"):
        fields["error"] = fields.pop("output")


def _simulation(run: Any, tasks: Any, place: str, diagnostics: Diagnostics) -> RecordedRun:
    events: list[EventFields] = []
    for number, message in enumerate(items(run.get("messages"))):
        events += _tau2_message(mapping(message), place, f"messages[{number}]", diagnostics)
    if items(run.get("ticks")):
        diagnostics.lost(place, "ticks", "are of a spoken conversation, which is not read")
    reason = text(run.get("termination_reason"))
    if reason in _ENDED_BADLY:
        events.append(error_event(reason))
    task_id = text_or_none(run.get("task_id"))
    about = {"termination_reason": reason, "seed": run.get("seed"), "reward_info": run.get("reward_info")}
    about |= {"task": tasks.get(task_id), "user_cost": run.get("user_cost")}
    cost = run.get("agent_cost")
    if isinstance(cost, int | float) and not any("cost_usd" in fields for fields in events):
        events.append(event("agent", "model_call", cost_usd=cost))
    return RecordedRun(
        task_id=task_id,
        number=run.get("trial"),
        events=events,
        place=place,
        metadata=as_metadata({"reward": recorded(mapping(run.get("reward_info")).get("reward"))}),
        about={name: known for name, known in about.items() if known not in (None, {})},
        input=mapping(tasks.get(task_id)).get("user_scenario"),
    )


def _tau2_message(message: Any, place: str, field: str, diagnostics: Diagnostics) -> list[EventFields]:
    role, content = message.get("role"), message.get("content")
    common = {"ts": timestamp_of(message.get("timestamp"))} if seconds_of(message.get("timestamp")) else {}
    if role == "tool":
        error = content if message.get("error") else None
        output = None if error is not None else content
        several = [{"role": "tool", **mapping(result)} for result in items(message.get("tool_messages"))]
        if several:
            return [made for inner in several for made in _tau2_message(inner, place, field, diagnostics)]
        return [tool_result(output, message.get("id"), error=error, **common)]
    if role not in ("assistant", "user", "system"):
        diagnostics.lost(place, field, f"has the role {role!r}, which is none of this format")
        return []
    actor = "agent" if role == "assistant" else role
    events = []
    if content not in (None, ""):
        where = "input" if actor == "user" else "output"
        events.append(event(actor, "message", **{where: content}, **common))
    for call in map(mapping, items(message.get("tool_calls"))):
        made = tool_call(text(call.get("name")), call.get("arguments"), call.get("id"), **common)
        # In some domains the simulated user has tools as well.
        made["actor"] = actor
        events.append(made)
    if events and actor == "agent":
        usage = mapping(message.get("usage"))
        tokens = usage_of(
            input_tokens=usage.get("prompt_tokens"), output_tokens=usage.get("completion_tokens")
        )
        events[-1] |= {"usage": tokens} if tokens else {}
        cost = message.get("cost")
        events[-1] |= {"cost_usd": cost} if isinstance(cost, int | float) else {}
    return events

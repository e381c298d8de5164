"""Trajectories in Harbor's interchange format (ATIF), which Terminal-Bench and others write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    is_amount,
    items,
    mapping,
    reasoning,
    system_message,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.format import Conversation, Format, Match, Part


class Atif(Format):
    """Reads trajectories of steps; a file may hold those of several agents by name."""

    name = "atif"

    @override
    def detect(self, value: Any) -> Match | None:
        return Match(0.95, "trajectory") if any(True for _ in _trajectories(value)) else None

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        for part in parts:
            for trajectory in _trajectories(part.payload):
                yield _conversation(trajectory, part.place, diagnostics)


def _trajectories(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a trajectory and those of its sub-agents, or the trajectories that a file has by name."""
    fields = mapping(value)
    if isinstance(fields.get("steps"), list) and str(fields.get("schema_version", "")).startswith("ATIF"):
        yield fields
        for name in ("subagent_trajectories", "embedded_subagents"):
            for inner in items(fields.get(name)):
                yield from _trajectories(inner)
    else:
        for inner in list(fields.values())[:100]:
            if "schema_version" in mapping(inner):
                yield from _trajectories(inner)


def _conversation(trajectory: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
    events: list[EventFields] = []
    agent = mapping(trajectory.get("agent"))
    for number, step in enumerate(map(mapping, items(trajectory.get("steps")))):
        if step.get("is_copied_context"):
            diagnostics.note(place, f"steps[{number}]", "repeats the trajectory before this one; left out")
            continue
        made = _events_of(step, f"steps[{number}]", place, diagnostics)
        model = text(step.get("model_name")) or text(agent.get("model_name"))
        moment = timestamp_of(step.get("timestamp"))
        for fields in made if moment is not None else ():
            fields["ts"] = moment
        spoken = [fields for fields in made if fields["actor"] == "agent"]
        if spoken:
            _add_metrics(spoken[-1], mapping(step.get("metrics")), model)
        events += made
    return Conversation(
        events,
        id=text(trajectory.get("session_id")) or text(trajectory.get("trajectory_id")),
        metadata={"agent": agent} if agent else {},
    )


def _events_of(
    step: Mapping[str, Any], field: str, place: str, diagnostics: Diagnostics
) -> list[EventFields]:
    message, source = step.get("message"), step.get("source")
    has_text = message not in (None, "", [])
    if source == "user":
        return [user_message(message)]
    if source == "system":
        return [system_message(message)] if has_text else []
    events: list[EventFields] = []
    if text(step.get("reasoning_content")):
        events.append(reasoning(step["reasoning_content"]))
    if has_text:
        events.append(agent_message(message))
    calls = [mapping(call) for call in items(step.get("tool_calls"))]
    events += [
        tool_call(text(call.get("function_name")), call.get("arguments"), call.get("tool_call_id"))
        for call in calls
    ]
    for result in map(mapping, items(mapping(step.get("observation")).get("results"))):
        content, call_id = result.get("content"), text(result.get("source_call_id"))
        if content is None and not result.get("subagent_trajectory_ref"):
            if call_id is not None:
                diagnostics.note(place, f"{field}.observation", f"{call_id} has no result")
        elif calls:
            # Terminus answers all the calls of a step at once, and names none.
            events.append(tool_result(content, call_id or calls[-1].get("tool_call_id")))
        else:
            events.append(user_message(content))
    return events


def _add_metrics(fields: EventFields, metrics: Mapping[str, Any], model: str | None) -> None:
    usage = usage_of(
        input_tokens=metrics.get("prompt_tokens"),
        output_tokens=metrics.get("completion_tokens"),
        cached=metrics.get("cached_tokens"),
    )
    if usage is not None:
        fields["usage"] = usage
    if is_amount(metrics.get("cost_usd")):
        fields["cost_usd"] = metrics["cost_usd"]
    if model is not None:
        fields["model"] = model

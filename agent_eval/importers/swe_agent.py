"""Trajectories of SWE-agent (`.traj`): what the model wrote, the actions, what the environment answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    event,
    items,
    mapping,
    system_message,
    text,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.format import Conversation, Format, Match, Part

SHELL = "shell"
"""Tool of an action that is a command of its own, and not the call of a tool."""


class SweAgent(Format):
    """Reads trajectories of SWE-agent, also demonstrations, which have a history only."""

    name = "swe_agent"

    @override
    def detect(self, value: Any) -> Match | None:
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("trajectory"), list) and ("history" in value or "info" in value):
            return Match(0.95, "trajectory")
        history = value.get("history")
        if isinstance(history, list) and history and isinstance(history[0], dict):
            marks = {"message_type", "agent", "thought", "action"}
            return Match(0.9, "history") if marks & set(history[0]) else None
        return None

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        return [_conversation(mapping(part.payload), part.place, diagnostics) for part in parts]


def _conversation(value: Any, place: str, diagnostics: Diagnostics) -> Conversation:
    history = [mapping(message) for message in items(value.get("history"))]
    steps = [mapping(step) for step in items(value.get("trajectory"))]
    if history:
        events = _of_history(history, steps, place, diagnostics)
    else:
        events = [made for step in steps for made in _of_step(step)]
    info = mapping(value.get("info"))
    events += _of_info(info)
    about = {name: info[name] for name in ("exit_status", "submission", "model_stats") if name in info}
    if text(value.get("environment")):
        about["environment"] = value["environment"]
    return Conversation(events, metadata={"info": about} if about else {})


def _of_history(
    history: Sequence[Any], steps: Sequence[Any], place: str, diagnostics: Diagnostics
) -> list[EventFields]:
    reader = _HistoryReader(steps, place, diagnostics)
    for number, message in enumerate(history):
        reader.add(message, f"history[{number}]")
    reader.finish(steps)
    return reader.events


class _HistoryReader:
    """Reads messages in order; an observation answers the action before it."""

    def __init__(self, steps: Sequence[Any], place: str, diagnostics: Diagnostics) -> None:
        self.events: list[EventFields] = []
        self._seconds = [(step.get("action"), step.get("execution_time")) for step in steps]
        self._place, self._diagnostics = place, diagnostics
        self._latency: float | None = None
        self._open: str | None = None
        """The action that no observation has answered yet, where actions are no tool calls."""

    def add(self, message: Any, field: str) -> None:
        role, content = message.get("role"), message.get("content")
        if message.get("is_demo"):
            self._diagnostics.note(self._place, field, "is of a demonstration, not of this run; left out")
        elif role == "system":
            self.events.append(system_message(content))
        elif role == "assistant":
            self._add_action(message)
        elif role in ("tool", "user") and (items(message.get("tool_call_ids")) or self._open is not None):
            self._add_observation(message, field)
        elif role in ("tool", "user"):
            self.events.append(user_message(content))
        else:
            self._diagnostics.lost(self._place, field, f"has the role {role!r}, which is none of this format")

    def _add_action(self, message: Any) -> None:
        calls = [mapping(call) for call in items(message.get("tool_calls"))]
        action, thought = text(message.get("action")), text(message.get("thought"))
        spoken = message.get("content")
        if not calls and action is not None and thought is not None:
            spoken = thought  # the content repeats both
        if spoken not in (None, "", []):
            self.events.append(agent_message(spoken))
        for call in calls:
            function = mapping(call.get("function"))
            self.events.append(
                tool_call(text(function.get("name")), function.get("arguments"), call.get("id"))
            )
        if not calls and action is not None and action.strip():
            self.events.append(tool_call(SHELL, {"command": action}))
            self._open = action
        self._time_of(action)

    def _time_of(self, action: str | None) -> None:
        """Find how long the action took: the steps repeat the actions in their order."""
        self._latency = None
        for position, (executed, seconds) in enumerate(self._seconds):
            if executed is not None and action is not None and executed.strip() == action.strip():
                del self._seconds[: position + 1]
                if isinstance(seconds, int | float) and not isinstance(seconds, bool):
                    self._latency = seconds * 1000
                return

    def _add_observation(self, message: Any, field: str) -> None:
        ids = [call_id for call_id in items(message.get("tool_call_ids")) if call_id]
        content = message.get("content")
        tool = None if ids else SHELL
        result = tool_result(content, ids[0] if ids else None, tool=tool, latency_ms=self._latency)
        self.events.append(result)
        self._open = None
        if len(ids) > 1:
            reason = "answers several calls; only the first has it"
            self._diagnostics.changed(self._place, field, reason)

    def finish(self, steps: Sequence[Any]) -> None:
        """Add what the steps have beyond the history, which ends before the last observation or action."""
        acted = [step for step in steps if text(step.get("action")) and step["action"].strip()]
        calls = sum(fields["type"] == "tool_call" for fields in self.events)
        results = sum(fields["type"] == "tool_result" for fields in self.events)
        if results == calls - 1 and calls <= len(acted):
            last = next(fields for fields in reversed(self.events) if fields["type"] == "tool_call")
            answered = {
                "content": acted[calls - 1].get("observation"),
                "tool_call_ids": [last.get("call_id")],
            }
            self._add_observation(answered, "trajectory")
        for step in acted[calls:]:
            self.events += _of_step(step)


def _of_step(step: Any) -> list[EventFields]:
    """Read a step where there is no history; `response` repeats thought and action."""
    spoken = text(step.get("thought")) or text(step.get("response"))
    events = [agent_message(spoken)] if spoken else []
    action = text(step.get("action"))
    if action is not None and action.strip():
        seconds = step.get("execution_time")
        latency = seconds * 1000 if isinstance(seconds, int | float) else None
        events.append(tool_call(SHELL, {"command": action}))
        events.append(tool_result(step.get("observation"), tool=SHELL, latency_ms=latency))
    return events


def _of_info(info: Any) -> list[EventFields]:
    """Read what was counted for the whole run, and how it ended if not by a submission."""
    stats = mapping(info.get("model_stats"))
    amounts = {name: stats.get(name) for name in ("tokens_sent", "tokens_received", "instance_cost")}
    # A replay of recorded actions asks no model, and counts zeros.
    known = {
        name: amount for name, amount in amounts.items() if isinstance(amount, int | float) and amount > 0
    }
    events = []
    if not {"tokens_sent", "tokens_received", "instance_cost"}.isdisjoint(known):
        tokens = usage_of(input_tokens=known.get("tokens_sent"), output_tokens=known.get("tokens_received"))
        events.append(event("agent", "model_call", usage=tokens, cost_usd=known.get("instance_cost")))
    status = text(info.get("exit_status"))
    if status is not None and not status.startswith("submitted"):
        events.append(error_event(status))
    return events

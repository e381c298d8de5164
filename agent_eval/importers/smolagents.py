"""Steps of smolagents: `agent.memory.get_full_steps()`, or the dictionary of a run's result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    event,
    items,
    mapping,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    user_message,
)
from agent_eval.importers.format import Conversation, Format, Match, Part
from agent_eval.importers.usage import usage_in


class Smolagents(Format):
    """Reads the steps of a run."""

    name = "smolagents"

    @override
    def detect(self, value: Any) -> Match | None:
        steps = _steps(value)
        known = any("step_number" in step and "observations" in step for step in steps[:20])
        return Match(0.95, "steps") if known else None

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        for part in parts:
            yield Conversation([fields for step in _steps(part.payload) for fields in _events_of(step)])


def _steps(value: Any) -> list[Mapping[str, Any]]:
    return [mapping(step) for step in items(value) or items(mapping(value).get("steps"))]


def _events_of(step: Mapping[str, Any]) -> list[EventFields]:
    if "task" in step:
        return [user_message(step["task"])]
    if "step_number" not in step:
        return []
    calls = [mapping(call) for call in items(step.get("tool_calls"))]
    events: list[EventFields] = []
    written = text(step.get("model_output"))
    if written is not None and "code_action" not in step:
        events.append(agent_message(written))
    for call in calls:
        function = mapping(call.get("function"))
        arguments = function.get("arguments")
        if isinstance(arguments, str) and step.get("code_action") is not None:
            arguments = {"code": arguments}  # the tools that it uses are called inside of the code
        events.append(tool_call(text(function.get("name")), arguments, call.get("id")))
    usage = usage_in(step.get("token_usage"))
    if usage is not None:
        if not events:
            events.append(event("agent", "model_call"))
        events[-1]["usage"] = usage
    error = mapping(step.get("error")).get("message", step.get("error"))
    if calls and (error or step.get("observations") is not None):
        # Calls that run at once share one text: the last of them has it.
        output = None if error else step.get("observations")
        events.append(tool_result(output, calls[-1].get("id"), error=error or None))
    if step.get("is_final_answer"):
        answer = step.get("action_output")
        events.append(agent_message(step.get("observations") if answer is None else answer))
    moment = timestamp_of(mapping(step.get("timing")).get("end_time"))
    for fields in events if moment is not None else ():
        fields["ts"] = moment
    return events

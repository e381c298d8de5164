"""The `recorded` agent: it answers with the trace that the suite has of each case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Surroundings, Task


class RecordedAgent(Agent):
    """Replays each case's own trace, the same at every attempt."""

    replays = True

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> RecordedAgent:
        return cls()

    @classmethod
    @override
    def from_description(
        cls, described: Mapping[str, Any], options: AgentOptions
    ) -> tuple[str, AgentOptions]:
        return "recorded", options

    @override
    def describe(self) -> dict[str, Any]:
        return {"agent": "recorded"}

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        trace = task.case.recorded
        calls = [
            {"tool": call.tool, "arguments": call.arguments} for call in trace.calls if call.call is not None
        ]
        return AttemptResult(events=list(trace.events), output=trace.final_output, tool_calls=calls)

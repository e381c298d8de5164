"""An agent that is not run: the trace that the suite recorded of it stands for its answer."""

from __future__ import annotations

from typing import Any

from agent_eval.agents.base import AgentOptions, AttemptResult, Surroundings, Task
from agent_eval.contracts import Trace


class RecordedAgent:
    """Gives every case's own trace back, the same at every attempt."""

    @classmethod
    def from_options(cls, rest: str, options: AgentOptions) -> RecordedAgent:  # noqa: ARG003 - the table's
        """See `catalog.open_agent`."""
        return cls()

    def describe(self) -> dict[str, Any]:
        """See `Agent.describe`."""
        return {"agent": "recorded"}

    def close(self) -> None:
        """See `Agent.close`. There is nothing to let go of."""

    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:  # noqa: ARG002 - the protocol's
        """See `Agent.attempt`."""
        trace = Trace(task.case.trace)
        calls = [
            {"tool": call.tool, "arguments": call.arguments} for call in trace.calls if call.call is not None
        ]
        return AttemptResult(events=list(trace.events), output=trace.final_output, tool_calls=calls)

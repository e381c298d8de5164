"""Writing down what happens in an attempt as events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.agents.protocol import AttemptResult, Surroundings, Task, ToolAnswer, ToolFault
from agent_eval.contracts import Event
from agent_eval.contracts.trace import MESSAGE, TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind

TOOL_ANSWER_SOURCE = "agent_eval.tool_response.source"
"""Attribute of a tool's result: where the answer was from; see `ToolAnswer.source`."""


class LimitReached(Exception):
    """The attempt used more than it may.

    Attributes:
        failure: The kind of failure.
        problem: Which limit, in words.
    """

    def __init__(self, failure: FailureKind, problem: str) -> None:
        super().__init__(problem)
        self.failure, self.problem = failure, problem


class Recorder:
    """The events of one attempt, and what it has used.

    Args:
        task: The attempt.
        surroundings: Its clocks and tools.
    """

    def __init__(self, task: Task, surroundings: Surroundings) -> None:
        self._task, self._tools, self._clocks = task, surroundings.tools, surroundings.clocks
        self.events: list[Event] = []
        self.calls: list[dict[str, Any]] = []
        self.retries = 0
        self.seconds = 0.0
        self.waited = 0.0
        self.steps = 0
        self.tokens = 0
        self.artifacts: dict[str, bytes] = {}

    def add(self, actor: str, kind: str, **fields: Any) -> Event:
        """Append an event."""
        event = Event(
            idx=len(self.events),
            ts=self._clocks.stamp(),
            actor=actor,
            type=kind,
            attempt=self._task.attempt,
            **fields,
        )
        self.events.append(event)
        return event

    def asked(self) -> None:
        """The case's input, as the user's message."""
        self.add("user", MESSAGE, input=self._task.case.input)

    def said(
        self,
        output: Any,
        *,
        seconds: float | None = None,
        attributes: Mapping[str, Any] | None = None,
        error: Any = None,
    ) -> None:
        """A message of the agent, and how long it took."""
        self.add(
            "agent",
            MESSAGE,
            output=output,
            error=error,
            latency_ms=milliseconds(seconds),
            attributes=dict(attributes or {}),
        )

    def called(
        self,
        tool: str,
        arguments: Any,
        call_id: str | None = None,
        *,
        seconds: float | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> str:
        """A tool call of the agent. Returns its id, which is made up where the agent gave none.

        Raises:
            LimitReached: The agent may not call any more tools.
        """
        limit = self._task.limits.tool_calls
        if limit is not None and len(self.calls) >= limit:
            raise LimitReached(FailureKind.BUDGET_EXCEEDED, f"called more than {limit} tools")
        name = call_id or f"call-{self._task.attempt}-{len(self.calls)}"
        self.calls.append({"tool": tool, "arguments": arguments})
        self.add(
            "agent",
            TOOL_CALL,
            tool=tool,
            input=arguments,
            call_id=name,
            latency_ms=milliseconds(seconds),
            attributes=dict(attributes or {}),
        )
        return name

    def answered(self, tool: str, arguments: Any, call_id: str) -> ToolAnswer:
        """Have a tool called, and record its result.

        Raises:
            ToolFault: There is no answer where one is required; that is recorded too.
            LimitReached: The tool would take longer than the attempt may.
        """
        began = self._clocks.monotonic()
        try:
            answer = self._tools.answer(tool, arguments)
        except ToolFault as fault:
            self._result(tool, call_id, None, fault.problem, began, "missing")
            raise
        self.retries += answer.retries
        self.waited += answer.waited
        self._wait(answer.delay_ms / 1000)
        self._result(tool, call_id, answer.output, answer.error, began + answer.waited, answer.source)
        self.check_time()
        return answer

    def refused(self, tool: str, call_id: str, problem: str) -> ToolAnswer:
        """Record that a call was not made, and why; the agent is told."""
        answer = ToolAnswer(error=problem, source="refused")
        self._result(tool, call_id, None, problem, self._clocks.monotonic(), answer.source)
        return answer

    def _wait(self, seconds: float) -> None:
        if seconds <= 0:
            return
        limit = self._task.limits.seconds
        left = seconds if limit is None else max(0.0, limit - self.seconds)
        self._clocks.sleep(min(seconds, left))
        if left < seconds:
            self.seconds += left
            raise LimitReached(FailureKind.TIMEOUT, f"did not end within {limit:g} s")

    def _result(self, tool: str, call_id: str, output: Any, error: Any, began: float, source: str) -> None:
        seconds = max(0.0, self._clocks.monotonic() - began)  # a pinned clock knows of no waiting
        self.seconds += seconds
        self.add(
            "tool",
            TOOL_RESULT,
            tool=tool,
            output=output,
            error=error,
            call_id=call_id,
            latency_ms=milliseconds(seconds),
            attributes={TOOL_ANSWER_SOURCE: source},
        )

    def check_time(self) -> None:
        """Raises LimitReached when the attempt has taken too long."""
        limit = self._task.limits.seconds
        if limit is not None and self.seconds > limit:
            raise LimitReached(FailureKind.TIMEOUT, f"did not end within {limit:g} s")

    def count_step(self, tokens: int | None) -> None:
        """Count an answer of a model. Raises LimitReached when it was one too many, or too long."""
        limits = self._task.limits
        self.steps += 1
        self.tokens += tokens or 0
        self.check_time()
        if limits.tokens is not None and self.tokens > limits.tokens:
            raise LimitReached(
                FailureKind.BUDGET_EXCEEDED, f"used {self.tokens} tokens, more than {limits.tokens}"
            )

    def begin_step(self) -> None:
        """Raises LimitReached when the model may not be asked again."""
        limit = self._task.limits.steps
        if limit is not None and self.steps >= limit:
            raise LimitReached(FailureKind.BUDGET_EXCEEDED, f"did not come to an end within {limit} steps")

    def result(
        self, output: Any = None, failure: FailureKind | None = None, problem: str = ""
    ) -> AttemptResult:
        """What the attempt gave; a failure is recorded as an error of the agent's."""
        if failure is not None:
            self.add("agent", MESSAGE, error=f"{failure.value}: {problem}")
        return AttemptResult(
            events=self.events,
            output=output,
            tool_calls=self.calls,
            failure=failure,
            problem=problem,
            seconds=self.seconds,
            retries=self.retries,
            artifacts=self.artifacts,
        )


def milliseconds(seconds: float | None) -> float | None:
    """Seconds as milliseconds, to the microsecond."""
    return None if seconds is None else round(seconds * 1000, 3)

"""Writing down what happens in an attempt as events."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from agent_eval.agents.base import AttemptResult, Surroundings, Task, ToolAnswer, ToolFault
from agent_eval.contracts import Event, canonical_json
from agent_eval.contracts.trace import MESSAGE, TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.storage.json import Limits, parse

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


_USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
}


class UnusableAnswer(Exception):
    """An answer that is not what it must be, with the kind of failure and the problem in words."""

    def __init__(self, failure: FailureKind, problem: str) -> None:
        super().__init__(problem)
        self.failure, self.problem = failure, problem


def read_answer(data: bytes, *, what: str) -> dict[str, Any]:
    """The agent's answer as an object.

    Args:
        data: What it gave.
        what: What to call that in messages, such as `standard output`.

    Raises:
        UnusableAnswer: `MISSING_OUTPUT` when there is nothing, `PARSE_ERROR` when it is not JSON,
            `TYPE_ERROR` when it is not an object.
    """
    if not data.strip():
        raise UnusableAnswer(FailureKind.MISSING_OUTPUT, f"gave nothing on {what}")
    try:
        value = parse(data, source=what, limits=Limits(max_bytes=len(data)))
    except InvalidInput as error:
        raise UnusableAnswer(FailureKind.PARSE_ERROR, f"gave no JSON: {error.message}") from None
    return checked_answer(value)


def checked_answer(value: Any) -> dict[str, Any]:
    """A value as an answer.

    Raises:
        UnusableAnswer: `TYPE_ERROR`.
    """
    if not isinstance(value, dict):
        raise UnusableAnswer(
            FailureKind.TYPE_ERROR, f"answered with {_kind(value)} instead of an object with assistant_output"
        )
    calls = value.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise UnusableAnswer(FailureKind.TYPE_ERROR, f"gave {_kind(calls)} as tool_calls instead of a list")
    for number, call in enumerate(calls or []):
        if not isinstance(call, dict) or not isinstance(call.get("tool", call.get("name")), str):
            raise UnusableAnswer(FailureKind.TYPE_ERROR, f"gave tool_calls[{number}] without a tool's name")
    return value


def record_answer(recorder: Recorder, answer: dict[str, Any], seconds: float) -> AttemptResult:
    """Record an agent's answer: its tool calls, what its tools gave, and its output.

    One with neither fails the attempt: an agent that did nothing breaks no rule, and would pass.

    Args:
        recorder: Has the user's message already.
        answer: From `checked_answer`.
        seconds: How long the agent took.
    """
    try:
        for call in answer.get("tool_calls") or []:
            tool = call.get("tool", call.get("name"))
            arguments = call.get("arguments", call.get("input", {}))
            stated = call.get("id", call.get("call_id"))
            call_id = recorder.called(tool, arguments, stated if isinstance(stated, str) else None)
            recorder.answered(tool, arguments, call_id)
    except (ToolFault, LimitReached) as problem:
        return recorder.result(None, problem.failure, problem.problem)
    output = answer.get("assistant_output", answer.get("output"))
    error = answer.get("error")
    if error is None and output in (None, "") and not recorder.calls:
        return recorder.result(
            None, FailureKind.MISSING_OUTPUT, "answered with neither an output nor tool calls"
        )
    recorder.said(output, seconds=seconds, attributes=attributes_of(answer))
    if error is not None:
        words = error if isinstance(error, str) else json.dumps(error)
        return recorder.result(output, FailureKind.AGENT_ERROR, f"reported an error: {words[:2000]}")
    return recorder.result(output)


def attributes_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Model, tokens and cost that an answer states, by the names of OpenTelemetry."""
    attributes: dict[str, Any] = {}
    if isinstance(answer.get("model"), str):
        attributes["gen_ai.response.model"] = answer["model"]
    usage = answer.get("usage")
    for name, attribute in _USAGE.items():
        if isinstance(usage, dict) and _is_figure(usage.get(name)):
            attributes.setdefault(attribute, usage[name])
    if _is_figure(answer.get("cost_usd")):
        attributes["cost_usd"] = answer["cost_usd"]
    return attributes


def storable(value: Any) -> Any:
    """The value as JSON can hold it: other types become text, broken characters are replaced."""
    try:
        canonical_json(value)
    except TypeError:
        try:
            text = json.dumps(value, default=repr, ensure_ascii=False)
            return parse(text.encode("utf-8", "replace"), source="value")
        except (InvalidInput, ValueError, TypeError, RecursionError):
            return repr(value)[:2000].encode("utf-8", "replace").decode()
    return value


def in_order(value: Any) -> Any:
    """The same JSON value with the keys of its objects in order, as a pack or a cassette has them.

    An agent that prints what it was given says the same then when it is given that from a file of ours.
    """
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _kind(value: Any) -> str:
    names = {str: "a string", list: "a list", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)

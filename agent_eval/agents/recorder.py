"""Record an attempt as events: `Recorder` appends them, calls tools and enforces the attempt's limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agent_eval.agents.base import AttemptEnded, AttemptResult, Surroundings, Task, ToolAnswer, ToolFault
from agent_eval.contracts import Event, Trace, canonical_json
from agent_eval.contracts.event import STOPPED_SHORT, Finish, finish_of
from agent_eval.contracts.trace import MESSAGE, TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.models.retries import Reply, T
from agent_eval.models.usage import NO_FACTS, AnswerFacts
from agent_eval.storage.json import Limits, parse, within_64_bits

TOOL_ANSWER_SOURCE = "agent_eval.tool_response.source"
"""Attribute of a tool's result: the origin of the answer, as in `ToolAnswer.source`."""

FINAL_OUTPUT = "final_output"
"""The same attribute of a call, and the origin of its answer: the call is the agent's answer itself."""


class LimitReached(AttemptEnded):
    """The attempt exceeds one of its limits."""


class Recorder:
    """Records the events of one attempt and enforces its limits."""

    def __init__(self, task: Task, surroundings: Surroundings) -> None:
        self._task, self._tools = task, surroundings.tools
        self._clocks, self._retry = surroundings.clocks, surroundings.retry
        self.events: list[Event] = []
        self.calls: list[dict[str, Any]] = []
        self._call_ids: set[str] = set()
        self.retries = 0
        self.seconds = 0.0
        self.waited = 0.0
        self.steps = 0
        self.tokens: float = 0
        self.artifacts: dict[str, bytes] = {}

    def ask(self, send: Callable[[], Reply[T]]) -> tuple[Reply[T], float]:
        """Send a request to the agent, again where that may help; return the reply, and its seconds.

        Waits and earlier attempts are not the agent's time; calls of tools during the request are part of it.
        """
        before, seconds = self.seconds, 0.0

        def timed() -> Reply[T]:
            nonlocal seconds
            began = self._clocks.monotonic()
            reply = send()
            seconds = self._clocks.monotonic() - began
            return reply

        reply, retries = self._retry(timed)
        self.retries += retries
        self.seconds = before + seconds
        return reply, seconds

    def add(self, actor: str, kind: str, **fields: Any) -> Event:
        """Append an event."""
        ts = fields.pop("ts", None) or self._clocks.stamp()
        try:
            canonical_json(fields)
        except TypeError:
            fields = {name: storable(value) for name, value in fields.items()}
        event = Event(
            idx=len(self.events), ts=ts, actor=actor, type=kind, attempt=self._task.attempt, **fields
        )
        self.events.append(event)
        return event

    def record_input(self) -> None:
        """Record the case's input, or that of its first turn, as the user's message."""
        self.add("user", MESSAGE, input=self._task.case.inputs[0])

    def record_message(
        self, output: Any, *, seconds: float | None = None, facts: AnswerFacts = NO_FACTS
    ) -> None:
        """Record a message of the agent, with the seconds that the agent took and what is known of it."""
        self.add("agent", MESSAGE, output=output, latency_ms=milliseconds(seconds), **facts.event_fields())

    def record_call(
        self,
        tool: str,
        arguments: Any,
        call_id: str | None = None,
        *,
        seconds: float | None = None,
        facts: AnswerFacts = NO_FACTS,
    ) -> str:
        """Record a tool call of the agent; return the call's id in the evidence.

        It is generated if the agent set none, and made unique if the agent used it before: some models number
        the calls of each answer from the beginning.
        """
        wanted = call_id or f"call-{self._task.attempt}-{len(self.calls)}"
        self.count_call(tool, arguments)
        call_id, count = wanted, 2
        while call_id in self._call_ids:
            call_id, count = f"{wanted}-{count}", count + 1
        self._call_ids.add(call_id)
        fields = facts.event_fields()
        if tool == self._task.case.final_output_tool:
            fields["attributes"] = {**fields.get("attributes", {}), TOOL_ANSWER_SOURCE: FINAL_OUTPUT}
        fields["latency_ms"] = milliseconds(seconds)
        self.add("agent", TOOL_CALL, tool=tool, input=arguments, call_id=call_id, **fields)
        return call_id

    def count_call(self, tool: str, arguments: Any) -> None:
        """Count a tool call; raise LimitReached where the agent may not call any more tools."""
        limit = self._task.limits.tool_calls
        if limit is not None and len(self.calls) >= limit:
            raise LimitReached(FailureKind.BUDGET_EXCEEDED, f"called more than {limit} tools")
        self.calls.append({"tool": tool, "arguments": storable(arguments)})

    def call_tool(
        self, tool: str, arguments: Any, call_id: str | None, *, refusal: str | None = None
    ) -> ToolAnswer:
        """Call a tool, record its result, and return it. The case's `final_output_tool` has none.

        Nothing is recorded without a `call_id`: the agent reports the call and its result itself. `refusal`
        is why the call is not made, which is the tool's answer then.

        Raises:
            ToolFault: The call has no answer, and the attempt needs one. The failure is recorded too.
            LimitReached: The tool takes longer than the attempt may.
        """
        began = self._clocks.monotonic()
        if refusal is not None:
            self._record_result(tool, call_id, None, refusal, began, "refused")
            return ToolAnswer(error=refusal, source="refused")
        if tool == self._task.case.final_output_tool:
            return ToolAnswer(source=FINAL_OUTPUT)
        try:
            answer = self._tools.answer(tool, arguments)
        except ToolFault as fault:
            self._record_result(tool, call_id, None, fault.problem, began, "missing")
            raise
        self.retries += answer.retries
        self.waited += answer.waited
        self._record_result(tool, call_id, answer.output, answer.error, began + answer.waited, answer.source)
        self.check_time()
        return answer

    def call_from_outside(self, tool: str, arguments: Any, *, is_recorded: bool) -> dict[str, Any]:
        """Make a call that the agent asks for from its own process; return the answer as it is sent there."""
        call_id = self.record_call(tool, arguments) if is_recorded else None
        answer = self.call_tool(tool, arguments, call_id)
        return {"output": answer.output, "error": answer.error, "source": answer.source}

    def _record_result(
        self, tool: str, call_id: str | None, output: Any, error: Any, began: float, source: str
    ) -> None:
        seconds = max(0.0, self._clocks.monotonic() - began)  # a pinned clock does not count waiting
        self.seconds += seconds
        if call_id is None:
            return
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
        """Check the attempt's time limit."""
        limit = self._task.limits.seconds
        if limit is not None and self.seconds > limit:
            raise LimitReached(FailureKind.TIMEOUT, f"did not end within {limit:g} s")

    def count_step(self, tokens: float | None) -> None:
        """Count an answer of a model, and the tokens it took."""
        self.steps += 1
        self.check_time()
        self.count_tokens(tokens)

    def count_tokens(self, tokens: float | None) -> None:
        """Count tokens that an answer took."""
        limit = self._task.limits.tokens
        self.tokens += tokens or 0
        if limit is not None and self.tokens > limit:
            raise LimitReached(FailureKind.BUDGET_EXCEEDED, f"used {self.tokens} tokens, more than {limit}")

    def begin_step(self) -> None:
        """Check, before a request to a model, that the attempt may have another one."""
        limit = self._task.limits.steps
        if limit is not None and self.steps >= limit:
            raise LimitReached(FailureKind.BUDGET_EXCEEDED, f"did not come to an end within {limit} steps")

    def result(
        self,
        output: Any = None,
        failure: FailureKind | None = None,
        problem: str = "",
        *,
        block_reason: str | None = None,
    ) -> AttemptResult:
        """Return the attempt's result; a failure is also recorded, as an error of the agent.

        `block_reason` is what kept the agent's answer back.
        """
        if self._task.case.final_output_tool is not None:
            output = Trace(self.events, self._task.case.final_output_tool).final_output
        if failure is not None:
            self.add("agent", MESSAGE, error=f"{failure.value}: {problem}", block_reason=block_reason)
        return AttemptResult(
            events=self.events,
            output=storable(output),
            tool_calls=self.calls,
            failure=failure,
            problem=problem,
            seconds=self.seconds,
            retries=self.retries,
            steps=self.steps,
            tokens=self.tokens,
            artifacts=self.artifacts,
        )


def cut_short(reason: str | None) -> tuple[FailureKind, str] | None:
    """Say why an answer with this reason to stop is none that can be judged: the kind of failure, and words.

    None if it is one, or if nothing says so.
    """
    finish, stated = finish_of(reason), str(reason)[:100]
    if finish is Finish.UNKNOWN:
        return FailureKind.AGENT_ERROR, f"stopped for an unknown reason: {stated}"
    if finish not in STOPPED_SHORT:
        return None
    failure, words = STOPPED_SHORT[finish]
    return failure, f"{words.removeprefix('the ')} (it stopped for: {stated})"


def milliseconds(seconds: float | None) -> float | None:
    """Convert seconds to milliseconds, rounded to the microsecond."""
    return None if seconds is None else round(seconds * 1000, 3)


def plain(value: Any) -> Any:
    """Convert a value to plain JSON: other types become text, lone surrogates are replaced.

    Integers keep their value, however long they are.
    """
    try:
        canonical_json(value)
    except TypeError:
        pass
    else:
        return value
    try:
        text = json.dumps(value, default=repr, ensure_ascii=False).encode("utf-8", "replace")
        return parse(text, source="value", limits=Limits(wide_integers=True))
    except (InvalidInput, ValueError, TypeError, RecursionError):
        pass
    try:
        return repr(value)[:2000].encode("utf-8", "replace").decode()
    # The method of any class.
    except Exception:
        return f"a value of the type {type(value).__name__}"


def storable(value: Any) -> Any:
    """Convert a value to one that evidence can hold: as `plain`, and integers beyond 64 bits become text."""
    try:
        canonical_json(value)
    except TypeError:
        return within_64_bits(plain(value))
    return value


def as_text(value: Any) -> str:
    """Return a value as the text of a message: JSON where it is none, the same for a suite and its pack."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def sort_keys(value: Any) -> Any:
    """Sort the keys of all objects in a JSON value, as a pack or a cassette has them.

    An agent that prints its input then prints the same for a suite as for the pack made of it.
    """
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    return [sort_keys(item) for item in value] if isinstance(value, list) else value

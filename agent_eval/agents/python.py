"""An agent that is a Python function in this very process.

    def agent(task): return {"assistant_output": "Hello " + task["input"], "tool_calls": []}

It is given what a command is given, and answers the same; a string does for an object with that output. A
function with a second parameter is given one to call tools with while it works:

    def agent(task, call_tool):
        order = call_tool("lookup", {"id": task["input"]})   # raises RuntimeError when the tool fails
        return {"assistant_output": f"It is {order['status']}."}
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Surroundings, Task, ToolFault
from agent_eval.agents.helper_thread import HelperThread
from agent_eval.agents.load import load_function
from agent_eval.agents.recorder import (
    LimitReached,
    Recorder,
    UnusableAnswer,
    checked_answer,
    in_order,
    record_answer,
    storable,
)
from agent_eval.contracts import canonical_json
from agent_eval.errors import FailureKind


class PythonAgent(Agent):
    """Calls a function for every attempt; many threads call it at once.

    Nothing ends a function that does not return: it is left behind when its time is up, and the attempt is a
    time-out. An agent that is not trusted belongs into a process of its own.

    Args:
        spec: `module:function`.

    Raises:
        UsageError: It cannot be imported or is not callable.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._function = load_function(spec, what="agent")
        self._calls_tools = _takes_two(self._function)
        self._helper = HelperThread()

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> PythonAgent:
        return cls(rest)

    @classmethod
    @override
    def from_description(
        cls, described: Mapping[str, Any], options: AgentOptions
    ) -> tuple[str, AgentOptions]:
        return f"python:{described['function']}", options

    @override
    def describe(self) -> dict[str, Any]:
        return {"agent": "python", "function": self._spec}

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        work = _Work(self._function, self._calls_tools, task, recorder)
        began = surroundings.clocks.monotonic()
        seconds = task.limits.seconds
        if seconds is None:
            work.call()
            finished = True
        else:
            finished = self._helper.run(work.call, seconds)
        recorder.seconds = max(0.0, surroundings.clocks.monotonic() - began - recorder.waited)
        if not finished:
            late = Recorder(task, surroundings)  # the function that was left behind writes to the other one
            late.events, late.calls, late.seconds = (
                list(recorder.events),
                list(recorder.calls),
                recorder.seconds,
            )
            return late.result(None, FailureKind.TIMEOUT, f"did not end within {seconds:g} s")
        if work.failure is not None:
            if work.trace:
                recorder.artifacts["stderr.txt"] = work.trace
            return recorder.result(None, work.failure, work.problem)
        return _record(work.value, recorder, task.limits.output_bytes)


class _Work:
    """One call of the function."""

    def __init__(
        self, function: Callable[..., Any], calls_tools: bool, task: Task, recorder: Recorder
    ) -> None:
        self._function, self._calls_tools = function, calls_tools
        self._payload, self._recorder = in_order(task.payload()), recorder
        self.value: Any = None
        self.failure: FailureKind | None = None
        self.problem = ""
        self.trace = b""

    def call(self) -> None:
        try:
            tools = (self._call_tool,) if self._calls_tools else ()
            self.value = self._function(self._payload, *tools)
        # An agent may raise anything, sys.exit() included. What ended the attempt is noted already.
        except BaseException as error:
            if self.failure is not None:
                return
            self.failure = FailureKind.AGENT_ERROR
            self.problem = (
                f"raised {type(error).__name__}: {error}"[:2000].encode("utf-8", "replace").decode()
            )
            self.trace = traceback.format_exc().encode("utf-8", "replace")

    def _call_tool(self, tool: str, arguments: Any = None) -> Any:
        if self.failure is not None:
            raise RuntimeError("the attempt is over: no further tools are called")
        given = storable({} if arguments is None else arguments)
        try:
            call_id = self._recorder.record_call(str(tool), given)
            answer = self._recorder.call_tool(str(tool), given, call_id)
        except (ToolFault, LimitReached) as problem:
            # Noted here: the function may catch what it does not know and answer all the same.
            self.failure, self.problem = problem.failure, problem.problem
            raise
        if answer.error is not None:
            raise RuntimeError(f"the tool {tool} failed: {answer.error}")
        return in_order(answer.output)


def _record(value: Any, recorder: Recorder, most: int) -> AttemptResult:
    answer = {"assistant_output": value} if isinstance(value, str) else value
    try:
        size = len(canonical_json(answer))
    except TypeError as error:
        problem = f"returned something that is not JSON: {error}"
        return recorder.result(None, FailureKind.TYPE_ERROR, problem)
    if size > most:
        return recorder.result(None, FailureKind.OUTPUT_LIMIT, f"returned more than {most} bytes")
    try:
        checked = checked_answer(answer)
    except UnusableAnswer as unusable:
        return recorder.result(None, unusable.failure, unusable.problem)
    return record_answer(recorder, checked, recorder.seconds)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True

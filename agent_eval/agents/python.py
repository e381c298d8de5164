"""The `python` agent: a Python function.

    def agent(task): return {"assistant_output": "Hello " + task["input"], "tool_calls": []}

The function receives and returns the same objects as a command does; it may return a string instead of an
object with that output. A function with a second parameter receives a function that calls tools:

    def agent(task, call_tool):
        order = call_tool("lookup", {"id": task["input"]})   # raises RuntimeError if the tool fails
        return {"assistant_output": f"It is {order['status']}."}
"""

from __future__ import annotations

import inspect
import signal
import threading
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from agent_eval.agents.answer import UnusableAnswer, check_answer, record_answer
from agent_eval.agents.base import AgentOptions, AttemptResult, LocalAgent, Surroundings, Task, ToolFault
from agent_eval.agents.load import accepts, check_function, load_function
from agent_eval.agents.recorder import LimitReached, Recorder, plain, sort_keys
from agent_eval.contracts import canonical_json
from agent_eval.errors import FailureKind
from agent_eval.processes.helper_thread import NAME, HelperThread
from agent_eval.storage.json import within_64_bits

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Future


class PythonAgent(LocalAgent):
    """Calls a function for every attempt, from many threads at the same time.

    An attempt whose function does not return in time is a time-out. In a process of the agent's own the
    function is interrupted, and the process is replaced; in another process its thread is abandoned. An
    `async` function runs on one event loop for all attempts, because clients that it shares expect that.

    `spec` is `module:function`, which `load` or the first attempt imports.
    """

    def __init__(self, spec: str) -> None:
        check_function(spec, what="agent")
        self._spec = spec
        self._function: Callable[..., Any] | None = None
        self._calls_tools = False
        self._loading = threading.Lock()
        self._helper, self._loop = HelperThread(), EventLoop()
        self._alarm: Alarm | None = None

    @override
    def load(self, *, alone: bool = False) -> None:
        with self._loading:
            if self._function is None:
                function = load_function(self._spec, what="agent")
                self._calls_tools = accepts(function, 2)
                self._function = function
        if alone:
            self._alarm = Alarm()

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
    def close(self) -> None:
        self._loop.close()

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        if self._function is None:
            self.load()
        assert self._function is not None
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        work = _Work(self._function, self._calls_tools, task, recorder, self._loop)
        began = surroundings.clocks.monotonic()
        finished = self._call(work, task.limits.seconds)
        recorder.seconds = max(0.0, surroundings.clocks.monotonic() - began - recorder.waited)
        if not finished:
            # An abandoned function may still write to its recorder, so the result gets a copy.
            copy = Recorder(task, surroundings)
            copy.events, copy.calls = list(recorder.events), list(recorder.calls)
            copy.seconds = recorder.seconds
            return copy.result(None, FailureKind.TIMEOUT, f"did not end within {task.limits.seconds:g} s")
        if work.failure is not None:
            if work.traceback:
                recorder.artifacts["stderr.txt"] = work.traceback
            return recorder.result(None, work.failure, work.problem)
        try:
            return _record(work.value, recorder, task.limits.output_bytes)
        # A value of the agent's own class may raise anything, which is no mistake of this program.
        except Exception as error:
            recorder.artifacts["stderr.txt"] = traceback.format_exc().encode("utf-8", "replace")
            problem = f"returned something that cannot be read: {type(error).__name__}"
            return recorder.result(None, FailureKind.TYPE_ERROR, problem)

    def _call(self, work: _Work, seconds: float | None) -> bool:
        """Call the function; return whether it returned in time."""
        if seconds is None:
            work.call()
            return True
        if self._alarm is not None:
            if self._alarm.call(work.call, seconds):
                return True
            work.cancel()
            self.left_behind = True
            return False
        if self._helper.run(work.call, seconds):
            return True
        if not work.cancel():
            self.left_behind = True
        return False


class TimeIsUp(BaseException):
    """Raised in a function that an `Alarm` interrupts."""


class Alarm:
    """Interrupts functions that the main thread calls, by a signal.

    A function that catches the interruption is interrupted again. An alarm takes over SIGALRM. Code of a C
    extension that does not check for signals cannot be interrupted.
    """

    AGAIN_SECONDS = 0.5
    """Time between two interruptions of the same function."""

    def __init__(self) -> None:
        self._armed = self._rang = False
        signal.signal(signal.SIGALRM, self._ring)

    def _ring(self, *_: object) -> None:
        if self._armed:
            self._rang = True
            raise TimeIsUp

    def call(self, function: Callable[[], object], seconds: float) -> bool:
        """Call a function; return whether it returned in time."""
        self._armed, self._rang = True, False
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6), self.AGAIN_SECONDS)
                function()
            finally:
                self._armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
        except TimeIsUp:
            return False
        return not self._rang


class EventLoop:
    """Runs coroutines of many threads on one event loop, in a thread that starts when first needed."""

    PATIENCE_SECONDS = 0.5
    """How long `responds` waits for the loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[tuple[Any, BaseException | None]]:
        """Start a coroutine; the future's result is the coroutine's result, and its exception or None."""
        import asyncio  # most functions do not need it

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_loop, args=(self._loop,), daemon=True, name=NAME).start()
            return asyncio.run_coroutine_threadsafe(_catch_all(coroutine), self._loop)

    def responds(self) -> bool:
        """Whether the loop runs and no coroutine blocks it."""
        loop, answered = self._loop, threading.Event()
        if loop is None:
            return True
        loop.call_soon_threadsafe(answered.set)
        return answered.wait(self.PATIENCE_SECONDS)

    def close(self) -> None:
        """Cancel the coroutines that still run, and stop the loop."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _cancel_tasks() -> None:
    import asyncio

    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _catch_all(coroutine: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    try:
        return await coroutine, None
    # Also SystemExit, which would otherwise end the loop.
    except BaseException as error:
        return None, error


class _Work:
    """One call of the function, with its result or failure."""

    def __init__(
        self,
        function: Callable[..., Any],
        calls_tools: bool,
        task: Task,
        recorder: Recorder,
        loop: EventLoop,
    ) -> None:
        self._function, self._calls_tools, self._loop = function, calls_tools, loop
        self._payload, self._recorder = sort_keys(task.payload()), recorder
        self._future: Future[tuple[Any, BaseException | None]] | None = None
        self.value: Any = None
        self.failure: FailureKind | None = None
        self.problem = ""
        self.traceback = b""

    def call(self) -> None:
        try:
            tools = (self._call_tool,) if self._calls_tools else ()
            value = self._function(self._payload, *tools)
            self.value = self._await(value) if inspect.iscoroutine(value) else value
        except TimeIsUp:
            raise
        # An agent may raise anything, also SystemExit.
        except BaseException as error:
            if self.failure is not None:
                return  # `_call_tool` has recorded why the attempt ended
            self.failure = FailureKind.AGENT_ERROR
            self.problem = (
                f"raised {type(error).__name__}: {error}"[:2000].encode("utf-8", "replace").decode()
            )
            self.traceback = traceback.format_exc().encode("utf-8", "replace")

    def _await(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        self._future = self._loop.submit(coroutine)
        value, error = self._future.result()
        if error is not None:
            raise error
        return value

    def cancel(self) -> bool:
        """Cancel the call, which only works for a coroutine, on a loop that no coroutine blocks."""
        if self._future is None:
            return False
        self._future.cancel()
        return self._loop.responds()

    def _call_tool(self, tool: str, arguments: Any = None) -> Any:
        if self.failure is not None:
            raise RuntimeError("the attempt is over: no further tools are called")
        plain_arguments = plain({} if arguments is None else arguments)
        try:
            call_id = self._recorder.record_call(str(tool), plain_arguments)
            answer = self._recorder.call_tool(str(tool), plain_arguments, call_id)
        except (ToolFault, LimitReached) as problem:
            # Recorded here, because the function may catch the exception and answer nevertheless.
            self.failure, self.problem = problem.failure, problem.problem
            raise
        if answer.error is not None:
            raise RuntimeError(f"the tool {tool} failed: {answer.error}")
        return sort_keys(answer.output)


def _record(value: Any, recorder: Recorder, max_bytes: int) -> AttemptResult:
    answer = {"assistant_output": value} if isinstance(value, str) else value
    try:
        size = _size(answer)
    except (TypeError, RecursionError) as error:
        problem = f"returned something that is not JSON: {error}"
        return recorder.result(None, FailureKind.TYPE_ERROR, problem)
    if size > max_bytes:
        return recorder.result(None, FailureKind.OUTPUT_LIMIT, f"returned more than {max_bytes} bytes")
    try:
        checked = check_answer(answer)
    except UnusableAnswer as unusable:
        return recorder.result(None, unusable.failure, unusable.problem)
    return record_answer(recorder, checked, recorder.seconds)


def _size(answer: Any) -> int:
    """Count the bytes of an answer as JSON. Raises TypeError if it is not JSON."""
    try:
        return len(canonical_json(answer))
    except TypeError:
        return len(canonical_json(within_64_bits(answer)))

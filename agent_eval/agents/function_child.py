"""The child process in which a Python function under test, or an agent object of a framework, runs.

`python` starts it and asks it. It has one event loop, and any number of calls in progress: those of an
`async` function and of an agent object on the loop, others in threads. Requests and answers are lines of
JSON, each with the number of its call. What the function prints goes to standard error, so that only this
module answers.

    {"id": 1, "task": {…}, "most": 8388608, …}         calls the function
    {"id": 1, "tool": "lookup", "arguments": {…}}      the function calls a tool …
    {"id": 1, "output": …, "error": …}                 … and receives its answer
    {"id": 1, "value": …}, or `failure` and `problem`  the call has ended
    {"id": 1, "cancel": true}, {"id": 1, "stopped": …} the time of a call is up; whether it has ended
    {"id": 0, "end_session": "…"}                      the conversation of an agent object is over
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson
from typing_extensions import override

from agent_eval.agents.frameworks import AgentObject, CaseTools, Unfinished
from agent_eval.agents.load import accepts, load_agent
from agent_eval.errors import FailureKind, UsageError, words_of
from agent_eval.processes.serving import Answers, own_streams

if TYPE_CHECKING:
    import asyncio

_MOST_THREADS = 1024


def main(spec: str) -> None:
    """Serve calls of a function, `module:function`, until standard input ends."""
    requests, answers = own_streams()
    try:
        function = load_agent(spec)
    except UsageError as error:
        answers.send(orjson.dumps({"refused": error.message, "remedy": error.remedy}))
    else:
        is_object = isinstance(function, AgentObject)
        about = {name: getattr(function, name) for name in ("unable", "one_at_a_time")} if is_object else {}
        answers.send(orjson.dumps({"loaded": True, **about}))
        _Calls(function, answers).serve(requests)
    with suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    os._exit(0)  # threads of the function would keep the process alive


class _Calls:
    """The calls in progress."""

    def __init__(self, function: Callable[..., Any] | AgentObject, channel: Answers) -> None:
        self._function, self._calls_tools, self._channel = function, accepts(function, 2), channel
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "agent-under-test")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._in_threads: set[int] = set()
        self._on_loop: dict[int, asyncio.Task[None] | None] = {}
        self._tools: dict[int, SimpleQueue[dict[str, Any]]] = {}

    def serve(self, requests: BinaryIO) -> None:
        for line in requests:
            request = json.loads(line)
            number = request["id"]
            if "task" in request:
                self._in_threads.add(number)
                self._tools[number] = SimpleQueue()
                self._threads.submit(self._call, number, request)
            elif "end_session" in request:
                if isinstance(self._function, AgentObject):
                    self._function.end_session(request["end_session"])
            elif "cancel" in request:
                self._cancel(number)
            elif number in self._tools:
                self._tools[number].put(request)

    def _call(self, number: int, request: dict[str, Any]) -> None:
        task, most = request["task"], request["most"]
        try:
            caller = _ToolCaller(number, self._tools[number], self._channel)
            if isinstance(self._function, AgentObject):
                value = self._function(task, request, caller if request["answers"] else None)
            else:
                value = self._function(task, caller) if self._calls_tools else self._function(task)
            if inspect.iscoroutine(value):
                self._await(number, value, most)
                return
            line = _answer_line(value, most)
        # An agent may raise anything, also SystemExit.
        except BaseException as error:
            line = _failure_line(error)
        self._end(number, line)

    def _end(self, number: int, line: bytes) -> None:
        self._in_threads.discard(number)
        self._on_loop.pop(number, None)
        self._tools.pop(number, None)
        self._channel.send(b'{"id":%d,%b' % (number, line))

    def _stopped(self, number: int, has_ended: bool) -> None:
        self._channel.send(orjson.dumps({"id": number, "stopped": has_ended}))

    def _await(self, number: int, coroutine: Coroutine[Any, Any, Any], most: int) -> None:
        """Await a coroutine on the loop, which starts when first needed."""
        import asyncio  # most functions do not need it

        async def awaited() -> None:
            self._on_loop[number] = asyncio.current_task()
            try:
                line = _answer_line(await coroutine, most)
            # Also SystemExit, which would otherwise end the loop.
            except BaseException as error:
                line = _failure_line(error)
            self._end(number, line)

        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(self._threads)
                threading.Thread(target=self._loop.run_forever, daemon=True, name="agent-under-test").start()
        self._on_loop[number] = None
        self._in_threads.discard(number)
        asyncio.run_coroutine_threadsafe(awaited(), self._loop)

    def _cancel(self, number: int) -> None:
        """Cancel a call whose time is up, and tell whether it has ended: a thread cannot be ended."""
        if number not in self._on_loop:
            self._stopped(number, number not in self._in_threads)
            return

        def cancel() -> None:
            if (task := self._on_loop.get(number)) is not None:
                task.cancel()
            goes_on = isinstance(self._function, AgentObject) and self._function.leaves_threads
            self._stopped(number, not goes_on)

        assert self._loop is not None
        # On the loop: where a coroutine blocks it, nothing is cancelled and nothing is told.
        self._loop.call_soon_threadsafe(cancel)


class _ToolCaller(CaseTools):
    """The tools of one call."""

    def __init__(self, number: int, answers: SimpleQueue[dict[str, Any]], channel: Answers) -> None:
        self._number, self._answers, self._channel = number, answers, channel
        self._one_at_a_time = threading.Lock()

    @override
    def answer(self, tool: str, arguments: Any, *, is_recorded: bool = False) -> dict[str, Any]:
        name = orjson.dumps(str(tool).encode("utf-8", "replace").decode())
        try:
            encoded = orjson.dumps(arguments)
        except TypeError:  # what is not JSON becomes text; integers keep their value, however long they are
            from agent_eval.agents.recorder import plain  # few values need it

            encoded = json.dumps(plain(arguments)).encode()
        fields = (self._number, name, encoded, b"true" if is_recorded else b"false")
        with self._one_at_a_time:
            self._channel.send(b'{"id":%d,"tool":%b,"arguments":%b,"recorded":%b}' % fields)
            answer = self._answers.get()
        if "over" in answer:
            raise RuntimeError(answer["over"])
        return answer


def _answer_line(value: Any, most: int) -> bytes:
    """Encode what the function returned, without the beginning of the object."""
    try:
        try:
            data = orjson.dumps(value)
        except TypeError:
            from agent_eval.storage.json import within_64_bits  # few values need it

            data = orjson.dumps(within_64_bits(value))
    except (TypeError, RecursionError) as error:
        return _line(FailureKind.TYPE_ERROR, f"returned something that is not JSON: {error}")
    # A value of the agent's own class may raise anything.
    except Exception as error:
        problem = f"returned something that cannot be read: {type(error).__name__}"
        return _line(FailureKind.TYPE_ERROR, problem, error)
    if len(data) > most:
        return _line(FailureKind.OUTPUT_LIMIT, f"returned more than {most} bytes")
    return b'"value":' + data + b"}"


def _failure_line(error: BaseException) -> bytes:
    if isinstance(error, Unfinished):
        return _line(error.failure, error.problem, error.__cause__, error.events)
    return _line(FailureKind.AGENT_ERROR, f"raised {words_of(error)}", error)


def _line(
    failure: FailureKind, problem: str, error: BaseException | None = None, events: Any = None
) -> bytes:
    trace = ""
    if error is not None:
        with suppress(Exception):
            inner = error.__traceback__ and error.__traceback__.tb_next  # without this module's own frame
            trace = "".join(traceback.format_exception(type(error), error, inner or error.__traceback__))
    fields = {"failure": failure.value, "problem": problem, "traceback": trace, "events": events}
    # An exception's words may be no Unicode.
    text = json.dumps(fields, ensure_ascii=False).encode("utf-8", "replace")
    return text[1:]

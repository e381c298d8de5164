"""The `python` agent: a Python function, or an agent object of a framework (`frameworks`).

    def agent(task): return {"assistant_output": "Hello " + task["input"], "tool_calls": []}

The function receives and returns the same objects as a command does; it may return a string instead of an
object with that output. A function with a second parameter receives a function that calls tools:

    def agent(task, call_tool):
        order = call_tool("lookup", {"id": task["input"]})   # raises RuntimeError if the tool fails
        return {"assistant_output": f"It is {order['status']}."}

It runs in a process of its own (`function_child`), which stays alive and has all attempts in progress in it.
What a function does to its process is its own failure: a process that ends takes the other attempts along, so
these are run again one at a time, and the guilty one fails. A function that does not return in time leaves a
thread behind that cannot be ended; its process then takes no further attempt, and is killed once the others
in it have ended.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

from typing_extensions import override

from agent_eval.agents.answer import check_answer, record_answer, record_events
from agent_eval.agents.base import (
    Agent,
    AgentOptions,
    AttemptEnded,
    AttemptResult,
    Disturbed,
    Opening,
    Surroundings,
    Task,
    ToolFault,
)
from agent_eval.agents.load import check_function
from agent_eval.agents.recorder import LimitReached, Recorder, milliseconds
from agent_eval.agents.tools import has_answers
from agent_eval.contracts import Case
from agent_eval.contracts.event import MESSAGE
from agent_eval.errors import AgentEvalError, FailureKind, NotEvaluable, UsageError
from agent_eval.processes.child import ended_how
from agent_eval.processes.living_child import SharedChild
from agent_eval.processes.privacy import OF_THE_SIGNER
from agent_eval.storage.json import Limits, dumps, parse

_START = (
    "import json, sys; about = json.loads(sys.argv[1]); sys.path[:] = about['path']; "
    "from agent_eval.agents.function_child import main; main(about['function'])"
)
_RESPONSE_SECONDS = 5.0
"""How long a process may take to react where the time of a call is up, before it counts as held up."""
_EXIT_SECONDS = 5.0
"""How long a process may take to end by itself: the exit handlers of the agent's modules run then."""
_LINE_BYTES = 64 << 20
"""What is the size of no answer: the child itself refuses those that are larger than the attempt's limit."""
_LONGEST_WAIT = 3600.0

_Message = dict[str, Any]


class PythonAgent(Agent):
    """Calls a function for every attempt, from many threads at the same time.

    `spec` is `module:function`, which the first attempt imports. The function's process has the environment
    of this program, without what evidence is signed with.
    """

    def __init__(self, spec: str, environ: Mapping[str, str] | None = None) -> None:
        check_function(spec, what="agent")
        self._spec, self._environ = spec, dict(environ or os.environ)
        self._changed = threading.Condition()
        self._process: _FunctionProcess | None = None
        self._processes: set[_FunctionProcess] = set()
        self._sessions: dict[str, _FunctionProcess] = {}
        self._refusal: AgentEvalError | None = None
        self._running = self._waiting = 0
        """Attempts in progress, and those that wait until there are none."""
        self._alone: int | str | None = None
        """The attempt or the conversation that no other may disturb."""

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> PythonAgent:
        return cls(rest, options.environ)

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any], options: AgentOptions) -> Opening:
        return f"python:{described['function']}", options

    @override
    def describe(self) -> dict[str, Any]:
        return {"agent": "python", "function": self._spec}

    @override
    def end_session(self, session_id: str) -> None:
        with self._changed:
            process = self._sessions.pop(session_id, None)
            if self._alone == session_id:
                self._alone = None
            self._changed.notify_all()
        if process is not None:
            process.end_session(session_id)
            self._leave(process)

    @override
    def refuse(self, case: Case) -> str | None:
        """Return what an agent object of a framework cannot carry; a function carries everything."""
        wanted = {"answers": has_answers(case), "turns": bool(case.turns or case.conversation)}
        if not any(wanted.values()):
            return None
        with self._changed:
            unable = self._usable_process().unable or {}
        return next(
            (unable[name] for name, is_wanted in wanted.items() if is_wanted and name in unable), None
        )

    @override
    def close(self) -> None:
        with self._changed:
            processes, self._processes = self._processes, set()
            self._process, self._sessions = None, {}
        for process in processes:
            process.close()

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        with self._changed:
            alone = surroundings.alone or self._usable_process().one_at_a_time
        with self._place(task, alone=alone), self._process_of(task) as process:
            began = surroundings.clocks.monotonic()
            answer = process.call(task, recorder, alone=surroundings.alone)
            recorder.seconds = max(0.0, surroundings.clocks.monotonic() - began - recorder.waited)
        if isinstance(answer, AttemptEnded):
            return recorder.result(None, answer.failure, answer.problem)
        try:
            if "failure" in answer:
                if answer["traceback"]:
                    recorder.artifacts["stderr.txt"] = answer["traceback"].encode()
                record_events(recorder, check_answer({"events": answer["events"]})["events"] or [])
                return recorder.result(None, FailureKind(answer["failure"]), answer["problem"])
            value = answer["value"]
            if process.unable is not None:  # an agent object, which reports events without latencies
                messages = [event for event in value["events"] if event["type"] == MESSAGE]
                messages[-1]["latency_ms"] = milliseconds(recorder.seconds)
            checked = check_answer({"assistant_output": value} if isinstance(value, str) else value)
        except AttemptEnded as ended:
            return recorder.result(None, ended.failure, ended.problem)
        return record_answer(recorder, checked, recorder.seconds)

    @contextmanager
    def _place(self, task: Task, *, alone: bool) -> Iterator[None]:
        """Wait until the attempt may begin: alone, or with any others that need not be."""
        owner = task.session.session_id if task.session is not None else id(task)
        with self._changed:
            if self._alone != owner:
                self._waiting += alone
                self._changed.wait_for(
                    lambda: self._alone is None and not (self._running if alone else self._waiting)
                )
                self._waiting -= alone
                self._alone = owner if alone else None
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                if task.session is None and self._alone == owner:
                    self._alone = None
                self._changed.notify_all()

    @contextmanager
    def _process_of(self, task: Task) -> Iterator[_FunctionProcess]:
        """Use the process for an attempt: for one turn of a conversation, that of the turns before."""
        with self._changed:
            session_id = task.session.session_id if task.session is not None else None
            process = self._sessions.get(session_id) if session_id is not None else None
            if process is None:
                process = self._usable_process()
                if session_id is not None:
                    self._sessions[session_id] = process
                    process.users += 1
            process.users += 1
        try:
            yield process
        finally:
            self._leave(process)

    def _usable_process(self) -> _FunctionProcess:
        if self._refusal is not None:
            raise self._refusal
        if self._process is None or not self._process.takes_more:
            try:
                self._process = _FunctionProcess(self._spec, self._environ)
            except AgentEvalError as refusal:
                self._refusal = refusal
                raise
            self._processes.add(self._process)
        return self._process

    def _leave(self, process: _FunctionProcess) -> None:
        with self._changed:
            process.users -= 1
            is_over = not process.users and not process.takes_more
            if is_over:
                self._processes.discard(process)
        if is_over:
            process.close()


class _FunctionProcess:
    """One process that has imported the function.

    `users` are the attempts and conversations in it. It `takes_more` as long as it runs and no call was left
    behind in it.

    Raises:
        UsageError: The function cannot be imported.
        NotEvaluable: The process ended meanwhile.
    """

    def __init__(self, spec: str, environ: Mapping[str, str]) -> None:
        self.users, self.takes_more = 0, True
        self._lock, self._numbers = threading.Lock(), itertools.count(1)
        self._loading: SimpleQueue[_Message] = SimpleQueue()
        self._inboxes: dict[int, SimpleQueue[_Message]] = {}
        self._has_ended = False
        about = json.dumps({"path": [path or os.getcwd() for path in sys.path], "function": spec})
        self._child = SharedChild(
            [sys.executable, "-P", "-c", _START, about],
            env={name: value for name, value in environ.items() if name not in OF_THE_SIGNER},
            on_line=self._deliver,
            on_end=self._end,
            line_bytes=_LINE_BYTES,
        )
        first = self._loading.get()
        if "refused" in first:
            self.close()
            raise UsageError(first["refused"], remedy=first["remedy"])
        if "ended" in first:
            raise NotEvaluable(
                f"the agent's process died {ended_how(first['ended'])} while it loaded the agent",
                remedy="Import the agent's module in a Python of your own to see why.",
                exit_code=first["ended"],
            )
        self.unable: dict[str, str] | None = first.get("unable")
        """Of an agent object what it cannot carry, with the reason: `answers` of a case's tools, `turns`."""
        self.one_at_a_time: bool = first.get("one_at_a_time", False)

    def end_session(self, session_id: str) -> None:
        """Let the conversation of an agent object go."""
        if self.unable is not None:
            self._send({"id": 0, "end_session": session_id}, time.monotonic() + _RESPONSE_SECONDS)

    def call(self, task: Task, recorder: Recorder, *, alone: bool) -> _Message | AttemptEnded:
        """Call the function; return its answer, or why the attempt has ended without one.

        Raises:
            Disturbed: The process ended, and it may have been another attempt that ended it.
        """
        seconds, began = task.limits.seconds, time.monotonic()
        until = began + (float("inf") if seconds is None else seconds)
        number, inbox = next(self._numbers), SimpleQueue[_Message]()
        with self._lock:
            if self._has_ended:  # between two turns of a conversation
                return _disturbed(None, alone=alone)
            self._inboxes[number] = inbox
        over: AttemptEnded | None = None
        try:
            payload = {
                "id": number,
                "task": task.payload(),
                "most": task.limits.output_bytes,
                "steps": task.limits.steps,
                "answers": has_answers(task.case),
                "answer_tool": task.case.final_output_tool,
            }
            in_time = self._send(payload, until)
            while in_time:
                try:
                    message = inbox.get(timeout=min(_LONGEST_WAIT, max(0.0, until - time.monotonic())))
                except Empty:
                    in_time = time.monotonic() < until
                    continue
                if "ended" in message:
                    return over or _disturbed(message["ended"], alone=alone or message["others"] == 0)
                if "tool" not in message:
                    return over or message
                answer, over = _tool_answer(message, recorder, over)
                in_time = self._send({"id": number, **answer}, until)
            self._stop(number, inbox, alone=alone)
            return LimitReached(FailureKind.TIMEOUT, f"did not end within {seconds:g} s")
        finally:
            with self._lock:
                self._inboxes.pop(number, None)

    def _stop(self, number: int, inbox: SimpleQueue[_Message], *, alone: bool) -> None:
        """Stop a call whose time is up: by cancelling it, or by taking no further call.

        Raises:
            Disturbed: The whole process is held up, and nobody knows by which of its calls.
        """
        until = time.monotonic() + _RESPONSE_SECONDS
        in_time = self._send({"id": number, "cancel": True}, until)
        while in_time:
            try:
                message = inbox.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            if "ended" in message:
                if not alone and message["others"]:
                    raise Disturbed
                return
            if "stopped" in message:
                self.takes_more = self.takes_more and message["stopped"]
                return
        with self._lock:
            # Where it takes no more, one that is not in it any more may hold it up.
            others = len(self._inboxes) - 1 + (not self.takes_more)
            self.takes_more = False
        self._child.kill()
        if others and not alone:
            raise Disturbed

    def _send(self, message: _Message, until: float) -> bool:
        """Send a message; return whether the process read it in time."""
        try:
            line = dumps(message)
        except TypeError:  # integers beyond 64 bits, which a live tool may answer with
            line = json.dumps(message, sort_keys=True).encode()
        return self._child.send(line, min(_LONGEST_WAIT, max(0.0, until - time.monotonic())))

    def _deliver(self, line: bytes) -> None:
        limits = Limits(max_bytes=len(line), max_depth=200, wide_integers=True)
        message = parse(line, source="the agent's process", limits=limits)
        if "id" not in message:
            self._loading.put(message)
        elif (inbox := self._inboxes.get(message["id"])) is not None:
            inbox.put(message)

    def _end(self, status: int | None) -> None:
        with self._lock:
            was_healthy, self.takes_more, self._has_ended = self.takes_more, False, True
            # One that was left behind may have ended the process as well.
            others = len(self._inboxes) - 1 + (not was_healthy)
            for inbox in self._inboxes.values():
                inbox.put({"ended": status, "others": others})
        self._loading.put({"ended": status})

    def close(self) -> None:
        """End the process, with everything that the function started; one that is idle may end by itself."""
        self._child.close(_EXIT_SECONDS if self.takes_more and not self._inboxes else 0.0)


def _disturbed(status: int | None, *, alone: bool) -> AttemptEnded:
    if not alone:
        raise Disturbed
    return AttemptEnded(FailureKind.AGENT_ERROR, f"ended its process: it died {ended_how(status)}")


def _tool_answer(
    message: _Message, recorder: Recorder, over: AttemptEnded | None
) -> tuple[_Message, AttemptEnded | None]:
    """Call a tool for the function; return the answer, and why the attempt is over, if it is."""
    if over is not None:
        return {"over": "the attempt is over: no further tools are called"}, over
    tool, arguments, is_recorded = str(message["tool"]), message.get("arguments", {}), message["recorded"]
    try:
        return recorder.call_from_outside(tool, arguments, is_recorded=is_recorded), None
    except (ToolFault, LimitReached) as problem:
        # Kept, because the function may catch the exception and answer nevertheless.
        return {"over": problem.problem}, problem

"""The `command` agent: a program, run per attempt or kept alive, with JSON on standard input and output."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import socket
import threading
from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from typing_extensions import override

from agent_eval.agents.answer import UnusableAnswer, read_answer, record_answer
from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Opening, Surroundings, Task, ToolFault
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.agents.tools import has_answers
from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput, UsageError
from agent_eval.models.retries import Reply
from agent_eval.processes.child import ChildLimits, ChildResult, allowed_environment, run_child
from agent_eval.processes.living_child import ConversingChild
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import Limits, dumps, parse
from agent_eval.text.escape import last_line

STDERR = "stderr.txt"
"""Artifact that holds the program's standard error."""

TOOLS_VARIABLE = "AGENT_EVAL_TOOLS"
"""Environment variable in which a program finds the address of its tools."""

_UNLIMITED = 24 * 3600.0
_LAST_LINE_LIMIT = 500
_LARGEST_CALL = 8 << 20
_HOST = "127.0.0.1"


class ToolAddress:
    """Serves the tools of one attempt on a port that only this machine reaches. A context manager.

    A program posts `{"tool": "lookup", "arguments": {"id": 7}}` and receives `{"output": …, "error": …}`. The
    call is not recorded with `"recorded": false`, for an answer that reports it. A GET tells whether the case
    has `answers`, and the `steps` and `answer_tool` of the attempt.

    Attributes:
        url: The address, with a path that cannot be guessed.
        failure: What ended the attempt during a call; None if nothing did.
    """

    def __init__(self, recorder: Recorder, task: Task) -> None:
        self._recorder, self._task, self._lock = recorder, task, threading.Lock()
        self._path = f"/{secrets.token_urlsafe(16)}"
        self._has_ended = False
        self.failure: ToolFault | LimitReached | None = None
        self._server = ThreadingHTTPServer((_HOST, 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://{_HOST}:{self._server.server_address[1]}{self._path}"

    def record_with(self, recorder: Recorder, task: Task) -> None:
        """Record further calls with another recorder, which is that of the next turn."""
        with self._lock:
            self._recorder, self._task, self.failure = recorder, task, None

    def answer(self, path: str, body: bytes | None) -> tuple[int, dict[str, Any]]:
        """Answer a request: its HTTP status, and the object that is sent back. Without a body it is a GET."""
        if not secrets.compare_digest(path.encode(), self._path.encode()):
            return 404, {"error": "there are no tools at this address"}
        if body is None:
            case = self._task.case
            limits = {"steps": self._task.limits.steps, "answer_tool": case.final_output_tool}
            return 200, {"answers": has_answers(case), **limits}
        try:
            call = parse(body, source="the call", limits=Limits(wide_integers=True))
        except InvalidInput as error:
            return 400, {"error": error.message}
        tool = call.get("tool") if isinstance(call, dict) else None
        if not isinstance(tool, str):
            return 400, {"error": "the call names no tool"}
        with self._lock:
            if self._has_ended or self.failure is not None:
                return 410, {"error": "the attempt is over: no further tools are called"}
            arguments, is_recorded = call.get("arguments", {}), call.get("recorded") is not False
            try:
                return 200, self._recorder.call_from_outside(tool, arguments, is_recorded=is_recorded)
            except (ToolFault, LimitReached) as failure:
                self.failure = failure
                return 410, {"error": failure.problem}

    def __enter__(self) -> ToolAddress:
        def serve() -> None:
            while not self._has_ended:
                self._server.handle_request()

        self._thread = threading.Thread(target=serve, daemon=True, name="tool-address")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._has_ended = True
        # Without a request the thread would wait for one for ever.
        with socket.create_connection((_HOST, self._server.server_address[1])):
            self._thread.join()
        self._server.server_close()


def _handler(address: ToolAddress) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 60.0

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isascii() and length.isdigit() else _LARGEST_CALL + 1
            if size > _LARGEST_CALL:
                status, answer = 413, {"error": "the call is too large, or does not state its length"}
            else:
                status, answer = address.answer(self.path, self.rfile.read(size))
            self._send(status, answer)

        def do_GET(self) -> None:
            self._send(*address.answer(self.path, None))

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            data = json.dumps(answer, ensure_ascii=True).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Print nothing: standard error is that of the command."""

        def handle(self) -> None:
            with suppress(OSError):  # the program may have gone
                super().handle()

    return Handler


@dataclass(frozen=True, slots=True)
class LivingProgram:
    """One program that stays alive for a conversation, with the address of its tools."""

    child: ConversingChild
    tools: ToolAddress
    stack: ExitStack


class CommandAgent(Agent):
    """Runs a program for every attempt.

    The program reads `Task.payload` from standard input and writes its answer (see `answer.read_answer`) to
    standard output. Its standard error becomes an artifact of the case. While it runs, it can call the
    attempt's tools at the address in `AGENT_EVAL_TOOLS` (see `ToolAddress`).

    Args:
        argv: The program and its arguments; no shell is involved.
        environ: The environment of agent-eval; the program gets an allow-listed part of it.
        pass_on: Names of further variables that the program gets (`--agent-env`).
        keep_alive: Whether the program stays alive for a conversation, with one line of JSON a turn.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        repair: Sequence[str] | None = None,
        environ: Mapping[str, str] | None = None,
        pass_on: Sequence[str] = (),
        cwd: Path | None = None,
        keep_alive: bool = False,
    ) -> None:
        self._keep_alive = keep_alive
        self._programs: dict[str, LivingProgram] = {}
        self._argv, self._repair = list(argv), list(repair) if repair else None
        self._pass_on = sorted(set(pass_on))
        environ = os.environ if environ is None else environ
        self._env = allowed_environment(environ, pass_on)
        self.unseen = unseen_variables(environ, self._env, cwd or Path())
        self._cwd = cwd

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> CommandAgent:
        repair = None if options.repair_command is None else split_command(options.repair_command)
        return cls(
            split_command(rest),
            repair=repair,
            environ=options.environ,
            pass_on=options.pass_on,
            cwd=options.cwd,
            keep_alive=options.keep_alive,
        )

    @classmethod
    @override
    def from_description(cls, described: Mapping[str, Any], options: AgentOptions) -> Opening:
        repair = described.get("repair_command")
        return f"command:{shlex.join(described['command'])}", replace(
            options,
            pass_on=(*options.pass_on, *described.get("environment", ())),
            repair_command=options.repair_command or (shlex.join(repair) if repair else None),
            keep_alive=options.keep_alive or described.get("keep_alive") is True,
        )

    @override
    def describe(self) -> dict[str, Any]:
        return {
            "agent": "command",
            "command": self._argv,
            "repair_command": self._repair,
            "environment": self._pass_on,
            **({"keep_alive": True} if self._keep_alive else {}),
        }

    @override
    def end_session(self, session_id: str) -> None:
        program = self._programs.pop(session_id, None)
        if program is not None:
            program.stack.close()

    @override
    def close(self) -> None:
        for session_id in list(self._programs):
            self.end_session(session_id)

    def _program_of(
        self, session_id: str, task: Task, recorder: Recorder, argv: Sequence[str]
    ) -> LivingProgram:
        """Return the program of a conversation, which is started for its first turn."""
        program = self._programs.get(session_id)
        if program is not None:
            program.tools.record_with(recorder, task)
            return program
        with ExitStack() as stack:
            tools = stack.enter_context(ToolAddress(recorder, task))
            child = ConversingChild(argv, env={**self._env, TOOLS_VARIABLE: tools.url}, cwd=self._cwd)
            stack.callback(child.close)
            program = LivingProgram(child, tools, stack.pop_all())
        self._programs[session_id] = program
        return program

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        argv = self._repair if task.mode == "repair" and self._repair else self._argv
        limits = ChildLimits(
            seconds=_UNLIMITED if task.limits.seconds is None else task.limits.seconds,
            stdout_bytes=task.limits.output_bytes,
            stderr_bytes=task.limits.output_bytes,
        )
        stdin = dumps(task.payload())
        if self._keep_alive and task.session is not None:
            program = self._program_of(task.session.session_id, task, recorder, argv)
            began = surroundings.clocks.monotonic()
            result = program.child.ask(stdin, limits)
            recorder.seconds = surroundings.clocks.monotonic() - began
            return _record(recorder, result, program.tools.failure)

        with ToolAddress(recorder, task) as tools:
            env = {**self._env, TOOLS_VARIABLE: tools.url}

            def send() -> Reply[ChildResult]:
                result = run_child(argv, stdin=stdin, env=env, limits=limits, cwd=self._cwd)
                return Reply(result, result.failure, result.problem)

            reply, _ = recorder.ask(send)
        assert reply.value is not None
        return _record(recorder, reply.value, tools.failure)


def _record(
    recorder: Recorder, result: ChildResult, tool_failure: ToolFault | LimitReached | None
) -> AttemptResult:
    if result.stderr:
        recorder.artifacts[STDERR] = result.stderr
    if tool_failure is not None:
        return recorder.result(None, tool_failure.failure, tool_failure.problem)
    try:
        if result.failure is None:
            answer = read_answer(result.stdout, what="standard output")
            return record_answer(recorder, answer, recorder.seconds)
        # For most programs the last line of standard error says why they failed.
        failed = result.failure is FailureKind.AGENT_ERROR
        words = last_line(result.stderr, limit=_LAST_LINE_LIMIT) if failed else ""
        failure, problem = result.failure, result.problem + words
        if failure is FailureKind.TIMEOUT:
            with suppress(UnusableAnswer):
                read_answer(result.stdout, what="standard output")
                problem += ", though it had given its answer: the program must end after it"
    except UnusableAnswer as unusable:
        failure, problem = unusable.failure, unusable.problem
    if result.stdout:
        recorder.artifacts["stdout.txt"] = result.stdout
    return recorder.result(None, failure, problem)


_OF_AGENTS = re.compile(r"[A-Z]\w*_(?:MODEL|KEY|URL)", re.ASCII)
_OURS = re.compile(r"AGENT_EVAL_|LLM_API_KEY\Z")
_IN_DOTENV = re.compile(r"^(?:export\s+)?([A-Za-z_]\w{0,99})\s*=", re.ASCII | re.MULTILINE)
_DOTENV_BYTES = 1 << 16


def unseen_variables(environ: Mapping[str, str], seen: Container[str], folder: Path) -> list[str]:
    """List the variables that are set and look like the agent's, but are not seen by it.

    That are `*_MODEL`, `*_KEY`, `*_URL` and the names in `.env`. In CI, addresses are the platform's, and
    are left out.
    """
    names = {name for name in environ if _OF_AGENTS.fullmatch(name)}
    if environ.get("CI"):
        names = {name for name in names if not name.endswith("_URL")}
    with suppress(AgentEvalError):
        text = read_bytes(folder / ".env", max_bytes=_DOTENV_BYTES).decode("utf-8", "replace")
        names.update(_IN_DOTENV.findall(text))
    return sorted(name for name in names & environ.keys() if name not in seen and not _OURS.match(name))


def split_command(command: str) -> list[str]:
    """Split a command into program and arguments as a shell does; only quotes are special.

    Raises:
        UsageError: The command is empty, or a quote is not closed.
    """
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise UsageError(
            f"the command {command!r} cannot be read: {error}", remedy="Close its quotes."
        ) from None
    if not argv:
        raise UsageError("the agent's command is empty", remedy="Name a program and its arguments.")
    return argv

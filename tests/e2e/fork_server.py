"""Start `python -m agent_eval` by forking a process that has imported it already.

Importing takes a command longer than its work on a small suite, and the end-to-end tests run hundreds of
commands. A forked command has what a fresh one has: a process with a directory, environment, streams,
signals, limits and exit of its own. It differs in what comes before the command line is read: modules are
imported already, variables that the interpreter itself reads (`PYTHONHASHSEED`, `LC_ALL`) have no effect, and
`/proc/<pid>` shows the server's command line and environment. And it ends without freeing what was imported.
Tests of these start a fresh process, and so do all tests at night.

As a program, `python -m tests.e2e.fork_server SOCKET [MODULE ...]` serves the requests that arrive on an
inherited socket.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import math
import os
import pkgutil
import resource
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import agent_eval
from agent_eval.contracts.base import Contract
from agent_eval.evidence.reader import open_pack

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "agent_eval")
ISOLATED = "-IBu"
"""As the entrypoint's first line has it, which tests/contract/test_action_yml.py holds."""
ENTRYPOINT = (sys.executable, ISOLATED, str(REPOSITORY / "entrypoint"))
"""What the image runs."""
IMPORTED_WHEN_USED = ("genai_prices", "jsonschema", "markdown_it", "re2", "referencing", "requests", "yaml")
"""What commands import inside of functions, beside the modules of agent_eval."""
OF_HOSTED_MODELS = ("anthropic", "openai")
"""What commands import that ask a hosted model: so much that each fork of all others would take longer."""
READ_BY_THE_INTERPRETER = ("PYTHON", "LC_", "LANG")
"""Prefixes of variables that take effect only where an interpreter starts."""
READ_LATER = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Exceptions to these: a forked command carries them out itself."""


@dataclass(frozen=True)
class Command:
    """A command to run.

    Args:
        words: The program and its arguments.
        largest_file: Bytes beyond which no file that it writes may grow.
        own_group: Run it in a process group of its own.
    """

    words: Sequence[str]
    cwd: str
    environ: Mapping[str, str]
    largest_file: int | None = None
    own_group: bool = False


def may_fork(command: Command) -> bool:
    """Whether a command is this program's, and does the same forked as started afresh."""

    def early(variables: Mapping[str, str]) -> dict[str, str]:
        return {
            name: value
            for name, value in variables.items()
            if name.startswith(READ_BY_THE_INTERPRETER) and name not in READ_LATER
        }

    return tuple(command.words[:3]) in (PROGRAM, ENTRYPOINT) and early(command.environ) == early(os.environ)


class ForkServer:
    """A process that forks commands. It starts with the first of them, and ends when it is closed.

    Args:
        imported: Modules that it imports beside those that commands import.

    Example:
        with closing(ForkServer()) as server:
            code, out, err = server.run(Command((*PROGRAM, "--version"), cwd="/", environ={}), timeout=60)
    """

    def __init__(self, imported: Sequence[str] = ()) -> None:
        self._imported = imported
        self._starting = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._requests, self._far_requests = socket.socketpair()

    def run(self, command: Command, *, timeout: float, join: bool = False) -> tuple[int, bytes, bytes]:
        """Run a command to its end; returns its exit code (negative: of a signal), stdout and stderr.

        Args:
            join: Send stderr to stdout, in the order of writing.

        Raises:
            subprocess.TimeoutExpired: The command was still running, and was killed.
        """
        with self.start(command, join=join) as process:
            try:
                out, err = process.communicate(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return process.wait(), out, err

    def start(self, command: Command, *, join: bool = False) -> ForkedProcess:
        """Start a command, which runs on while its caller does something else."""
        answers, far_answers = socket.socketpair()
        out, far_out = os.pipe()
        err, far_err = os.pipe()
        with far_answers, open(os.devnull, "rb") as nothing:
            ends = [far_answers.fileno(), nothing.fileno(), far_out, far_out if join else far_err]
            socket.send_fds(self.requests(), [b"."], ends)
        os.close(far_out)
        os.close(far_err)
        answers.sendall(json.dumps(asdict(command)).encode())
        answers.shutdown(socket.SHUT_WR)
        out_stream, err_stream = (os.fdopen(stream, "rb", buffering=0) for stream in (out, err))
        return ForkedProcess(command.words, answers, out_stream, err_stream)

    def requests(self) -> socket.socket:
        """The socket for requests, of a server that is running."""
        with self._starting:
            if self._server is None:
                self._server = subprocess.Popen(
                    [sys.executable, "-m", __name__, str(self._far_requests.fileno()), *self._imported],
                    cwd=REPOSITORY, pass_fds=[self._far_requests.fileno()], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )  # fmt: skip
                self._far_requests.close()
        return self._requests

    def close(self) -> None:
        """End the server. Commands that are still running go on."""
        self._far_requests.close()
        self._requests.close()
        if self._server is not None:
            self._server.terminate()
            self._server.wait()


class ForkedProcess:
    """A command that was forked, with what tests use of `subprocess.Popen`.

    The server, whose child it is, says how it ended.
    """

    def __init__(self, words: Sequence[str], answers: socket.socket, out: BinaryIO, err: BinaryIO) -> None:
        self.args = words
        self.stdout, self.stderr = out, err
        self.returncode: int | None = None
        self._printed = {out: bytearray(), err: bytearray()}
        self._answers = answers
        self._lines = answers.makefile("r")
        self.pid = int(self._lines.readline())

    def __enter__(self) -> ForkedProcess:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the streams. A command that still runs goes on."""
        for stream in (self.stdout, self.stderr, self._lines, self._answers):
            stream.close()

    def poll(self) -> int | None:
        """The exit code (negative: of a signal); None while it runs."""
        return self._await_end(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code."""
        code = self._await_end(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _await_end(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._answers], [], [], timeout)[0]:
            self.returncode = int(self._lines.readline())
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Read what it prints until it has ended, and close its streams; returns stdout and stderr."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        try:
            _read_to_the_end(self._printed, deadline)
        except TimeoutError:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout) from None
        with self:
            self.wait()
        return bytes(self._printed[self.stdout]), bytes(self._printed[self.stderr])

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended, which the server says a moment later."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def _read_to_the_end(printed: Mapping[BinaryIO, bytearray], deadline: float) -> None:
    """Add to what was read from pipes what comes until their ends; as it comes, so that no writer waits."""
    with selectors.DefaultSelector() as selector:
        for stream in printed:
            if not stream.closed:
                selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map():
            left = max(deadline - time.monotonic(), 0)
            ready = selector.select(None if left == math.inf else left)
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                data = key.data.read(65536)
                printed[key.data].extend(data)
                if not data:
                    selector.unregister(key.data)


def serve(requests: socket.socket) -> None:
    """Fork a command for each request and say how it ended, until the tests end."""
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    selector.unregister(key.fileobj)
                    tell_end(*key.data)
                    continue
                message, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
                if not message:
                    return
                fork(selector, requests, *descriptors)


def fork(
    selector: selectors.BaseSelector, requests: socket.socket, answers_descriptor: int, *streams: int
) -> None:
    """Fork the command that is asked for, answer with its number, and have its end waited for."""
    answers = socket.socket(fileno=answers_descriptor)
    with answers.makefile("rb") as request:
        command = Command(**json.loads(request.read()))
    pid = os.fork()
    if pid == 0:
        answers.close()
        for key in list(selector.get_map().values()):
            os.close(key.fd)
        requests.detach()
        become(command, streams)
    if command.own_group:
        os.setpgid(pid, pid)
    for descriptor in streams:
        os.close(descriptor)
    answers.sendall(f"{pid}\n".encode())
    ended = os.pidfd_open(pid)
    selector.register(ended, selectors.EVENT_READ, (ended, pid, answers))


def tell_end(ended: int, pid: int, answers: socket.socket) -> None:
    """Answer with the exit code of a command that has ended."""
    os.close(ended)
    _, status = os.waitpid(pid, 0)
    with answers, suppress(BrokenPipeError):  # Killed when its time was over: the test has left.
        answers.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def become(command: Command, streams: Sequence[int]) -> NoReturn:
    """Do what the command does from the moment at which its interpreter has started."""
    _set_streams(streams)
    os.environ.clear()
    os.environ.update(command.environ)
    os.chdir(command.cwd)
    _, option, program, *arguments = command.words
    isolated = option == ISOLATED
    path = command.environ.get("PYTHONPATH")
    sys.path[0:1] = [] if isolated else [command.cwd, *(path.split(os.pathsep) if path else [])]
    sys.dont_write_bytecode = isolated or bool(command.environ.get("PYTHONDONTWRITEBYTECODE"))
    if command.largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (command.largest_file, command.largest_file))
    sys.argv = [program, *arguments]
    try:
        if isolated:
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            raise
        _leave(ended.code or 0)
    _leave(0)


def _leave(code: int) -> NoReturn:
    """End as an interpreter does, but free nothing: that would copy the server's memory to no use."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)  # the interpreter says what that means
    os._exit(code & 0xFF)


def _set_streams(streams: Sequence[int]) -> None:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Made anew: a stream remembers from its beginning whether its file can be rewound.
    encoding = sys.stdout.encoding
    sys.stdin = os.fdopen(0, encoding=encoding)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding=encoding)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, encoding=encoding, errors="backslashreplace")


def import_everything(more: Sequence[str]) -> None:
    """Import each module of agent_eval and what it imports when used; build what it builds when used."""
    for module in pkgutil.walk_packages(agent_eval.__path__, "agent_eval."):
        if module.name.endswith(".__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("agent_eval"):
                raise
            # The package of a framework, which is imported where an agent object of it is run.
    for name in (*IMPORTED_WHEN_USED, *more):
        importlib.import_module(name)
    build_validators()
    # Pages that the collector does not touch stay shared with the commands.
    gc.collect()
    gc.freeze()


def build_validators() -> None:
    """Build the validators of contracts and rows, as each command does with those that it uses."""
    pending = list(Contract.__subclasses__())
    while pending:
        contract = pending.pop()
        contract.model_rebuild()
        pending += contract.__subclasses__()
    open_pack(REPOSITORY / "tests/fixtures/packs/0.1.0/packs/baseline")


if __name__ == "__main__":
    import_everything(sys.argv[2:])
    serve(socket.socket(fileno=int(sys.argv[1])))

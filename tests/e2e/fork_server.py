"""Start `python -m agent_eval` by forking a process that has imported it already.

Importing takes a command longer than its work on a small suite, and the end-to-end tests run hundreds of
commands. A forked command has what a fresh one has: a process with a directory, environment, streams,
signals, limits and exit of its own. It differs in what comes before the command line is read: modules are
imported already, variables that the interpreter itself reads (`PYTHONHASHSEED`, `LC_ALL`) have no effect, and
`/proc/<pid>` shows the server's command line and environment. Tests of these start a fresh process, and so do
all tests of a full run.

As a program, `python -m tests.e2e.fork_server SOCKET` serves the requests that arrive on an inherited socket.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
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

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "agent_eval")
ISOLATED = "-IBu"
"""As the entrypoint's first line has it, which tests/contract/test_action_yml.py holds."""
ENTRYPOINT = (sys.executable, ISOLATED, str(REPOSITORY / "entrypoint"))
"""What the image runs."""
IMPORTED_WHEN_USED = ("genai_prices", "jsonschema", "markdown_it", "re2", "referencing", "requests", "yaml")
"""What commands import inside of functions, beside the modules of agent_eval."""
READ_BY_THE_INTERPRETER = ("PYTHON", "LC_", "LANG")
"""Prefixes of variables that take effect only where an interpreter starts."""
READ_LATER = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Exceptions to these: a forked command carries them out itself."""


@dataclass(frozen=True)
class Command:
    """A command to run: its words, its directory and environment, the largest file that it may write."""

    words: Sequence[str]
    cwd: str
    environ: Mapping[str, str]
    largest_file: int | None = None


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

    Example:
        with closing(ForkServer()) as server:
            code, out, err = server.run(Command((*PROGRAM, "--version"), cwd="/", environ={}), timeout=60)
    """

    def __init__(self) -> None:
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
        answers, out, err = self._begin(command, join)
        with answers, out, err, answers.makefile("r") as lines:
            pid = int(lines.readline())
            try:
                printed = _read_to_the_end([out, err], time.monotonic() + timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command.words, timeout) from None
            return int(lines.readline()), *printed

    def _begin(self, command: Command, join: bool) -> tuple[socket.socket, BinaryIO, BinaryIO]:
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
        return answers, open(out, "rb", buffering=0), open(err, "rb", buffering=0)

    def requests(self) -> socket.socket:
        """The socket for requests, of a server that is running."""
        with self._starting:
            if self._server is None:
                self._server = subprocess.Popen(
                    [sys.executable, "-m", __name__, str(self._far_requests.fileno())],
                    cwd=REPOSITORY,
                    pass_fds=[self._far_requests.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
                self._far_requests.close()
        return self._requests

    def close(self) -> None:
        """End the server. Commands that are still running go on."""
        self._far_requests.close()
        self._requests.close()
        if self._server is not None:
            self._server.terminate()
            self._server.wait()


def _read_to_the_end(streams: list[BinaryIO], deadline: float) -> list[bytes]:
    """Everything from pipes, read as it comes, so that no writer waits for a full one."""
    found = {stream: bytearray() for stream in streams}
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                data = key.data.read(65536)
                found[key.data] += data
                if not data:
                    selector.unregister(key.data)
    return [bytes(found[stream]) for stream in streams]


def serve(requests: socket.socket) -> None:
    """Fork an attendant for each request, until the tests end. Returns in the command's own process too."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            attend(*descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def attend(answers_descriptor: int, *streams: int) -> None:
    """Fork the command and answer with its number, then with its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    answers = socket.socket(fileno=answers_descriptor)
    with answers.makefile("rb") as request:
        command = Command(**json.loads(request.read()))
    pid = os.fork()
    if pid == 0:
        answers.close()
        become(command, streams)
    for descriptor in streams:
        os.close(descriptor)
    answers.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # Killed when its time was over: the test has left.
        answers.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


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
    if isolated:
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    sys.exit(0)


def _set_streams(streams: Sequence[int]) -> None:
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    # Made anew: a stream remembers from its beginning whether its file can be rewound.
    encoding = sys.stdout.encoding
    sys.stdin = os.fdopen(0, encoding=encoding)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding=encoding)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, encoding=encoding, errors="backslashreplace")


def import_everything() -> None:
    """Import each module of agent_eval and what it imports when used."""
    for module in pkgutil.walk_packages(agent_eval.__path__, "agent_eval."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
    for name in IMPORTED_WHEN_USED:
        importlib.import_module(name)
    # Pages that the collector does not touch stay shared with the commands.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    import_everything()
    serve(socket.socket(fileno=int(sys.argv[1])))

"""Keep idle supervisors, so that running a child costs little more than starting its program.

`SupervisorLink` is the connection to one supervisor process, whose code is in `supervisor`. `SUPERVISORS` has
the supervisors of this process.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent_eval.errors import NotEvaluable
from agent_eval.processes.supervisor import KILL, LENGTH, PROCESS_ID, REPLY, RUN, SWEEP_SECONDS

_PATIENCE_SECONDS = 15.0
"""How long a supervisor may take to start; on an overloaded machine this takes a while."""


class SupervisorLost(Exception):
    """A supervisor was killed or does not answer; the nursery ends its descendants."""


class SupervisorLink:
    """The connection to one supervisor.

    `control` is a socket to the supervisor, from which its process id has not been read yet.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        control.settimeout(_PATIENCE_SECONDS)
        self._pid = PROCESS_ID.unpack(self._receive_exactly(PROCESS_ID.size))[0]

    def fileno(self) -> int:
        """Return the socket's descriptor, for `poll`: it is readable once there is an answer."""
        return self._control.fileno()

    def start(
        self,
        program: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        descriptors: Sequence[int],
    ) -> None:
        """Ask the supervisor to start a child, whose result `answer` returns.

        Args:
            program: Path of the program.
            argv: Its arguments, from `argv[0]`.
            env: Its whole environment.
            cwd: Its working directory; None for `/`.
            descriptors: Its standard input, output and error.

        Raises:
            SupervisorLost: Nothing was started.
        """
        # JSON escapes the surrogates by which Python represents bytes that are not UTF-8, so they survive.
        request = {"program": program, "argv": list(argv), "env": dict(env), "cwd": cwd}
        body = json.dumps(request).encode()
        frame = RUN + LENGTH.pack(len(body)) + body
        try:
            sent = socket.send_fds(self._control, [frame], list(descriptors))
            self._control.sendall(frame[sent:])
        except OSError as error:
            raise SupervisorLost from error

    def kill(self) -> None:
        """Ask the supervisor to end the child and its descendants."""
        with suppress(OSError):
            self._control.sendall(KILL)
            os.kill(self._pid, signal.SIGCONT)  # the child may have stopped it

    def answer(self, timeout: float = 2 * SWEEP_SECONDS) -> tuple[int, int, int, float]:
        """Wait for the supervisor's `REPLY` and return it.

        Raises:
            SupervisorLost: There is no reply within `timeout` seconds.
        """
        self._control.settimeout(timeout)
        errno, exit_code, survivors, seconds = REPLY.unpack(self._receive_exactly(REPLY.size))
        return errno, exit_code, survivors, seconds

    def _receive_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                piece = self._control.recv(size - len(data))
            except OSError as error:
                raise SupervisorLost from error
            if not piece:
                raise SupervisorLost
            data += piece
        return data

    def close(self) -> None:
        """Close the connection; the supervisor then ends its child, the descendants, and itself."""
        self._control.close()

    def destroy(self) -> None:
        """Kill a supervisor that does not answer; the nursery then ends its descendants."""
        if not self._has_ended():
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        self.close()

    def _has_ended(self) -> bool:
        # Its process id may belong to another process by now, so only its socket says whether it runs.
        self._control.setblocking(False)
        try:
            return not self._control.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Supervisors:
    """A nursery with its supervisors. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SupervisorLink] = []
        self._in_use: weakref.WeakSet[SupervisorLink] = weakref.WeakSet()
        self._closing = False
        self._requests: socket.socket | None = None
        self._nursery: subprocess.Popen[bytes] | None = None

    def take(self) -> SupervisorLink:
        """Return an idle supervisor, or a new one.

        Raises:
            NotEvaluable: No supervisor can be started.
            OSError: No descriptors, processes or memory are left.
        """
        with self._lock:
            link = self._idle.pop() if self._idle else None
        link = link or self._new()
        with self._lock:
            self._in_use.add(link)
        return link

    def give_back(self, link: SupervisorLink) -> None:
        """Return a supervisor whose child and all its descendants have ended, for the next child."""
        with self._lock:
            self._in_use.discard(link)
            if not self._closing:
                self._idle.append(link)
                return
        link.close()

    def end_children(self) -> None:
        """End every running child with its descendants, so that `run_child` returns."""
        with self._lock:
            links = list(self._in_use)
        for link in links:
            link.kill()

    def close(self) -> None:
        """End the nursery and every supervisor, and wait until they have ended."""
        with self._lock:
            self._closing = True
        self.end_children()
        with self._lock:
            idle, self._idle = self._idle, []
            requests, self._requests = self._requests, None
            nursery, self._nursery = self._nursery, None
        for link in idle:
            link.close()
        if requests is not None:
            requests.close()
        if nursery is not None:
            try:
                nursery.wait(3 * SWEEP_SECONDS)
            except subprocess.TimeoutExpired:  # pragma: no cover - stopped, or the machine is overloaded
                nursery.kill()
                nursery.wait()
        self._closing = False

    def forget(self) -> None:
        """Forget all supervisors without ending them; a forked process calls this, they are its parent's."""
        for link in self._idle:
            link.close()
        if self._requests is not None:
            self._requests.close()
        if self._nursery is not None:
            self._nursery.returncode = 0  # not this process's child, so there is nothing to wait for
        self.__init__()  # type: ignore[misc]

    def _new(self) -> SupervisorLink:
        for _ in range(2):
            with self._lock:
                if self._nursery is None or self._requests is None:
                    self._nursery, self._requests = _start_nursery()
                nursery, requests = self._nursery, self._requests
            own_end, supervisor_end = socket.socketpair()
            try:
                with supervisor_end:
                    socket.send_fds(requests, [RUN], [supervisor_end.fileno()])
                return SupervisorLink(own_end)
            except (OSError, SupervisorLost):
                own_end.close()
                with self._lock:
                    if self._nursery is not nursery:
                        continue  # another thread has ended it already
                    requests.close()
                    self._nursery = self._requests = None
                nursery.kill()  # it does not work; the next supervisor starts another one
                nursery.wait()
        raise NotEvaluable(
            "no process can be started: the process that supervises them does not answer",
            remedy="Check the limits on processes and memory (ulimit -u, ulimit -v), and try again.",
        )


def _start_nursery() -> tuple[subprocess.Popen[bytes], socket.socket]:
    own_end, nursery_end = socket.socketpair()
    script = Path(__file__).with_name("supervisor.py")
    with nursery_end:
        # Isolated and without site-packages: it starts quickly, and no module of a project can affect it.
        nursery = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(nursery_end.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            pass_fds=[nursery_end.fileno()],
        )
    return nursery, own_end


SUPERVISORS = Supervisors()
"""The supervisors of this process; they start when first needed."""

atexit.register(SUPERVISORS.close)
os.register_at_fork(after_in_child=SUPERVISORS.forget)

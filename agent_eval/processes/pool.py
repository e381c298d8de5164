"""Supervisors at hand, so that a child costs little more than starting it. See `supervisor`."""

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
from types import TracebackType

from agent_eval.errors import NotEvaluable
from agent_eval.processes.supervisor import KILL, LENGTH, PROCESS_ID, REPLY, RUN, SWEEP_SECONDS

_PATIENCE_SECONDS = 15.0
"""How long a supervisor may take to be born; on a machine that is overloaded this takes a while."""


class SupervisorLost(Exception):
    """A supervisor was killed or does not answer; its descendants are being ended by the nursery."""


class SupervisorLink:
    """The program's end of a supervisor.

    Args:
        control: The socket to it, on which it has yet to say its process id.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        control.settimeout(_PATIENCE_SECONDS)
        self._pid = PROCESS_ID.unpack(self._exactly(PROCESS_ID.size))[0]

    def fileno(self) -> int:
        """Readable when there is an answer."""
        return self._control.fileno()

    def start(
        self,
        program: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        descriptors: Sequence[int],
    ) -> None:
        """Have a child started. `answer` says what became of it.

        Raises:
            SupervisorLost: Nothing was started.
        """
        # JSON escapes the surrogates that stand for bytes which are not UTF-8; the supervisor gets them back.
        request = {"program": program, "argv": list(argv), "env": dict(env), "cwd": cwd}
        body = json.dumps(request).encode()
        frame = RUN + LENGTH.pack(len(body)) + body
        try:
            sent = socket.send_fds(self._control, [frame], list(descriptors))
            self._control.sendall(frame[sent:])
        except OSError as error:
            raise SupervisorLost from error

    def kill(self) -> None:
        """Have the child and its descendants ended."""
        with suppress(OSError):
            self._control.sendall(KILL)
            os.kill(self._pid, signal.SIGCONT)  # the child may have stopped it

    def answer(self, timeout: float = 2 * SWEEP_SECONDS) -> tuple[int, int, int, float]:
        """The supervisor's `REPLY`; waits for it.

        Raises:
            SupervisorLost: There is none.
        """
        self._control.settimeout(timeout)
        errno, status, left, seconds = REPLY.unpack(self._exactly(REPLY.size))
        return errno, status, left, seconds

    def _exactly(self, size: int) -> bytes:
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
        """Let it go: it ends whatever it still supervises, and itself."""
        self._control.close()

    def destroy(self) -> None:
        """Kill a supervisor that does not answer, which hands its descendants to the nursery."""
        if not self._is_gone():
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        self.close()

    def _is_gone(self) -> bool:
        """Whether it has closed its end; its process id may be somebody else's by now."""
        self._control.setblocking(False)
        try:
            return not self._control.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Supervisors:
    """A nursery, and the supervisors that are idle. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[SupervisorLink] = []
        self._taken: weakref.WeakSet[SupervisorLink] = weakref.WeakSet()
        self._closing = False
        self._requests: socket.socket | None = None
        self._nursery: subprocess.Popen[bytes] | None = None

    def take(self) -> SupervisorLink:
        """An idle supervisor, or a new one.

        Raises:
            NotEvaluable: None can be had.
            OSError: There are no descriptors, processes or memory left.
        """
        with self._lock:
            link = self._idle.pop() if self._idle else None
        link = link or self._new()
        with self._lock:
            self._taken.add(link)
        return link

    def give_back(self, link: SupervisorLink) -> None:
        """Return one whose child has ended with all its descendants."""
        with self._lock:
            self._taken.discard(link)
            if not self._closing:
                self._idle.append(link)
                return
        link.close()

    def end_children(self) -> None:
        """End every child that is running now, with its descendants; `run_child` returns with that."""
        with self._lock:
            taken = list(self._taken)
        for link in taken:
            link.kill()

    def close(self) -> None:
        """End the nursery and every supervisor, and wait until they are gone."""
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
            _wait_for(nursery)
        self._closing = False

    def forget(self) -> None:
        """For a forked copy of this program: the supervisors are its parent's."""
        for link in self._idle:
            link.close()
        if self._requests is not None:
            self._requests.close()
        if self._nursery is not None:
            self._nursery.returncode = 0  # not this process's child, so there is nothing to wait for
        self.__init__()  # type: ignore[misc]

    def __enter__(self) -> Supervisors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _new(self) -> SupervisorLink:
        for _ in range(2):
            nursery, requests = self._ensure_nursery()
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    socket.send_fds(requests, [RUN], [theirs.fileno()])
                return SupervisorLink(ours)
            except (OSError, SupervisorLost):
                ours.close()
                self._abandon(nursery)
        raise NotEvaluable(
            "no process can be started: the process that supervises them does not answer",
            remedy="Check the limits on processes and memory (ulimit -u, ulimit -v), and try again.",
        )

    def _ensure_nursery(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        with self._lock:
            if self._nursery is None or self._requests is None:
                self._nursery, self._requests = _start_nursery()
            return self._nursery, self._requests

    def _abandon(self, nursery: subprocess.Popen[bytes]) -> None:
        """Give up a nursery that does not work; another one takes its place."""
        with self._lock:
            if self._nursery is not nursery:
                return  # another thread was quicker
            assert self._requests is not None
            self._requests.close()
            self._nursery = self._requests = None
        nursery.kill()
        nursery.wait()


def _start_nursery() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    script = Path(__file__).with_name("supervisor.py")
    with theirs:
        # Isolated and without site-packages: a quick start, and nothing of the project can reach into it.
        nursery = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            pass_fds=[theirs.fileno()],
        )
    return nursery, ours


def _wait_for(nursery: subprocess.Popen[bytes]) -> None:
    try:
        nursery.wait(3 * SWEEP_SECONDS)
    except subprocess.TimeoutExpired:  # pragma: no cover - it is stopped, or the machine is
        nursery.kill()
        nursery.wait()


SUPERVISORS = Supervisors()
"""Those of this process; started when first needed."""

atexit.register(SUPERVISORS.close)
os.register_at_fork(after_in_child=SUPERVISORS.forget)

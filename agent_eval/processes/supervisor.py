"""Supervise children, in processes of their own. Runs as a script, on the standard library only.

A child may start processes that detach themselves. Linux makes such orphans children of the nearest ancestor
that asked for them (PR_SET_CHILD_SUBREAPER). Each child therefore gets an ancestor of its own, a supervisor,
all of whose descendants belong to that child. The supervisor ends them all when the child ends, when
agent-eval asks for it, or when agent-eval itself has ended; the kernel's "no child processes" proves that
none is left.

Supervisors are forked from one small process, the nursery, because forking it is cheap and starting an
interpreter is not. The nursery is itself a subreaper: if a child kills its supervisor, the nursery inherits
the orphans and ends them.

Frames on a supervisor's socket: The supervisor first sends its process id (4 bytes). Agent-eval sends `r`, a
length (4 bytes) and a JSON request, with the descriptors of stdin, stdout and stderr attached; and `k` to end
the child. The supervisor answers each request with one `REPLY`. Integers are little-endian.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress

PROCESS_ID = struct.Struct("<I")
LENGTH = struct.Struct("<I")
REPLY = struct.Struct("<iiId")
"""errno of a child that could not be started (else 0), exit code as `os.waitstatus_to_exitcode`, number of
descendants that could not be ended, seconds that the child ran."""

RUN, KILL = b"r", b"k"
SWEEP_SECONDS = 10.0
"""How long to try to end descendants; only processes of another user, or stuck in the kernel, take longer."""

_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_MS = 5
_TO_DEFAULT = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


def _become_subreaper() -> None:
    """Make this process inherit the orphans among its descendants; has no effect except on Linux."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _receive(connection: socket.socket, max_descriptors: int) -> tuple[bytes, list[int]]:
    """Receive one byte with the descriptors attached to it; child processes will not inherit them."""
    data, descriptors, _, _ = socket.recv_fds(connection, 1, max_descriptors)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return data, descriptors


def _children() -> list[int]:
    """Return the process ids of this process's children. May miss some while processes start and end."""
    own_pid, pids, names = os.getpid(), [], list[str]()
    with suppress(OSError), open(f"/proc/{own_pid}/task/{own_pid}/children", "rb") as listing:
        return [int(word) for word in listing.read().split()]
    with suppress(OSError):  # a kernel that does not list them: read the parent of every process
        names = os.listdir("/proc")
    for name in names:
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as stat:
                # The process's name, in parentheses, may contain spaces and parentheses itself.
                if int(stat.read().rpartition(b")")[2].split()[1]) == own_pid:
                    pids.append(int(name))
    return pids


def _end(pid: int) -> None:
    """Kill an unreaped child, and its process group unless it is this process's own.

    Killing a group is atomic, so a process that forks as fast as it can does not escape within its group.
    """
    with suppress(OSError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


class _Wakeup:
    """Turns SIGCHLD into bytes that `poll` sees."""

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def clear(self) -> None:
        """Discard the bytes of signals received so far."""
        with suppress(BlockingIOError):
            while self.reader.recv(4096):
                pass


class _Supervisor:
    """Runs one child at a time, and ends its descendants."""

    def __init__(self, control: socket.socket) -> None:
        _become_subreaper()
        self._control = control
        self._wakeup = _Wakeup()
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._wakeup.reader, select.POLLIN)

    def serve(self) -> None:
        """Run children until agent-eval closes its end of the socket."""
        self._control.sendall(PROCESS_ID.pack(os.getpid()))
        while True:
            kind, descriptors = _receive(self._control, 3)
            if not kind:
                return
            if kind == RUN:  # a `k` here came too late for the last child
                (length,) = LENGTH.unpack(self._receive_exactly(LENGTH.size))
                if not self._run(json.loads(self._receive_exactly(length)), descriptors):
                    return

    def _receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._control.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _run(self, request: dict, descriptors: list[int]) -> bool:  # type: ignore[type-arg]
        """Run one child until it ends, and answer; return whether this supervisor can run another one."""
        began = time.monotonic()
        try:
            child = self._start(request, descriptors)
        except OSError as error:
            self._control.sendall(REPLY.pack(error.errno or errno.EIO, 0, 0, 0.0))
            return True
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        status, is_connected = self._wait(child)
        seconds = time.monotonic() - began
        status, survivors = self._sweep(child, status)
        if is_connected:
            self._control.sendall(REPLY.pack(0, status, survivors, seconds))
        return is_connected and not survivors

    def _start(self, request: dict, descriptors: list[int]) -> int:  # type: ignore[type-arg]
        if request["cwd"] is not None:
            os.chdir(request["cwd"])
        try:
            return os.posix_spawn(
                request["program"],
                request["argv"],
                request["env"],
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(descriptors)
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=_TO_DEFAULT,
            )
        finally:
            os.chdir("/")  # an idle supervisor keeps no directory from being unmounted

    def _wait(self, child: int) -> tuple[int | None, bool]:
        """Wait until the child ends, or is to be ended.

        Returns its exit code, None if it still runs, and whether agent-eval is still connected.
        """
        while True:
            # Cleared before looking: a signal that arrives after the look wakes the poll below.
            self._wakeup.clear()
            status = _reap(child)[0]
            if status is not None:
                return status, True
            for descriptor, _ in self._poll.poll():
                if descriptor == self._control.fileno():
                    try:
                        return None, bool(self._control.recv(1))
                    except OSError:
                        return None, False

    def _sweep(self, child: int, status: int | None) -> tuple[int, int]:
        """End every descendant.

        Returns the exit code of the child, and the number of descendants that could not be ended.
        """
        limit = time.monotonic() + SWEEP_SECONDS
        with suppress(OSError):
            if status is None:
                _end(child)
        while True:
            self._wakeup.clear()
            reaped_status, has_children = _reap(child)
            status = reaped_status if status is None else status
            if not has_children:
                return (-signal.SIGKILL if status is None else status), 0
            pids = _children()
            if time.monotonic() > limit:
                return (-signal.SIGKILL if status is None else status), max(1, len(pids))
            # Their orphans become children of this process, and are ended in the next round.
            for pid in pids:
                _end(pid)
            waiting = select.poll()
            waiting.register(self._wakeup.reader, select.POLLIN)
            waiting.poll(_PAUSE_MS)


def _reap(child: int) -> tuple[int | None, bool]:
    """Reap all dead children.

    Returns the exit code of `child` if it was among them, and whether this process has any children left.
    """
    status = None
    while True:
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status, False
        if pid == 0:
            return status, True
        if pid == child:
            status = os.waitstatus_to_exitcode(raw)


class _Nursery:
    """Forks supervisors, and ends the orphans of a killed supervisor."""

    def __init__(self, requests: socket.socket) -> None:
        _become_subreaper()
        self._requests = requests
        self._wakeup = _Wakeup()
        self._supervisors: set[int] = set()

    def serve(self) -> None:
        """Fork a supervisor for each socket received until agent-eval closes its end; then wait for them."""
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        poll.register(self._wakeup.reader, select.POLLIN)
        while True:
            _, has_orphans = self._tidy()
            ready = {descriptor for descriptor, _ in poll.poll(_PAUSE_MS if has_orphans else None)}
            if self._requests.fileno() in ready:
                data, descriptors = _receive(self._requests, 1)
                if not data:
                    break
                self._fork(descriptors[0])
        poll.unregister(self._requests)
        for pid in self._supervisors:
            os.kill(pid, signal.SIGCONT)  # a child may have stopped it
        limit = time.monotonic() + 2 * SWEEP_SECONDS
        while self._tidy()[0] and time.monotonic() < limit:
            poll.poll(_PAUSE_MS)

    def _tidy(self) -> tuple[bool, bool]:
        """Reap dead children and end orphans.

        Returns whether this process has children left, and whether orphans are among them.
        """
        self._wakeup.clear()
        try:
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._supervisors.discard(pid)
        except ChildProcessError:
            return False, False
        orphans = [pid for pid in _children() if pid not in self._supervisors]
        for pid in orphans:
            _end(pid)
        return True, bool(orphans)

    def _fork(self, descriptor: int) -> None:
        pid = os.fork()
        if pid:
            self._supervisors.add(pid)
            os.close(descriptor)
            return
        try:
            self._requests.close()
            with suppress(EOFError, OSError):
                _Supervisor(socket.socket(fileno=descriptor)).serve()
        finally:
            # agent-eval notices that the socket closes; the nursery inherits any descendants.
            os._exit(0)


def main() -> None:
    """Serve as the nursery; the only argument is the number of the descriptor that requests come from."""
    os.setsid()  # so that Ctrl-C reaches agent-eval only, which then decides what to end
    os.chdir("/")
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.set_inheritable(False)
    _Nursery(requests).serve()


if __name__ == "__main__":
    main()

"""The processes between this program and its children; runs alone, on the standard library only.

A child may start processes that detach themselves. Linux gives such orphans to the nearest ancestor that
asked for them (PR_SET_CHILD_SUBREAPER), so each child gets an ancestor of its own, a supervisor, whose
descendants are that child's and nobody else's. When the child ends, or when the program says so, or when the
program is gone, the supervisor ends them all; the kernel's "no child processes" proves that none is left.

Supervisors are forked from one small process, the nursery, because forking that is cheap and starting an
interpreter is not. The nursery is itself a subreaper: should a child kill its supervisor, then the
nursery inherits the orphans and ends them.

Frames on a supervisor's socket: the supervisor says its process id once (4 bytes). The program sends `r`, a
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
"""errno of a child that could not be started else 0, exit status as `os.waitstatus_to_exitcode`, descendants
that could not be ended, seconds that the child ran."""

RUN, KILL = b"r", b"k"
SWEEP_SECONDS = 10.0
"""How long to try to end descendants; only those that the kernel holds or that are not ours take longer."""

_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_MS = 5
_TO_DEFAULT = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


def become_subreaper() -> None:
    """Inherit the orphans among the descendants. Where that is not Linux, nothing happens."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def receive(connection: socket.socket, most: int) -> tuple[bytes, list[int]]:
    """One byte, and the descriptors that came with it; none of them will be inherited.

    Args:
        connection: A socket.
        most: How many descriptors to expect.
    """
    data, descriptors, _, _ = socket.recv_fds(connection, 1, most)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return data, descriptors


def children() -> list[int]:
    """Process ids of this process's children. May miss some while processes come and go."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as listing:
            return [int(word) for word in listing.read().split()]
    except OSError:
        return _children_by_scan(me)


def _children_by_scan(me: int) -> list[int]:
    """For kernels without the listing of children."""
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as stat:
                if int(stat.read().rpartition(b")")[2].split()[1]) == me:
                    found.append(int(name))
    return found


def end(pid: int) -> None:
    """Kill an unreaped child and its process group, if that is not ours.

    Killing a group is atomic: a process that forks as fast as it can does not get away within its group.
    """
    with suppress(OSError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal.SIGKILL)
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


class Wakeup:
    """Turns SIGCHLD into bytes that `poll` sees."""

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair()
        self.reader.setblocking(False)
        self._writer.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)

    def clear(self) -> None:
        """Forget the signals seen so far."""
        with suppress(BlockingIOError):
            while self.reader.recv(4096):
                pass


class Supervisor:
    """Serves one child at a time."""

    def __init__(self, control: socket.socket) -> None:
        become_subreaper()
        self._control = control
        self._wakeup = Wakeup()
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._wakeup.reader, select.POLLIN)

    def serve(self) -> None:
        """Run children until the program closes its end."""
        self._control.sendall(PROCESS_ID.pack(os.getpid()))
        while True:
            kind, descriptors = receive(self._control, 3)
            if not kind:
                return
            if kind == RUN:  # a `k` that came too late for the last child is nobody's
                request = json.loads(self._exactly(LENGTH.unpack(self._exactly(LENGTH.size))[0]))
                if not self._run(request, descriptors):
                    return

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._control.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _run(self, request: dict, descriptors: list[int]) -> bool:  # type: ignore[type-arg]
        """Run one child to its end and answer. Returns whether another may follow."""
        began = time.monotonic()
        try:
            child = self._start(request, descriptors)
        except OSError as error:
            self._control.sendall(REPLY.pack(error.errno or errno.EIO, 0, 0, 0.0))
            return True
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        status, wanted = self._wait(child)
        spent = time.monotonic() - began
        status, left = self._sweep(child, status)
        if wanted:
            self._control.sendall(REPLY.pack(0, status, left, spent))
        return wanted and not left

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
            os.chdir("/")

    def _wait(self, child: int) -> tuple[int | None, bool]:
        """Wait for the child's end or the word to end it.

        Returns:
            (exit status, None if it still runs; whether the program is still there).
        """
        while True:
            self._wakeup.clear()
            status = reap(child)[0]
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

        Returns:
            (exit status of the child, how many would not end).
        """
        limit = time.monotonic() + SWEEP_SECONDS
        with suppress(OSError):
            if status is None:
                end(child)
        while True:
            self._wakeup.clear()
            found, any_left = reap(child)
            status = found if status is None else status
            if not any_left:
                return (-signal.SIGKILL if status is None else status), 0
            left = children()
            if time.monotonic() > limit:
                return (-signal.SIGKILL if status is None else status), max(1, len(left))
            for pid in left:
                end(pid)
            waiting = select.poll()
            waiting.register(self._wakeup.reader, select.POLLIN)
            waiting.poll(_PAUSE_MS)


def reap(child: int) -> tuple[int | None, bool]:
    """Take leave of dead children.

    Returns:
        (exit status of `child` if it was among them, whether there are any children left).
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


class Nursery:
    """Forks supervisors, and ends what a killed one leaves behind."""

    def __init__(self, requests: socket.socket) -> None:
        become_subreaper()
        self._requests = requests
        self._wakeup = Wakeup()
        self._supervisors: set[int] = set()

    def serve(self) -> None:
        """Fork a supervisor for each socket sent, until the program closes its end; then wait for them."""
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        poll.register(self._wakeup.reader, select.POLLIN)
        while True:
            _, orphans = self._tidy()
            ready = {descriptor for descriptor, _ in poll.poll(_PAUSE_MS if orphans else None)}
            if self._requests.fileno() in ready:
                data, descriptors = receive(self._requests, 1)
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
        """Reap the dead and end orphans.

        Returns:
            (whether any children are left, whether there are orphans among them).
        """
        self._wakeup.clear()
        try:
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._supervisors.discard(pid)
        except ChildProcessError:
            return False, False
        orphans = [pid for pid in children() if pid not in self._supervisors]
        for pid in orphans:
            end(pid)
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
                Supervisor(socket.socket(fileno=descriptor)).serve()
        finally:
            # Closing its end tells the program; what it leaves behind falls to the nursery.
            os._exit(0)


def main() -> None:
    """Entry point; the only argument is the number of the descriptor to take requests from."""
    os.setsid()  # so that Ctrl-C goes to the program only, which then says what to end
    os.chdir("/")
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.set_inheritable(False)
    Nursery(requests).serve()


if __name__ == "__main__":
    main()

"""Calling a function that may never return, from a thread that must go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

NAME = "agent-under-test"

GRACE_SECONDS = 0.5
"""How much longer to wait for a function that has a time limit of its own."""

T = TypeVar("T")

_Inbox = SimpleQueue[Callable[[], None] | None]


class HelperThread:
    """A thread of the calling thread's own, used again and again: starting one a call would cost more than
    most functions take. One that does not return is left behind, and another takes its place.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def run(self, function: Callable[[], None], seconds: float) -> bool:
        """Call a function that does not raise. Returns whether it returned in time."""
        helper: _Helper | None = getattr(self._local, "helper", None)
        if helper is None:
            helper = self._local.helper = _Helper()
        if helper.run(function, seconds):
            return True
        del self._local.helper
        return False

    def call(self, function: Callable[[], T], seconds: float | None) -> T:
        """What a function returns or raises.

        Raises:
            TimeoutError: It did not return in time, and was left behind.
        """
        if seconds is None:
            return function()
        returned: list[T] = []
        raised: list[BaseException] = []

        def work() -> None:
            try:
                returned.append(function())
            # It is raised again in the thread that waits.
            except BaseException as error:
                raised.append(error)

        if not self.run(work, seconds):
            raise TimeoutError
        if raised:
            raise raised[0]
        return returned[0]


class _Helper:
    def __init__(self) -> None:
        self._inbox: _Inbox = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        threading.Thread(target=_serve, args=(self._inbox, self._done), daemon=True, name=NAME).start()

    def run(self, function: Callable[[], None], seconds: float) -> bool:
        self._inbox.put(function)
        try:
            self._done.get(timeout=min(seconds, threading.TIMEOUT_MAX))
        except Empty:
            return False
        return True

    def __del__(self) -> None:
        # With the thread that it helped, or when it was left behind: it ends after what it is doing.
        self._inbox.put(None)


def _serve(inbox: _Inbox, done: SimpleQueue[None]) -> None:
    while (function := inbox.get()) is not None:
        function()
        del function  # what it holds is not kept while waiting for the next
        done.put(None)

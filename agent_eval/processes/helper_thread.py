"""Call a function that may never return, from a thread that must continue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

NAME = "agent-under-test"
"""Name of threads that run an agent's code."""

GRACE_SECONDS = 0.5
"""Extra time for a function that enforces a time limit itself."""

T = TypeVar("T")

_Inbox = SimpleQueue[Callable[[], None] | None]


class HelperThread:
    """Calls functions with a time limit, in one helper thread for each calling thread.

    The helper thread is reused, because starting a thread for each call would cost more than most functions
    take. A helper thread whose function does not return in time is abandoned, and the next call starts
    another.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def run(self, function: Callable[[], None], seconds: float) -> bool:
        """Call a function that does not raise; return whether it returned in time."""
        helper: _Helper | None = getattr(self._local, "helper", None)
        if helper is None:
            helper = self._local.helper = _Helper()
        if helper.run(function, seconds):
            return True
        del self._local.helper
        return False

    def call(self, function: Callable[[], T], seconds: float | None) -> T:
        """Call a function; return what it returns, or raise what it raises.

        Raises:
            TimeoutError: The function did not return in time; its thread is abandoned.
        """
        if seconds is None:
            return function()
        results: list[T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(function())
            # The calling thread raises it again.
            except BaseException as error:
                errors.append(error)

        if not self.run(work, seconds):
            raise TimeoutError
        if errors:
            raise errors[0]
        return results[0]


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
        # The helper thread ends with the thread that used it, or after the function that it was abandoned in.
        self._inbox.put(None)


def _serve(inbox: _Inbox, done: SimpleQueue[None]) -> None:
    while (function := inbox.get()) is not None:
        function()
        del function  # lets its objects be freed while the thread waits for the next function
        done.put(None)

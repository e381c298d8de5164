"""Threads for functions that mostly wait. They keep no process alive: an interrupted command ends at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_Work = tuple[Future[Any], Callable[[], Any]]


class ThreadPool:
    """Calls functions in daemon threads. A context manager; leaving it drops what has not begun.

    `concurrent.futures` would wait for its threads at the end of the process, and so for requests that may
    take minutes. There are at most `most` threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Have a function called, and return its future result."""
        future: Future[T] = Future()
        self._work.put((future, function))
        if len(self._threads) < self._most:
            thread = threading.Thread(target=self._serve, name="waits", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def _serve(self) -> None:
        while (work := self._work.get()) is not None and not self._closed.is_set():
            future, function = work
            try:
                future.set_result(function())
            # The caller of `result` raises it.
            except BaseException as error:
                future.set_exception(error)
            del work, future, function  # lets their objects be freed while the thread waits

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        for _ in self._threads:
            self._work.put(None)

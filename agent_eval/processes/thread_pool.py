"""Threads for functions that mostly wait. They keep no process alive: an interrupted command ends at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from typing_extensions import override

P = ParamSpec("P")
T = TypeVar("T")

_Work = tuple[Future[Any], Callable[[], Any]]


class ThreadPool(Executor):
    """Calls functions in daemon threads, at most `most` at once. Leaving it drops what has not begun.

    The pool of `concurrent.futures` would wait for its threads at the end of the process, and so for requests
    that may take minutes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._closed = threading.Event()

    @override
    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        context = copy_context()  # with the caller's time limit
        self._work.put((future, lambda: context.run(function, *args, **kwargs)))
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._most:
            thread = threading.Thread(target=self._serve, name="waits", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    def _serve(self) -> None:
        while (work := self._work.get()) is not None and not self._closed.is_set():
            future, function = work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                # The caller of `result` raises it.
                except BaseException as error:
                    future.set_exception(error)
            del work, future, function  # lets their objects be freed while the thread waits
            self._idle.release()

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Drop what has not begun; nothing is waited for."""
        self._closed.set()
        for _ in self._threads:
            self._work.put(None)

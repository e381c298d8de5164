"""Processes forked from this one, for work that takes a processor. None of them outlives it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor

_PR_SET_PDEATHSIG = 1
_ENDING = frozenset({signal.SIGINT, signal.SIGTERM})


MOST_PROCESSES = 3
"""Processes that work at once: each takes some 45 MB."""

SHARDS_WORTH_A_PROCESS = 4
"""With fewer shards for each, starting processes costs more than it saves."""


def processes_for(shards: int) -> int:
    """Count the processes that should work at once on so many shards; 1 where this one cannot be forked.

    A process with threads is not: what another thread holds would stay locked for ever. Nor is one outside of
    Linux, where nothing ends the child of a parent that was killed.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return 1
    return max(1, min(MOST_PROCESSES, shards // SHARDS_WORTH_A_PROCESS, len(os.sched_getaffinity(0))))


@contextmanager
def forked_processes(number: int, begin: Callable[..., None], *arguments: Any) -> Iterator[Executor]:
    """Fork processes, which have all that is in memory here; each calls `begin` with the arguments first.

    A context manager: they are ended with its block, and what has not begun is dropped.
    """
    # Few commands need them.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # An exception of a signal's handler while the pool starts would be lost, or leave half a pool that hangs.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        pool = ProcessPoolExecutor(
            number,
            mp_context=get_context("fork"),
            initializer=_begin,
            initargs=(os.getpid(), begin, arguments),
        )
        pool.submit(os.getpid)  # forks them all
    except BaseException:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent: int, begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """End with the parent, however it ends; leave the signals of the terminal to it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    begin(*arguments)

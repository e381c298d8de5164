"""Map a function over packed items in several processes, one of which is the calling process, in order.

Items go to the workers through memory that they share, and results come back through pipes. The caller reads
items only as fast as results are taken, so that neither wait in memory in any number.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from agent_eval.engine.workers import Claims, ForkedWorker, Outbox, WorkerDied, can_fork, claim
from agent_eval.errors import NotEvaluable

Result = TypeVar("Result")

_BEFORE_FORKING = 8
"""Items that the calling process computes first: for a few, starting workers takes longer than it saves."""
_AHEAD = 16
"""Results that may wait for an earlier one, with the items that are being computed."""
_WAITING = 2
"""Items for each worker beside the calling process: one that it computes, and the next."""
_SLOT_BYTES = 1 << 20
_LENGTH_BYTES = 8


def map_in_order(
    do: Callable[[Any], Result], items: Iterable[object], processes: int
) -> Generator[Result, None, None]:
    """Yield `do(item)` for each item, in their order.

    Only items that are `bytes` are given to other processes, and only where forking is safe. Closing the
    iterator stops the workers.

    Args:
        do: What to compute. A worker sees the process as it was when the first results had been taken; its
            results must be picklable.
        items: Read by the calling process, a few ahead of the results.
        processes: Number of processes at most, this one included.

    Raises:
        NotEvaluable: A worker died.
        Exception: What `do` raised.

    Example:
        >>> list(map_in_order(len, [b"one", b"three"], processes=2))
        [3, 5]
    """
    source = iter(items)
    before = 0
    for item in source:
        before += isinstance(item, bytes)
        if before > _BEFORE_FORKING and processes > 1 and can_fork():
            yield from _by_a_team(do, chain([item], source), processes)
            return
        yield do(item)


def _by_a_team(
    do: Callable[[Any], Result], source: Iterator[object], processes: int
) -> Generator[Result, None, None]:
    try:
        with _Team(do, processes - 1) as team:
            yield from team.results(source)
    except WorkerDied as death:
        raise NotEvaluable(
            f"a worker process died {death.how}",
            remedy="It may have run out of memory: run again with more memory.",
            exit_code=death.code,
        ) from None


class _Team(Generic[Result]):
    """The calling process and its workers. Numbers say which item and which result belong together."""

    def __init__(self, do: Callable[[Any], Result], workers: int) -> None:
        self._do = do
        self._slots = mmap.mmap(-1, _AHEAD * _SLOT_BYTES)
        self._lending = 0
        self._claims = Claims(iter(lambda: self._lending, -1))
        self._workers: list[ForkedWorker] = []
        self._lent = 0
        self._done: dict[int, Result] = {}
        try:
            for _ in range(workers):
                self._workers.append(ForkedWorker(self._work, self._claims, self._workers))
        except BaseException:
            self.close()
            raise

    def results(self, source: Iterator[object]) -> Iterator[Result]:
        """Yield the results of all items; what is not lent to a worker is done here."""
        read = yielded = 0
        exhausted = False
        while not exhausted or yielded < read:
            while not exhausted and read - yielded < _AHEAD:
                busy = self._lent >= _WAITING * len(self._workers)
                if busy and yielded in self._done:
                    break
                item = list(islice(source, 1))
                exhausted = not item
                if exhausted:
                    self._claims.close_writer()
                elif busy or not self._lend(read, item[0]):
                    self._done[read] = self._do(item[0])
                read += len(item)
                self._receive(0)
            while yielded not in self._done and yielded < read:
                self._receive(None)
            while yielded in self._done:
                yield self._done.pop(yielded)
                yielded += 1
                self._receive(0)

    def _lend(self, number: int, item: object) -> bool:
        """Give an item to a worker, if it can be."""
        if not isinstance(item, bytes) or len(item) > _SLOT_BYTES - _LENGTH_BYTES:
            return False
        self._slots.seek(number % _AHEAD * _SLOT_BYTES)
        self._slots.write(len(item).to_bytes(_LENGTH_BYTES) + item)
        self._lending = number
        if not self._claims.refill(1):
            return False
        self._lent += 1
        return True

    def _receive(self, timeout: float | None) -> None:
        """Take the results that have arrived; without a timeout, wait for some."""
        if not self._lent:
            return
        running = {worker.results.fileno(): worker for worker in self._workers if not worker.finished}
        for descriptor in wait(list(running), timeout):
            for number, result in running[cast(int, descriptor)].receive():
                self._done[number] = result
                self._lent -= 1

    def _work(self, results: Outbox) -> None:
        while (number := claim(self._claims.reader)) is not None:
            results.send((number, self._do(self._item(number))))

    def _item(self, number: int) -> bytes:
        start = number % _AHEAD * _SLOT_BYTES
        end = start + _LENGTH_BYTES
        return self._slots[end : end + int.from_bytes(self._slots[start:end])]

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._claims.close()
        self._slots.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

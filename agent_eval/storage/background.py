"""Writing to a journal in the background, so that a trial that has finished waits for no disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from agent_eval.storage.journal import Journal

T = TypeVar("T")


class BackgroundWriter(Generic[T]):
    """A thread that appends to a journal, so that nobody waits for the disk. A context manager.

    Leaving the block waits until everything is on disk.

    Args:
        journal: The journal.
        kept: Called in that thread with what was given to `put` and the record's offset, once the record is
            on disk.
    """

    MOST_WAITING_BYTES = 1 << 20
    """What may wait to be written; whoever brings more waits until it is."""
    SECONDS_APART = 0.005
    """Between two writes at least, so that many short trials share one."""

    def __init__(self, journal: Journal, kept: Callable[[T, int], None]) -> None:
        self._journal, self._kept = journal, kept
        self._queue: list[tuple[T, bytes]] = []
        self._bytes = 0
        self._changed = threading.Condition()
        self._written_at = float("-inf")
        self._closing = self._idle = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="journal", daemon=True)
        self._thread.start()

    def put(self, item: T, line: bytes) -> None:
        """Hand over a record that `encode` has encoded. Any thread may.

        Raises:
            StorageError: What was handed over before could not be written.
            ValueError: The writer is closed.
        """
        with self._changed:
            while self._bytes >= self.MOST_WAITING_BYTES and not self._closing and self._error is None:
                self._changed.wait()
            self.check()
            if self._closing:
                raise ValueError("the writer is closed")
            self._queue.append((item, line))
            self._bytes += len(line)
            if self._idle or self._bytes >= self.MOST_WAITING_BYTES:
                self._changed.notify_all()

    def check(self) -> None:
        """Raise what ended the writing, if something did."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Wait until everything is on disk, and end the thread. Raises as `put`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self.check()

    def _serve(self) -> None:
        try:
            while batch := self._next():
                offset = self._journal.append_lines([line for _, line in batch])
                self._written_at = time.monotonic()
                for item, line in batch:
                    self._kept(item, offset)
                    offset += len(line)
        # Whoever brings the next record is told.
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _next(self) -> list[tuple[T, bytes]]:
        """Everything that waits; nothing when the writer is closed."""
        with self._changed:
            while not self._queue and not self._closing:
                self._idle = True
                self._changed.wait()
            self._idle = False
            while (early := self._seconds_early()) > 0:
                self._changed.wait(early)
            batch, self._queue = self._queue, []
            if self._bytes >= self.MOST_WAITING_BYTES:
                self._changed.notify_all()
            self._bytes = 0
            return batch

    def _seconds_early(self) -> float:
        if self._closing or self._bytes >= self.MOST_WAITING_BYTES:
            return 0.0
        return self._written_at + self.SECONDS_APART - time.monotonic()

    def __enter__(self) -> BackgroundWriter[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except BaseException:
            if kind is None:
                raise

"""Write to a journal in the background, so that a finished trial does not wait for the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from agent_eval.storage.journal import Journal

T = TypeVar("T")


class BackgroundWriter(Generic[T]):
    """Appends records to a journal from a thread of its own. A context manager.

    Leaving the block waits until all records are on disk.

    `on_written` is called in the writer's thread with an item of `put` and the offset of its record, once the
    record is on disk.
    """

    MOST_WAITING_BYTES = 1 << 20
    """Bytes that may wait for the disk; a thread that puts more waits until they are written."""
    SECONDS_APART = 0.005
    """Minimum time between two writes, so that many short trials share one sync."""

    def __init__(self, journal: Journal, on_written: Callable[[T, int], None]) -> None:
        self._journal, self._on_written = journal, on_written
        self._queue: list[tuple[T, bytes]] = []
        self._queued_bytes = 0
        # Guards the attributes here, and is notified when one of them changes.
        self._changed = threading.Condition()
        self._written_at = float("-inf")
        self._closing = self._idle = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="journal", daemon=True)
        self._thread.start()

    def put(self, item: T, line: bytes) -> None:
        """Queue a record that `encode` has encoded. Any thread may call this.

        Raises:
            StorageError: An earlier record could not be written.
            ValueError: The writer is closed.
        """
        with self._changed:
            while self._queued_bytes >= self.MOST_WAITING_BYTES and not self._closing and self._error is None:
                self._changed.wait()
            self.check()
            if self._closing:
                raise ValueError("the writer is closed")
            self._queue.append((item, line))
            self._queued_bytes += len(line)
            # The thread is not woken for every record: it looks again after `SECONDS_APART`.
            if self._idle or self._queued_bytes >= self.MOST_WAITING_BYTES:
                self._changed.notify_all()

    def check(self) -> None:
        """Raise the error that ended the writing, if there is one."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Wait until all records are on disk, and end the thread. Raises as `put`."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self.check()

    def _serve(self) -> None:
        try:
            while batch := self._next_batch():
                offset = self._journal.append_lines([line for _, line in batch])
                self._written_at = time.monotonic()
                for item, line in batch:
                    self._on_written(item, offset)
                    offset += len(line)
        # The next call of `put`, `check` or `close` raises it.
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _next_batch(self) -> list[tuple[T, bytes]]:
        """Wait for records and return all that are queued; none once the writer is closed."""
        with self._changed:
            while not self._queue and not self._closing:
                self._idle = True
                self._changed.wait()
            self._idle = False
            while (seconds := self._seconds_to_wait()) > 0:
                self._changed.wait(seconds)
            batch, self._queue = self._queue, []
            if self._queued_bytes >= self.MOST_WAITING_BYTES:
                self._changed.notify_all()
            self._queued_bytes = 0
            return batch

    def _seconds_to_wait(self) -> float:
        if self._closing or self._queued_bytes >= self.MOST_WAITING_BYTES:
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

"""Temporary storage for more data than memory holds: byte strings by number, and numbers by key.

Both live in files that the operating system removes with the process, however it ends.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from array import array
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from agent_eval.errors import StorageError

_BUFFER = 1 << 20
_CACHE_KIB = 8 * 1024
_IN_MEMORY = 50_000
_MARKED_BYTES = 1 << 21
"""Size of the bits that say which keys the database may have: of a million, it has one in 16 wrong."""


class Spool:
    """Byte strings in an unnamed temporary file, read back by number in any order."""

    def __init__(self) -> None:
        try:
            self._file = tempfile.TemporaryFile(buffering=_BUFFER)  # noqa: SIM115  # closed with the spool
        except OSError as error:
            raise _no_space(error) from error
        self._ends = array("Q", [0])
        self._is_flushed = True

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, data: bytes) -> int:
        """Store `data`, and return its number.

        Raises:
            StorageError: The temporary directory is full.
        """
        try:
            self._file.write(data)
        except OSError as error:
            raise _no_space(error) from error
        self._is_flushed = False
        self._ends.append(self._ends[-1] + len(data))
        return len(self) - 1

    def __getitem__(self, number: int) -> bytes:
        start, end = self._ends[number], self._ends[number + 1]
        try:
            if not self._is_flushed:
                self._file.flush()
                self._is_flushed = True
            return os.pread(self._file.fileno(), end - start, start)
        except OSError as error:
            raise _no_space(error) from error

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()


def key_of(text: str) -> int:
    """Return a 64-bit key of a text, the same within this process."""
    return hash(text)


class KeyIndex:
    """Numbers by 64-bit key, several to a key; in memory, and beyond some of them in a database on disk."""

    def __init__(self) -> None:
        self._recent: dict[int, list[int]] = {}
        self._recent_numbers = 0
        self._database: sqlite3.Connection | None = None
        self._marked = bytearray()

    def add(self, key: int, number: int) -> None:
        """Add a number to those of a key.

        Raises:
            StorageError: The temporary directory is full.
        """
        self._recent.setdefault(key, []).append(number)
        self._recent_numbers += 1
        if self._recent_numbers >= _IN_MEMORY:
            self._store()

    def setdefault(self, key: int, number: int) -> int:
        """Return the number of a key that has one at most; give it `number` if it has none.

        Raises:
            StorageError: The temporary directory is full.
        """
        recent = self._recent.get(key)
        if recent is not None:
            return recent[0]
        known = min(self._stored(key), default=number)
        self.add(key, known)
        return known

    def first(self, key: int) -> int | None:
        """Return the smallest number of a key; None if it has none."""
        return min(self.numbers(key), default=None)

    def last(self, key: int) -> int | None:
        """Return the largest number of a key; None if it has none."""
        recent = self._recent.get(key)
        if recent is not None:
            return max(recent)
        return max(self._stored(key), default=None)

    def numbers(self, key: int) -> list[int]:
        """Return the numbers of a key in ascending order."""
        return sorted({*self._recent.get(key, ()), *self._stored(key)})

    def _stored(self, key: int) -> list[int]:
        """Return the numbers that the database has; asks it only if it may have some."""
        if self._database is None or not self._marked[key >> 3 & _MARKED_BYTES - 1] >> (key & 7) & 1:
            return []
        rows = self._database.execute("SELECT number FROM entry WHERE key = ?", (key,))
        return [int(row[0]) for row in rows]

    def _store(self) -> None:
        try:
            if self._database is None:
                self._database = _database()
                self._marked = bytearray(_MARKED_BYTES)
            pairs = ((key, number) for key, numbers in self._recent.items() for number in numbers)
            self._database.executemany("INSERT OR IGNORE INTO entry VALUES (?, ?)", pairs)
        except sqlite3.Error as error:
            raise _no_space(error) from error
        for key in self._recent:
            self._marked[key >> 3 & _MARKED_BYTES - 1] |= 1 << (key & 7)
        self._recent.clear()
        self._recent_numbers = 0

    def clear(self) -> None:
        """Forget all numbers, and free what they take."""
        if self._database is not None:
            self._database.close()
        self._database, self._marked, self._recent, self._recent_numbers = None, bytearray(), {}, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()


def _database() -> sqlite3.Connection:
    # The empty name makes a database that SQLite writes to an unnamed file once its cache is full.
    database = sqlite3.connect("", isolation_level=None)
    database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    database.execute("PRAGMA journal_mode = OFF")
    database.execute("PRAGMA synchronous = OFF")
    database.execute(
        "CREATE TABLE entry (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID"
    )
    database.execute("BEGIN")
    return database


def _no_space(error: Exception) -> StorageError:
    return StorageError(
        f"the temporary directory cannot be used: {error}",
        remedy="Free space there, or set TMPDIR to a directory with more.",
    )

"""Temporary storage of an import: byte strings in a file without a name, and numbers by key."""

from __future__ import annotations

import os
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from agent_eval.errors import StorageError

_BUFFER = 1 << 20


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
        """Store `data`, and return its number."""
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
    """Numbers by 64-bit key, several to a key, in memory: some 200 bytes a key."""

    def __init__(self) -> None:
        self._numbers: dict[int, list[int]] = {}

    def add(self, key: int, number: int) -> None:
        """Add a number to those of a key."""
        numbers = self._numbers.setdefault(key, [])
        position = bisect_left(numbers, number)
        if numbers[position : position + 1] != [number]:
            numbers.insert(position, number)

    def setdefault(self, key: int, number: int) -> int:
        """Return the number of a key that has one at most; give it `number` if it has none."""
        return self._numbers.setdefault(key, [number])[0]

    def last(self, key: int) -> int | None:
        """Return the largest number of a key; None if it has none."""
        numbers = self._numbers.get(key)
        return None if numbers is None else numbers[-1]

    def numbers(self, key: int) -> list[int]:
        """Return the numbers of a key in ascending order."""
        return list(self._numbers.get(key, ()))

    def clear(self) -> None:
        """Forget all numbers, and free what they take."""
        self._numbers = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


def _no_space(error: Exception) -> StorageError:
    return StorageError(
        f"the temporary directory cannot be used: {error}",
        remedy="Free space there, or set TMPDIR to a directory with more.",
    )

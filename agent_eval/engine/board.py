"""Shared memory in which workers note what they do, so that their parent sees which trial a dead one had."""

from __future__ import annotations

import struct
import time
from mmap import mmap
from typing import NamedTuple


class AtWork(NamedTuple):
    """The trial that a worker's thread runs.

    Attributes:
        began: Start of the trial or its attempt, on the monotonic clock.
        until: Time by which the attempt must end; infinite without a limit.
    """

    number: int
    began: float
    until: float


class Board:
    """Memory that a process shares with its forked workers. Each of their threads has a place."""

    _PLACE = struct.Struct("=qdd")

    def __init__(self, places: int) -> None:
        self._memory = mmap(-1, 1 + places * self._PLACE.size)
        self._free = set(range(places))

    def take(self, places: int) -> list[int]:
        """Reserve places for a new worker."""
        return [self._free.pop() for _ in range(places)]

    def give_back(self, places: list[int]) -> None:
        """Free the places of a worker that has ended."""
        for place in places:
            self.note(place, None)
        self._free.update(places)

    @property
    def interrupted(self) -> bool:
        """Whether workers must begin no further attempt."""
        return self._memory[0] != 0

    def interrupt(self) -> None:
        """Tell workers to begin no further attempt."""
        self._memory[0] = 1

    def note(self, place: int, number: int | None, seconds: float | None = None) -> None:
        """Note what the thread at a place does.

        Args:
            number: The trial's number; None if it runs no trial.
            seconds: How long the current attempt may take; None without a limit.
        """
        now = time.monotonic()
        until = float("inf") if seconds is None else now + seconds
        self._PLACE.pack_into(
            self._memory, self._offset(place), 0 if number is None else number + 1, now, until
        )

    def at(self, place: int) -> AtWork | None:
        """Return what the thread at a place does; None if it runs no trial."""
        number, began, until = self._PLACE.unpack_from(self._memory, self._offset(place))
        return AtWork(number - 1, began, until) if number else None

    def _offset(self, place: int) -> int:
        return 1 + place * self._PLACE.size

    def close(self) -> None:
        """Free the memory."""
        self._memory.close()

"""What workers are doing, so that it is known when one has died or takes too long."""

from __future__ import annotations

import struct
import time
from mmap import mmap
from typing import NamedTuple


class AtWork(NamedTuple):
    """What a thread of a worker is doing: the trial, since when, and until when the attempt may take."""

    number: int
    began: float
    until: float


class Board:
    """Memory that a process shares with those it forks, with a place for each of their threads.

    Args:
        places: How many threads of workers there are.
    """

    _PLACE = struct.Struct("=qdd")

    def __init__(self, places: int) -> None:
        self._memory = mmap(-1, 1 + places * self._PLACE.size)
        self._free = set(range(places))

    def take(self, places: int) -> list[int]:
        """Places for a new worker."""
        return [self._free.pop() for _ in range(places)]

    def give_back(self, places: list[int]) -> None:
        """The worker that had them is gone."""
        for place in places:
            self.note(place, None)
        self._free.update(places)

    @property
    def interrupted(self) -> bool:
        """Whether no attempt is begun any more."""
        return self._memory[0] != 0

    def interrupt(self) -> None:
        """Begin no attempt any more."""
        self._memory[0] = 1

    def note(self, place: int, number: int | None, seconds: float | None = None) -> None:
        """Say what is done at a place: nothing, a trial, or an attempt at it that may take so long."""
        now = time.monotonic()
        until = float("inf") if seconds is None else now + seconds
        self._PLACE.pack_into(
            self._memory, self._offset(place), 0 if number is None else number + 1, now, until
        )

    def at(self, place: int) -> AtWork | None:
        """What is done at a place."""
        number, began, until = self._PLACE.unpack_from(self._memory, self._offset(place))
        return AtWork(number - 1, began, until) if number else None

    def _offset(self, place: int) -> int:
        return 1 + place * self._PLACE.size

    def close(self) -> None:
        """Free the memory."""
        self._memory.close()

"""Who scores which shard: a pipe of numbers that several processes read.

A read takes one number and nothing is locked, so a process that is killed takes nothing with it but the
shard it had claimed.
"""

from __future__ import annotations

import os
import struct

_NUMBER = struct.Struct("=I")
_PIPE_BYTES = 1 << 16


class Claims:
    """The numbers of the shards that nobody has claimed yet, in suite order.

    Args:
        count: How many shards there are.
        first: Number of the first one that is to be claimed.
    """

    def __init__(self, count: int, first: int = 0) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._next, self._count = first, count
        self.refill()

    def refill(self) -> None:
        """Put numbers into the pipe until it is full, or all are in and its end is closed."""
        while self._next < self._count:
            try:
                os.write(self._writer, _NUMBER.pack(self._next))
            except BlockingIOError:
                return
            self._next += 1
        self.close_writer()

    def withdraw(self) -> None:
        """Take back what nobody has claimed."""
        self._next = self._count
        self.close_writer()
        while os.read(self.reader, _PIPE_BYTES):
            pass

    def close_writer(self) -> None:
        """Say that no more numbers come. Every process that holds the pipe has to."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_writer()
        os.close(self.reader)


def claim(reader: int) -> int | None:
    """Take the next number; None when all are taken.

    Args:
        reader: File descriptor of `Claims.reader`.
    """
    data = os.read(reader, _NUMBER.size)
    return int(_NUMBER.unpack(data)[0]) if data else None

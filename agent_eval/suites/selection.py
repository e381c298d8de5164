"""A part of a suite, as a suite, without holding it in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from agent_eval.contracts import SHARD_CASES
from agent_eval.suites.cases import RawCase
from agent_eval.suites.document import Document, Shard
from agent_eval.suites.reader import SuiteSource


class Selection(Document):
    """Some cases of another document, in its order; path, digest and header stay those of the file.

    Args:
        whole: Where the cases are.
        positions: Positions of the selected ones in `whole`, rising.
    """

    def __init__(self, whole: Document, positions: Iterable[int]) -> None:
        self.whole = whole
        self.path, self.digest = whole.path, whole.digest
        self.raw_header, self.header_line, self.problems = whole.raw_header, whole.header_line, whole.problems
        self.positions = array("Q", positions)
        count = len(self.positions)
        self.shards = [
            Shard(index, first, min(SHARD_CASES, count - first))
            for index, first in enumerate(range(0, count, SHARD_CASES))
        ]

    def read(self, shard: Shard) -> Iterator[RawCase]:
        """The selected cases of a shard, each with its place in the file. Raises like `Document.read`."""
        wanted = self.positions[shard.first : shard.first + shard.count]
        number = 0
        while number < len(wanted):
            source = self.whole.shards[wanted[number] // SHARD_CASES]
            for position, found in enumerate(self.whole.read(source), start=source.first):
                if position == wanted[number]:
                    yield found
                    number += 1
                    if number == len(wanted):
                        return


def select(suite: SuiteSource, positions: Iterable[int]) -> SuiteSource:
    """The suite with the cases at these positions only, which rise."""
    return SuiteSource(Selection(suite.document, positions), suite.header)

"""A suite file before its cases are checked: the raw header, and raw cases in portions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.contracts import SHARD_CASES
from agent_eval.suites.cases import Place, RawCase
from agent_eval.suites.problems import Problem, shown


@dataclass(frozen=True, slots=True)
class Shard:
    """Up to `SHARD_CASES` neighbouring cases.

    `first` is the position of the first one, from 0. `offset` (bytes) and `line` (from 1) say where it
    stands in a `.jsonl` file; both are 0 elsewhere.
    """

    index: int
    first: int
    count: int
    offset: int = 0
    line: int = 0


class Document(ABC):
    """A suite file of any format. Holds no open file and can be pickled, so workers read it alike.

    Attributes:
        path: As the user named it.
        digest: Lower-case hexadecimal sha256 of the file's bytes.
        raw_header: Everything but the cases, as read.
        header_line: Line of the header, None where lines mean nothing.
        shards: All cases in suite order.
        problems: What is wrong with the file's structure, beyond header and cases.
    """

    path: Path
    digest: str
    raw_header: Any
    header_line: int | None
    shards: list[Shard]
    problems: list[Problem]

    @property
    def case_count(self) -> int:
        """Number of cases."""
        return sum(shard.count for shard in self.shards)

    @property
    def held_bytes(self) -> int:
        """Bytes of the file that are held in memory as values, which takes several times that; mostly 0."""
        return 0

    @abstractmethod
    def read(self, shard: Shard) -> Iterator[RawCase]:
        """The cases of a shard, one at a time.

        Raises:
            InvalidInput: A line is not strict JSON.
            NotEvaluable: The file changed or vanished since it was opened.
        """

    def read_all(self) -> Iterator[RawCase]:
        """Every case, one at a time. Raises like `read`."""
        for shard in self.shards:
            yield from self.read(shard)


class WholeDocument(Document):
    """A `.json` or `.yaml` suite, which can only be read as a whole.

    Args:
        path: As the user named it.
        digest: sha256 of the file's bytes.
        payload: The parsed file.
        size: Bytes of the file; 0 where the payload was chosen from one that is held already.
    """

    def __init__(self, path: Path, digest: str, payload: Any, size: int = 0) -> None:
        self.path = path
        self._size = size
        self.digest = digest
        self.raw_header = payload
        self.header_line = None
        self.problems = []
        self._cases: list[Any] = []
        if isinstance(payload, dict):
            self._take_cases(payload)
        count = len(self._cases)
        self.shards = [
            Shard(index, first, min(SHARD_CASES, count - first))
            for index, first in enumerate(range(0, count, SHARD_CASES))
        ]

    @property
    def held_bytes(self) -> int:
        """All of them."""
        return self._size

    def _take_cases(self, payload: dict[str, Any]) -> None:
        self.raw_header = {name: value for name, value in payload.items() if name != "cases"}
        cases = payload.get("cases")
        if isinstance(cases, list):
            self._cases = cases
        elif "cases" in payload:
            self.problems.append(
                Problem(f"cases must be an array, not {shown(cases)}", "Write it as [{...}, ...].", "cases")
            )
        else:
            self.problems.append(Problem("cases is missing", 'Add "cases": [{...}, ...].', "cases"))

    def read(self, shard: Shard) -> Iterator[RawCase]:
        """The cases of a shard."""
        for position in range(shard.first, shard.first + shard.count):
            yield RawCase(Place(position), self._cases[position])

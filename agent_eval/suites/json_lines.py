"""Suite files in JSON Lines (`.jsonl`): the header on the first line, a case on each of the others.

Such a suite is never read into memory as a whole, so it can be of any size.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from typing_extensions import override

from agent_eval.contracts import SHARD_CASES
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.storage.files import open_regular, reading_failed
from agent_eval.storage.json import DEFAULT_LIMITS, parse, parse_and_encode
from agent_eval.suites.document import Document, Place, RawCase, Shard
from agent_eval.suites.problems import Problem

MAX_LINE_BYTES = DEFAULT_LIMITS.max_bytes

_CACHED_BYTES = 4 << 20
"""Size up to which `case_at` caches the lines of a shard; of a larger shard it caches only their offsets."""


class JsonLinesDocument(Document):
    """A suite in a `.jsonl` file.

    Opening it reads the file once for its digest and the offsets of its shards; cases are read from the file
    whenever they are needed.

    Args:
        path: The file; blank lines in it are skipped.

    Raises:
        InvalidInput: Missing, a directory, empty, or the first line is not strict JSON.
        StorageError: The file cannot be read.

    Example:
        >>> path = Path("suite.jsonl")
        >>> _ = path.write_text('{"dataset_id": "orders"}\\n{"case_id": "refund"}\\n{"case_id": "order"}\\n')
        >>> document = JsonLinesDocument(path)
        >>> document.raw_header, [raw_case.raw["case_id"] for raw_case in document.read_all()]
        ({'dataset_id': 'orders'}, ['refund', 'order'])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems = []
        self.shards = []
        self._cached_lines: _ShardLines | None = None
        with open_regular(path) as file:
            self._fingerprint = _fingerprint(file)
            self._scan(file)
        if self.header_line is None:
            raise InvalidInput(
                f"{path}: empty",
                remedy='Write the suite\'s header on the first line, such as {"dataset_id": "my-suite"}.',
                file=str(path),
            )
        self._check_header()

    def _scan(self, file: BinaryIO) -> None:
        sha256 = hashlib.sha256()
        offset = position = 0
        start = (0, 0)
        header_line = None
        for line, content in enumerate(_lines(file, self.path), start=1):
            sha256.update(content)
            if _is_blank(content):
                pass
            elif header_line is None:
                header_line = line
                self.raw_header = parse(content.rstrip(), source=str(self.path), first_line=line)
            else:
                if position % SHARD_CASES == 0:
                    start = (offset, line)
                position += 1
                if position % SHARD_CASES == 0:
                    self._add_shard(position, SHARD_CASES, start)
            offset += len(content)
        if position % SHARD_CASES:
            self._add_shard(position, position % SHARD_CASES, start)
        self.header_line = header_line
        self.digest = sha256.hexdigest()

    def _add_shard(self, end: int, count: int, start: tuple[int, int]) -> None:
        self.shards.append(Shard(len(self.shards), end - count, count, *start))

    def _check_header(self) -> None:
        if not isinstance(self.raw_header, dict):
            return
        if "cases" in self.raw_header:
            self.problems.append(
                Problem(
                    "the header of a .jsonl suite must not have cases",
                    "Write each case on a line of its own, or rename the file to .json.",
                    "cases",
                    line=self.header_line,
                )
            )
        elif "case_id" in self.raw_header and "dataset_id" not in self.raw_header:
            self.problems.append(
                Problem(
                    "the first line is a case, but must be the suite's header",
                    'Put a line such as {"dataset_id": "my-suite"} before the cases.',
                    line=self.header_line,
                )
            )

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        with self._open() as file:
            for position, (_, line, content) in enumerate(self._lines_of(shard, file), start=shard.first):
                yield self._case(position, line, content)

    @override
    def case_at(self, position: int) -> RawCase:
        # Callers ask for neighbouring cases, so the last shard's lines are cached.
        shard = self.shards[position // SHARD_CASES]
        cached = self._cached_lines
        if cached is None or cached.shard is not shard:
            cached = self._cached_lines = self._lines_to_cache(shard)
        offset, line = cached.places[position - shard.first]
        if cached.lines:
            return self._case(position, line, cached.lines[position - shard.first])
        with self._open() as file:
            file.seek(offset)
            return self._case(position, line, next(_lines(file, self.path)))

    def _lines_to_cache(self, shard: Shard) -> _ShardLines:
        cached, size = _ShardLines(shard), 0
        with self._open() as file:
            for offset, line, content in self._lines_of(shard, file):
                cached.places.append((offset, line))
                size += len(content)
                if size <= _CACHED_BYTES:
                    cached.lines.append(content)
        if size > _CACHED_BYTES:
            cached.lines.clear()
        return cached

    def _open(self) -> BinaryIO:
        file = open_regular(self.path)
        if _fingerprint(file) == self._fingerprint:
            return file
        file.close()
        raise NotEvaluable(
            f"{self.path}: changed while it was being read",
            remedy="Do not write to a suite while it is evaluated; run again.",
            file=str(self.path),
        )

    def _lines_of(self, shard: Shard, file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
        """Yield offset, number and content of each line of a shard that has a case."""
        file.seek(shard.offset)
        offset, cases = shard.offset, 0
        for line, content in enumerate(_lines(file, self.path), start=shard.line):
            if not _is_blank(content):
                yield offset, line, content
                cases += 1
                if cases == shard.count:
                    return
            offset += len(content)

    def _case(self, position: int, line: int, content: bytes) -> RawCase:
        raw, encoded = parse_and_encode(content.rstrip(), source=str(self.path), first_line=line)
        return RawCase(Place(position, line), raw, encoded)


@dataclass(slots=True)
class _ShardLines:
    """Lines of a shard that have cases: offset and number of each line, and its content."""

    shard: Shard
    places: list[tuple[int, int]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)


def _fingerprint(file: BinaryIO) -> tuple[int, ...]:
    """Return attributes that change when a file is replaced or written to."""
    status = os.fstat(file.fileno())
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _is_blank(content: bytes) -> bool:
    """Whether a line has nothing but what JSON calls white space."""
    return content.isspace() and not content.strip(b" \t\r\n")


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        while content := file.readline(MAX_LINE_BYTES + 1):
            if len(content) > MAX_LINE_BYTES:
                raise InvalidInput(
                    f"{path}: a line is longer than {MAX_LINE_BYTES:,} bytes",
                    remedy="Write one case a line, each ended by a line feed.",
                    file=str(path),
                )
            yield content
    except OSError as error:
        raise reading_failed(path, error) from error

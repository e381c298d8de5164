"""A `.jsonl` suite: the header on the first line, then a case a line, read in portions of any size.

Only the places of the portions are kept, so that memory does not grow with the suite.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from agent_eval.contracts import SHARD_CASES
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.storage.bytes_reader import open_regular, reading_failed
from agent_eval.storage.json_reader import DEFAULT_LIMITS, parse, parse_and_encode
from agent_eval.suites.cases import Place, RawCase
from agent_eval.suites.document import Document, Shard
from agent_eval.suites.problems import Problem

MAX_LINE_BYTES = DEFAULT_LIMITS.max_bytes


class JsonLinesDocument(Document):
    """Scans the file once for its digest and the places of its shards.

    Args:
        path: The file; blank lines in it are skipped.

    Raises:
        InvalidInput: Missing, a directory, empty, or the first line is not strict JSON.
        StorageError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems = []
        self.shards = []
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
                    "the header of a .jsonl suite holds no cases",
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

    def read(self, shard: Shard) -> Iterator[RawCase]:
        """The cases of a shard, one line at a time. Raises like `Document.read`."""
        position, end = shard.first, shard.first + shard.count
        with open_regular(self.path) as file:
            if _fingerprint(file) != self._fingerprint:
                raise NotEvaluable(
                    f"{self.path}: changed while it was being read",
                    remedy="Do not write to a suite while it is evaluated; run again.",
                    file=str(self.path),
                )
            file.seek(shard.offset)
            for line, content in enumerate(_lines(file, self.path), start=shard.line):
                if _is_blank(content):
                    continue
                raw, encoded = parse_and_encode(content.rstrip(), source=str(self.path), first_line=line)
                yield RawCase(Place(position, line), raw, encoded)
                position += 1
                if position == end:
                    return


def _fingerprint(file: BinaryIO) -> tuple[int, ...]:
    status = os.fstat(file.fileno())
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _is_blank(content: bytes) -> bool:
    """Whether a line holds nothing but what JSON calls white space."""
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

"""A suite file before its cases are checked: the raw header, and raw cases in portions."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS, SHARD_CASES, Case, CaseResult, SuiteHeader
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.storage.files import open_regular, reading_failed
from agent_eval.storage.json import DEFAULT_LIMITS, dumps, parse, parse_and_encode
from agent_eval.suites.problems import Problem, problems_of
from agent_eval.suites.problems import short_json as shown


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

    def case_at(self, position: int) -> RawCase:
        """One case, read by itself. Raises like `read`.

        Args:
            position: From 0, among all cases.
        """
        shard = self.shards[position // SHARD_CASES]
        return next(islice(self.read(shard), position - shard.first, None))

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
            yield self.case_at(position)

    def case_at(self, position: int) -> RawCase:
        """The case at a position, which is in memory."""
        return RawCase(Place(position), self._cases[position])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a case stands: `position` from 0 among the cases, `line` from 1 or None."""

    position: int | None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RawCase:
    """A case as read from the suite, unknown fields kept, and where it stood.

    `raw` is an object once `parse_case` has accepted it. `line_bytes` are its JSON bytes as
    `json_writer.dumps` writes them, where reading gave them for free. `result` is what judges said of it
    when the agent was run, as a `CaseResult`; None where it has not been judged. `artifacts` are files that
    belong to it, by name, as a pack may hold them.
    """

    place: Place
    raw: Any
    line_bytes: bytes | None = None
    result: CaseResult | None = None
    artifacts: Mapping[str, bytes] | None = None

    def encoded(self) -> bytes:
        """The case on one line: sorted keys, no white space, unknown fields kept."""
        return dumps(self.raw) if self.line_bytes is None else self.line_bytes


def header_problems(raw: Any, line: int | None) -> list[Problem]:
    """What is wrong with a suite's header; empty when it is fine."""
    if not isinstance(raw, dict):
        return [
            Problem(
                f"the suite must be an object, not {shown(raw)}",
                'Write {"dataset_id": "...", "cases": [...]}.',
                line=line,
            )
        ]
    try:
        header = SuiteHeader.model_validate(raw)
    except ValidationError as error:
        return [
            Problem(message, remedy, field, line=line) for field, message, remedy in problems_of(error, raw)
        ]
    return list(_version_problems(header, line))


def _version_problems(header: SuiteHeader, line: int | None) -> Iterator[Problem]:
    in_metadata = header.metadata.get("schema_version")
    readable = ", ".join(READABLE_SCHEMA_VERSIONS)
    stated = {"schema_version": header.schema_version, "metadata.schema_version": in_metadata}
    for name, version in stated.items():
        if version is not None and version not in READABLE_SCHEMA_VERSIONS:
            yield Problem(
                f"{name} {shown(version)} is not a version this program reads ({readable})",
                f"State one of {readable}, or use a newer agent-eval.",
                name,
                line=line,
            )
    if None not in stated.values() and in_metadata != header.schema_version:
        yield Problem(
            f"schema_version {shown(header.schema_version)} contradicts metadata.schema_version "
            f"{shown(in_metadata)}",
            "State the version once, in metadata.schema_version.",
            "schema_version",
            line=line,
        )


def parse_header(raw: Any, file: str, line: int | None) -> SuiteHeader:
    """The header as a contract.

    Raises:
        InvalidInput: It is not a header; names file, line and field.
    """
    problems = header_problems(raw, line)
    if problems:
        raise problems[0].to_error(file, more=len(problems) - 1)
    return SuiteHeader.model_validate(raw)


def parse_case(found: RawCase, file: str) -> Case:
    """The case as a contract.

    Raises:
        InvalidInput: It is not a case; names file, line or position, case id and field.
    """
    try:
        return Case.model_validate(found.raw)
    except ValidationError as error:
        problems = _case_problems(error, found)
    raise problems[0].to_error(file, more=len(problems) - 1)


def case_problems(found: RawCase) -> tuple[Case | None, list[Problem]]:
    """The case and no problems, or None and everything that is wrong with it."""
    try:
        return Case.model_validate(found.raw), []
    except ValidationError as error:
        return None, _case_problems(error, found)


def _case_problems(error: ValidationError, found: RawCase) -> list[Problem]:
    case_id = stated_id(found.raw)
    place = found.place
    return [
        Problem(message, remedy, field, case_id, place.position, place.line)
        for field, message, remedy in problems_of(error, found.raw)
    ]


def stated_id(raw: Any) -> str | None:
    """The id a raw case states, if it states a usable one."""
    case_id = raw.get("case_id") if isinstance(raw, dict) else None
    return case_id if isinstance(case_id, str) and case_id else None


def duplicate_problem(case_id: str, first: Place, second: Place) -> Problem:
    """The problem of an id that stands twice, naming both places."""
    if first.line is not None and second.line is not None:
        where = f"lines {first.line} and {second.line}"
    else:
        where = f"cases[{first.position}] and cases[{second.position}]"
    return Problem(
        f"case_id {shown(case_id)} stands twice: {where}",
        "Give every case an id of its own.",
        "case_id",
        case_id,
        second.position,
        second.line,
    )


MAX_LINE_BYTES = DEFAULT_LIMITS.max_bytes


_MOST_REMEMBERED_BYTES = 4 << 20
"""Of the lines of a shard; of larger ones only their places are remembered."""


@dataclass(slots=True)
class _ShardLines:
    """The lines of a shard that hold cases: offset and number of each, and what is in it."""

    shard: Shard
    places: list[tuple[int, int]] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)


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
        self._remembered: _ShardLines | None = None
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
        with self._open() as file:
            for position, (_, line, content) in enumerate(self._lines_of(shard, file), start=shard.first):
                yield self._case(position, line, content)

    def case_at(self, position: int) -> RawCase:
        """The case at a position. Its shard is remembered until a case of another one is read."""
        shard = self.shards[position // SHARD_CASES]
        found = self._remembered
        if found is None or found.shard is not shard:
            found = self._remembered = self._remember(shard)
        offset, line = found.places[position - shard.first]
        if found.lines:
            return self._case(position, line, found.lines[position - shard.first])
        with self._open() as file:
            file.seek(offset)
            return self._case(position, line, next(_lines(file, self.path)))

    def _remember(self, shard: Shard) -> _ShardLines:
        remembered, size = _ShardLines(shard), 0
        with self._open() as file:
            for offset, line, content in self._lines_of(shard, file):
                remembered.places.append((offset, line))
                size += len(content)
                if size <= _MOST_REMEMBERED_BYTES:
                    remembered.lines.append(content)
        if size > _MOST_REMEMBERED_BYTES:
            remembered.lines.clear()
        return remembered

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
        """Offset, number and content of each line of a shard that holds a case."""
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

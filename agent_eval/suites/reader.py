"""Open a suite of any format and read its cases."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from typing_extensions import override

from agent_eval.contracts import SHARD_CASES, Case, Suite, SuiteHeader
from agent_eval.errors import InvalidInput, NotEvaluable, NothingMeasured
from agent_eval.storage.files import open_regular, read_bytes, reading_failed, sha256_bytes, sha256_file
from agent_eval.storage.json import DEFAULT_LIMITS, Limits, elements_of, parse, parse_and_encode
from agent_eval.suites.document import (
    UNNUMBERED_VERSION,
    Document,
    Place,
    RawCase,
    Shard,
    WholeDocument,
    duplicate_problem,
    numbered,
    parse_case,
    parse_header,
    states_current_version,
    whole_shards,
)
from agent_eval.suites.paths import SUITE_SUFFIXES
from agent_eval.suites.problems import Problem

MAX_LINE_BYTES = DEFAULT_LIMITS.max_bytes
_AHEAD_BYTES = 1 << 18
"""Size of what is read ahead of a case that is asked for alone."""


@dataclass(frozen=True)
class SuiteSource:
    """An open suite, which can be read repeatedly without keeping all of it in memory."""

    document: Document
    header: SuiteHeader

    @property
    def path(self) -> Path:
        """The suite's file, as the user named it."""
        return self.document.path

    @property
    def digest(self) -> str:
        """Lower-case hexadecimal sha256 of the file's bytes."""
        return self.document.digest

    @cached_property
    def case_count(self) -> int:
        """Number of cases."""
        return self.document.case_count

    def refuse_empty(self) -> None:
        """Refuse a suite without cases (NothingMeasured): nothing measured is not a pass."""
        if not self.case_count:
            raise NothingMeasured(
                f"{self.path}: the suite has no cases, so nothing would be measured",
                remedy="Add cases to it, or name another suite.",
                file=str(self.path),
            )

    @property
    def shards(self) -> list[Shard]:
        """The cases in portions, in suite order."""
        return self.document.shards

    def read(self, shard: Shard) -> Iterator[tuple[RawCase, Case]]:
        """Yield the cases of a shard, raw and as contracts, without looking for duplicate ids.

        Raises:
            InvalidInput: Malformed case; names file, place, case id and field.
            NotEvaluable: The file changed or vanished since it was opened.
        """
        check_keys = not self.document.is_evidence
        is_current = check_keys and states_current_version(self.header.version)
        is_unnumbered = self.header.version == UNNUMBERED_VERSION
        for stored in self.document.read(shard):
            raw_case = numbered(stored) if is_unnumbered else stored
            yield (
                raw_case,
                parse_case(raw_case, str(self.path), check_keys=check_keys, is_current=is_current),
            )

    def cases(self) -> Iterator[tuple[dict[str, Any], Case]]:
        """Yield every case in suite order, raw and as a contract.

        Raises:
            InvalidInput: Malformed case, or duplicate case id.
        """
        places: dict[str, Place] = {}
        for shard in self.shards:
            for raw_case, case in self.read(shard):
                first = places.setdefault(case.case_id, raw_case.place)
                if first is not raw_case.place:
                    raise duplicate_problem(case.case_id, first, raw_case.place).to_error(str(self.path))
                yield raw_case.raw, case


def open_document(path: Path) -> Document:
    """Open a suite's file and check no more than its syntax.

    Raises:
        InvalidInput: Missing, empty, unknown format, or malformed.
    """
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        return JsonLinesDocument(path)
    if suffix == ".json":
        data = read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes)
        parts = elements_of(data, "cases")
        if parts is not None:
            return JsonDocument(path, data, *parts)
        return _whole(path, sha256_bytes(data), parse(data, source=str(path)))
    if suffix in SUITE_SUFFIXES:
        from agent_eval.storage.yaml import read_yaml  # other formats need not import PyYAML

        payload = read_yaml(path)
        return _whole(path, sha256_file(path)[0], payload)
    raise InvalidInput(
        f"{path}: not a suite; its name must end in one of {', '.join(SUITE_SUFFIXES)}",
        remedy="Name a suite file, or give the file the suffix of its format.",
        file=str(path),
    )


def _whole(path: Path, digest: str, payload: Any) -> WholeDocument:
    """Return a parsed file as the kind of suite that it is."""
    if looks_like_aui(payload):
        from agent_eval.suites.aui import AuiDocument  # its contract takes a while to build

        return AuiDocument(path, digest, payload)
    return WholeDocument(path, digest, payload)


def looks_like_aui(payload: Any) -> bool:
    """Tell whether a parsed file is a suite in the format of the AUI evaluator: it has tests and no cases."""
    if not isinstance(payload, dict) or "cases" in payload or "dataset_id" in payload:
        return False
    return "tests" in payload or not {"agentId", "apiKey"}.isdisjoint(payload)


def open_suite(path: Path) -> SuiteSource:
    """Open a suite and check its header; its cases are checked when they are read.

    Raises:
        InvalidInput: As `open_document`, or malformed header or structure.
    """
    document = open_document(path)
    _refuse_problems(document)
    return SuiteSource(document, parse_header(document.raw_header, str(path), document.header_line))


def _refuse_problems(document: Document) -> None:
    problems, more = document.problems, len(document.problems) - 1
    if not problems:
        return
    error = problems[0].to_error(str(document.path))
    if more:
        listing = f"`agent-eval validate` lists {more} more {'problem' if more == 1 else 'problems'}."
        error.details["remedy"] = f"{error.remedy} {listing}"
    raise error


def load_suite(path: Path) -> Suite:
    """Read a whole suite into memory and check every case.

    Raises:
        InvalidInput: As `open_suite` and `SuiteSource.cases`.
    """
    source = open_suite(path)
    suite = Suite.model_validate(source.document.raw_header)
    suite.cases = [case for _, case in source.cases()]
    return suite


def read_payload(path: Path) -> dict[str, Any]:
    """Read a whole suite as plain JSON (`{"dataset_id", "cases", ...}`) with unknown fields, for `migrate`.

    Only syntax and structure are checked.

    Raises:
        InvalidInput: As `open_document`, or the suite is not an object with an array of cases.
    """
    document = open_document(path)
    _refuse_problems(document)
    if not isinstance(document.raw_header, dict):
        parse_header(document.raw_header, str(path), document.header_line)
    return {**document.raw_header, "cases": [raw_case.raw for raw_case in document.read_all()]}


class JsonLinesDocument(Document):
    """A suite in a `.jsonl` file.

    Opening it reads the file once for its digest and the offsets of its lines; cases are read from the file
    whenever they are needed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems = []
        self._offsets, self._numbers = array("Q"), array("Q")
        """Offset and number of each line that has a case."""
        self._ahead: dict[int, tuple[int, bytes]] = {}
        """Lines by the position of their cases: that of the last `case_at`, and some that follow it."""
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
        offset = 0
        header_line = None
        for line, content in enumerate(_lines(file, self.path), start=1):
            sha256.update(content)
            if _is_blank(content):
                pass
            elif header_line is None:
                header_line = line
                self.raw_header = parse(content.rstrip(), source=str(self.path), first_line=line)
            else:
                self._offsets.append(offset)
                self._numbers.append(line)
            offset += len(content)
        starts = zip(self._offsets[::SHARD_CASES], self._numbers[::SHARD_CASES], strict=True)
        self.shards = whole_shards(len(self._offsets), list(starts))
        self.header_line = header_line
        self.digest = sha256.hexdigest()

    def _check_header(self) -> None:
        header = self.raw_header if isinstance(self.raw_header, dict) else {}
        if "cases" in header:
            message = "the header of a .jsonl suite must not have cases"
            remedy = "Write each case on a line of its own, or rename the file to .json."
            self.problems.append(Problem(message, remedy, "cases", line=self.header_line))
        elif "case_id" in header and "dataset_id" not in header:
            message = "the first line is a case, but must be the suite's header"
            remedy = 'Put a line such as {"dataset_id": "my-suite"} before the cases.'
            self.problems.append(Problem(message, remedy, line=self.header_line))

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        with self._open() as file:
            file.seek(shard.offset)
            position = shard.first
            for line, content in enumerate(_lines(file, self.path), start=shard.line):
                if not _is_blank(content):
                    yield self._case(position, line, content)
                    position += 1
                    if position == shard.first + shard.count:
                        return

    @override
    def case_at(self, position: int) -> RawCase:
        ahead = self._ahead  # which another thread may replace
        if position not in ahead:
            ahead, size = {}, 0
            with self._open() as file:
                for at in range(position, len(self._offsets)):
                    file.seek(self._offsets[at])
                    ahead[at] = self._numbers[at], next(_lines(file, self.path))
                    size += len(ahead[at][1])
                    if size > _AHEAD_BYTES:
                        break
            self._ahead = ahead
        return self._case(position, *ahead[position])

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

    def _case(self, position: int, line: int, content: bytes) -> RawCase:
        raw, encoded = parse_and_encode(content.rstrip(), source=str(self.path), first_line=line)
        return RawCase(Place(position, line), raw, encoded)


_IN_AN_ARRAY = Limits(max_depth=DEFAULT_LIMITS.max_depth - 2)


class JsonDocument(WholeDocument):
    """A suite in a `.json` file. Its text is in memory; cases are parsed whenever they are needed.

    `header` is the text without its cases, which are at `places`.
    """

    def __init__(self, path: Path, data: bytes, header: bytes, places: list[slice]) -> None:
        self.path, self._data = path, data
        payload, _ = self._parse(header, DEFAULT_LIMITS)
        super().__init__(path, sha256_bytes(data), {**payload, "cases": places})

    @override
    def case_at(self, position: int) -> RawCase:
        text = self._data[self._cases[position]]
        return RawCase(Place(position), *self._parse(text, _IN_AN_ARRAY))

    def _parse(self, text: bytes, limits: Limits) -> tuple[Any, bytes]:
        try:
            return parse_and_encode(text, source=str(self.path), limits=limits)
        except InvalidInput:
            parse(self._data, source=str(self.path))  # says in which line and column
            raise


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

"""Opening a suite, whichever format it is in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_eval.contracts import Case, Suite, SuiteHeader
from agent_eval.errors import InvalidInput
from agent_eval.storage.files import read_bytes, sha256_bytes, sha256_file
from agent_eval.storage.json import DEFAULT_LIMITS, parse
from agent_eval.suites.document import (
    Document,
    JsonLinesDocument,
    Place,
    RawCase,
    Shard,
    WholeDocument,
    duplicate_problem,
    parse_case,
    parse_header,
)

SUITE_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")


@dataclass(frozen=True)
class SuiteSource:
    """A suite that can be read more than once, by several processes, without being held in memory.

    Attributes:
        document: The file.
        header: Everything but the cases.
    """

    document: Document
    header: SuiteHeader

    @property
    def path(self) -> Path:
        """The file, as the user named it."""
        return self.document.path

    @property
    def digest(self) -> str:
        """Lower-case hexadecimal sha256 of the file's bytes."""
        return self.document.digest

    @cached_property
    def case_count(self) -> int:
        """Number of cases."""
        return self.document.case_count

    @property
    def held_bytes(self) -> int:
        """Bytes of the file that are held in memory as values: all of a `.json`, none of a `.jsonl`."""
        return self.document.held_bytes

    @property
    def shards(self) -> list[Shard]:
        """The cases in portions, in suite order."""
        return self.document.shards

    def read(self, shard: Shard) -> Iterator[tuple[RawCase, Case]]:
        """The cases of a shard, as read and as contracts; ids are not compared.

        Raises:
            InvalidInput: A case is not what it must be; names file, place, case id and field.
            NotEvaluable: The file changed or vanished since it was opened.
        """
        for found in self.document.read(shard):
            yield found, parse_case(found, str(self.path))

    def cases(self) -> Iterator[tuple[dict[str, Any], Case]]:
        """Every case in suite order, as read and as a contract.

        Raises:
            InvalidInput: A case is not what it must be, or its id stood before.
        """
        seen: dict[str, Place] = {}
        for shard in self.shards:
            for found, case in self.read(shard):
                first = seen.setdefault(case.case_id, found.place)
                if first is not found.place:
                    raise duplicate_problem(case.case_id, first, found.place).to_error(str(self.path))
                yield found.raw, case


def open_document(path: Path) -> Document:
    """The suite file, unchecked beyond its syntax.

    Raises:
        InvalidInput: Missing, empty, not of a known format, or its syntax is broken.
        StorageError: It cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        return JsonLinesDocument(path)
    if suffix == ".json":
        data = read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes)
        return WholeDocument(path, sha256_bytes(data), parse(data, source=str(path)), len(data))
    if suffix in SUITE_SUFFIXES:
        from agent_eval.storage.yaml import read_yaml  # PyYAML only where it is needed

        payload = read_yaml(path)
        digest, size = sha256_file(path)
        return WholeDocument(path, digest, payload, size)
    raise InvalidInput(
        f"{path}: not a suite; its name must end in one of {', '.join(SUITE_SUFFIXES)}",
        remedy="Name a suite file, or rename it to what it is.",
        file=str(path),
    )


def open_suite(path: Path) -> SuiteSource:
    """A suite whose header is valid; cases are checked while they are read.

    Raises:
        InvalidInput: As `open_document`, or header or structure are wrong.
        StorageError: It cannot be read.
    """
    document = open_document(path)
    for problem in document.problems:
        raise problem.to_error(str(path))
    return SuiteSource(document, parse_header(document.raw_header, str(path), document.header_line))


def load_suite(path: Path) -> Suite:
    """A whole suite in memory, every case checked, ids unique.

    Raises:
        InvalidInput: As `open_suite` and `SuiteSource.cases`.
        StorageError: It cannot be read.
    """
    source = open_suite(path)
    suite = Suite.model_validate(source.document.raw_header)
    suite.cases = [case for _, case in source.cases()]
    return suite


def read_payload(path: Path) -> dict[str, Any]:
    """A whole suite as plain JSON (`{"dataset_id", "cases", ...}`), unknown fields kept, nothing checked
    but syntax and structure; what `migrate` takes.

    Raises:
        InvalidInput: As `open_document`, or it is not an object with an array of cases.
        StorageError: It cannot be read.
    """
    document = open_document(path)
    for problem in document.problems:
        raise problem.to_error(str(path))
    if not isinstance(document.raw_header, dict):
        parse_header(document.raw_header, str(path), document.header_line)
    return {**document.raw_header, "cases": [found.raw for found in document.read_all()]}

"""Open a suite of any format and read its cases."""

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
    Place,
    RawCase,
    Shard,
    WholeDocument,
    duplicate_problem,
    parse_case,
    parse_header,
    states_current_version,
)
from agent_eval.suites.json_lines import JsonLinesDocument

SUITE_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml")


@dataclass(frozen=True)
class SuiteSource:
    """An open suite, which can be read repeatedly without keeping all of it in memory.

    Attributes:
        document: The suite's file.
        header: Everything but the cases.

    Example:
        >>> _ = Path("suite.json").write_text('{"dataset_id": "orders", "cases": [{"case_id": "refund"}]}')
        >>> suite = open_suite(Path("suite.json"))
        >>> suite.header.dataset_id, [case.case_id for _, case in suite.cases()]
        ('orders', ['refund'])
    """

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

    @property
    def held_bytes(self) -> int:
        """Bytes of the file that are in memory as values: all of a `.json`, none of a `.jsonl`."""
        return self.document.held_bytes

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
        for raw_case in self.document.read(shard):
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
        StorageError: The file cannot be read.
    """
    suffix = path.suffix.lower()
    if suffix == ".jsonl":
        return JsonLinesDocument(path)
    if suffix == ".json":
        data = read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes)
        return _whole(path, sha256_bytes(data), parse(data, source=str(path)), len(data))
    if suffix in SUITE_SUFFIXES:
        from agent_eval.storage.yaml import read_yaml  # other formats need not import PyYAML

        payload = read_yaml(path)
        digest, size = sha256_file(path)
        return _whole(path, digest, payload, size)
    raise InvalidInput(
        f"{path}: not a suite; its name must end in one of {', '.join(SUITE_SUFFIXES)}",
        remedy="Name a suite file, or give the file the suffix of its format.",
        file=str(path),
    )


def _whole(path: Path, digest: str, payload: Any, size: int) -> WholeDocument:
    """Return a parsed file as the kind of suite that it is."""
    if looks_like_aui(payload):
        from agent_eval.suites.aui import AuiDocument  # its contract takes a while to build

        return AuiDocument(path, digest, payload, size)
    return WholeDocument(path, digest, payload, size)


def looks_like_aui(payload: Any) -> bool:
    """Tell whether a parsed file is a suite in the format of the AUI evaluator: it has tests and no cases.

    Example:
        >>> looks_like_aui({"name": "Support", "tests": []}), looks_like_aui({"dataset_id": "orders"})
        (True, False)
    """
    if not isinstance(payload, dict) or "cases" in payload or "dataset_id" in payload:
        return False
    return "tests" in payload or not {"agentId", "apiKey"}.isdisjoint(payload)


def open_suite(path: Path) -> SuiteSource:
    """Open a suite and check its header; its cases are checked when they are read.

    Raises:
        InvalidInput: As `open_document`, or malformed header or structure.
        StorageError: The file cannot be read.
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
        StorageError: The file cannot be read.
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
        StorageError: The file cannot be read.
    """
    document = open_document(path)
    _refuse_problems(document)
    if not isinstance(document.raw_header, dict):
        parse_header(document.raw_header, str(path), document.header_line)
    return {**document.raw_header, "cases": [raw_case.raw for raw_case in document.read_all()]}

"""Suite files before their cases are checked: the raw header, and raw cases in shards.

`WholeDocument` here and `json_lines.JsonLinesDocument` are the kinds of `Document`. `parse_header` and
`parse_case` turn raw values into contracts; `header_problems` and `case_problems` list all their problems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from typing_extensions import override

from agent_eval.contracts import (
    READABLE_SCHEMA_VERSIONS,
    SCHEMA_VERSION,
    SHARD_CASES,
    Case,
    CaseResult,
    SuiteHeader,
)
from agent_eval.contracts.base import EARLIER
from agent_eval.storage.json import dumps
from agent_eval.suites.problems import Problem, problems_of, short_json
from agent_eval.suites.spelling import misspelt_in_case, misspelt_in_header


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a case in its suite: `position` among the cases from 0, `line` of a `.jsonl` file from 1.

    Example:
        >>> duplicate_problem("refund", Place(0, line=2), Place(7, line=9)).message
        'case_id "refund" occurs twice: lines 2 and 9'
    """

    position: int | None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RawCase:
    """A case as read from the suite, with its unknown fields and its place.

    `raw` is an object once `parse_case` has accepted it. `line_bytes` are its bytes in the form of
    `storage.json.dumps`, if reading produced them anyway. `result` has the verdicts that judges gave during
    a run of the agent; None if the case has not been judged. `artifacts` are files that belong to the case,
    by names that a pack can have.

    Example:
        >>> RawCase(Place(0), {"input": 1, "case_id": "refund"}).encoded()
        b'{"case_id":"refund","input":1}'
    """

    place: Place
    raw: Any
    line_bytes: bytes | None = None
    result: CaseResult | None = None
    artifacts: Mapping[str, bytes] | None = None

    def encoded(self) -> bytes:
        """Encode the case as one line of JSON: sorted keys, no white space, with unknown fields."""
        return dumps(self.raw) if self.line_bytes is None else self.line_bytes


@dataclass(frozen=True, slots=True)
class Shard:
    """Up to `SHARD_CASES` consecutive cases of a suite.

    `first` is the position of the first case, from 0. `offset` (in bytes) and `line` (from 1) are its place
    in a `.jsonl` file; both are 0 for other files.

    Example:
        >>> [shard.count for shard in whole_shards(SHARD_CASES + 7)] == [SHARD_CASES, 7]
        True
    """

    index: int
    first: int
    count: int
    offset: int = 0
    line: int = 0


def whole_shards(count: int) -> list[Shard]:
    """Divide `count` cases that are read by their position into shards."""
    return [
        Shard(index, first, min(SHARD_CASES, count - first))
        for index, first in enumerate(range(0, count, SHARD_CASES))
    ]


class Document(ABC):
    """A suite file of any format. It keeps no file open.

    Attributes:
        path: The file, as the user named it.
        digest: Lower-case hexadecimal sha256 of the file's bytes.
        raw_header: Everything but the cases, as read.
        header_line: Line of the header; None for files that are not `.jsonl`.
        shards: All cases in suite order.
        problems: Problems of the file's structure, other than those of header and cases.
        is_evidence: Whether the cases are those of a run, not of a suite's file: their keys were checked when
            they ran, or written by a version that did not check them.
        format: `cases`; or `aui` for a suite of conversations, which is read as cases.
        warnings: What is odd about a suite in another format.
        default_judges: The judges of a run that names none; empty for those of any suite.
    """

    path: Path
    digest: str
    raw_header: Any
    header_line: int | None
    shards: list[Shard]
    problems: list[Problem]
    is_evidence: bool = False
    format: str = "cases"
    warnings: Sequence[Problem] = ()
    default_judges: tuple[str, ...] = ()

    @property
    def case_count(self) -> int:
        """Number of cases."""
        return sum(shard.count for shard in self.shards)

    @property
    def held_bytes(self) -> int:
        """Bytes of the file that are in memory as values, which takes several times that; usually 0."""
        return 0

    @abstractmethod
    def read(self, shard: Shard) -> Iterator[RawCase]:
        """Yield the cases of a shard.

        Raises:
            InvalidInput: A line is not strict JSON.
            NotEvaluable: The file changed or vanished since it was opened.
        """

    def case_at(self, position: int) -> RawCase:
        """Read one case. Raises as `read`.

        Args:
            position: Position among all cases, from 0.
        """
        shard = self.shards[position // SHARD_CASES]
        return next(islice(self.read(shard), position - shard.first, None))

    def read_all(self) -> Iterator[RawCase]:
        """Yield every case. Raises as `read`."""
        for shard in self.shards:
            yield from self.read(shard)


class WholeDocument(Document):
    """A suite in memory, from a `.json` or `.yaml` file, which can only be read as a whole.

    Args:
        path: The file, as the user named it.
        digest: sha256 of the file's bytes.
        payload: The parsed file.
        size: Size of the file; 0 if another document has the payload in memory already.

    Example:
        >>> payload = {"dataset_id": "orders", "cases": [{"case_id": "refund"}]}
        >>> document = WholeDocument(Path("suite.json"), "0" * 64, payload)
        >>> document.raw_header, document.case_at(0).raw
        ({'dataset_id': 'orders'}, {'case_id': 'refund'})
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
            self._separate_cases(payload)
        self.shards = whole_shards(len(self._cases))

    @property
    @override
    def held_bytes(self) -> int:
        return self._size

    def _separate_cases(self, payload: dict[str, Any]) -> None:
        self.raw_header = {name: value for name, value in payload.items() if name != "cases"}
        cases = payload.get("cases")
        if isinstance(cases, list):
            self._cases = cases
        elif "cases" in payload:
            self.problems.append(
                Problem(
                    f"cases must be an array, not {short_json(cases)}", "Write it as [{...}, ...].", "cases"
                )
            )
        else:
            self.problems.append(Problem("cases is missing", 'Add "cases": [{...}, ...].', "cases"))

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        for position in range(shard.first, shard.first + shard.count):
            yield self.case_at(position)

    @override
    def case_at(self, position: int) -> RawCase:
        return RawCase(Place(position), self._cases[position])


def parse_header(raw: Any, file: str, line: int | None) -> SuiteHeader:
    """Validate a suite's header.

    Raises:
        InvalidInput: Malformed header; names file, line and field.
    """
    problems = header_problems(raw, line)
    if problems:
        raise problems[0].to_error(file, more=len(problems) - 1)
    return SuiteHeader.model_validate(raw)


def header_problems(raw: Any, line: int | None) -> list[Problem]:
    """List the problems of a suite's header."""
    if not isinstance(raw, dict):
        return [
            Problem(
                f"the suite must be an object, not {short_json(raw)}",
                'Write {"dataset_id": "...", "cases": [...]}.',
                line=line,
            )
        ]
    header = None
    try:
        header = SuiteHeader.model_validate(raw)
        findings = list(misspelt_in_header(raw))
    except ValidationError as error:
        findings = problems_of(error, raw)
    problems = [Problem(message, remedy, field, line=line) for field, message, remedy in findings]
    return problems + list(_version_problems(header, line) if header is not None else ())


def parse_case(raw_case: RawCase, file: str, *, check_keys: bool = True, is_current: bool = True) -> Case:
    """Validate a case.

    Args:
        raw_case: The case as read.
        file: The suite, as the user named it.
        check_keys: Refuse keys that look like ours and are not.
        is_current: Refuse values that fields of the current version do not have; earlier versions had no such
            fields.

    Raises:
        InvalidInput: Malformed case; names file, line or position, case id and field.
    """
    case, problems = case_problems(raw_case, check_keys=check_keys, is_current=is_current)
    if case is None:
        raise problems[0].to_error(file, more=len(problems) - 1)
    return case


def case_problems(
    raw_case: RawCase, *, check_keys: bool = True, is_current: bool = True
) -> tuple[Case | None, list[Problem]]:
    """Validate a case and list its problems; the case is None if there are any.

    Args:
        raw_case: The case as read.
        check_keys: Report keys that look like ours and are not, too.
        is_current: Report values that fields of the current version do not have, too.
    """
    case = None
    try:
        case = Case.model_validate(raw_case.raw, context=None if is_current else EARLIER)
        findings = list(misspelt_in_case(raw_case.raw, case)) if check_keys else []
    except ValidationError as error:
        findings = problems_of(error, raw_case.raw)
    if not findings:
        return case, []
    case_id, place = raw_case_id(raw_case.raw), raw_case.place
    return None, [
        Problem(message, remedy, field, case_id, place.position, place.line)
        for field, message, remedy in findings
    ]


def states_current_version(version: str | None) -> bool:
    """Tell whether a suite of this stated version may have the fields of the current one; None may."""
    return version is None or version == SCHEMA_VERSION


def raw_case_id(raw: Any) -> str | None:
    """Return the id of a raw case; None if it has no valid one."""
    case_id = raw.get("case_id") if isinstance(raw, dict) else None
    return case_id if isinstance(case_id, str) and case_id else None


def duplicate_problem(case_id: str, first: Place, second: Place) -> Problem:
    """Build the problem of two cases with the same id, naming both places."""
    if first.line is not None and second.line is not None:
        places = f"lines {first.line} and {second.line}"
    else:
        places = f"cases[{first.position}] and cases[{second.position}]"
    return Problem(
        f"case_id {short_json(case_id)} occurs twice: {places}",
        "Give every case an id of its own.",
        "case_id",
        case_id,
        second.position,
        second.line,
    )


def _version_problems(header: SuiteHeader, line: int | None) -> Iterator[Problem]:
    in_metadata = header.metadata.get("schema_version")
    readable = ", ".join(READABLE_SCHEMA_VERSIONS)
    versions = {"schema_version": header.schema_version, "metadata.schema_version": in_metadata}
    for name, version in versions.items():
        if version is not None and version not in READABLE_SCHEMA_VERSIONS:
            yield Problem(
                f"{name} {short_json(version)} is not a version this program reads ({readable})",
                f"State one of {readable}, or use a newer agent-eval.",
                name,
                line=line,
            )
    if None not in versions.values() and in_metadata != header.schema_version:
        yield Problem(
            f"schema_version {short_json(header.schema_version)} contradicts metadata.schema_version "
            f"{short_json(in_metadata)}",
            "State the version once, in metadata.schema_version.",
            "schema_version",
            line=line,
        )

"""Raw JSON to contracts: one case, one header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS, Case, CaseResult, SuiteHeader
from agent_eval.storage.json_writer import dumps
from agent_eval.suites.problems import Problem, problems_of, shown


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
    for field, version in stated.items():
        if version is not None and version not in READABLE_SCHEMA_VERSIONS:
            yield Problem(
                f"{field} {shown(version)} is not a version this program reads ({readable})",
                f"State one of {readable}, or use a newer agent-eval.",
                field,
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

"""`schema validate`: everything that is wrong with a suite, not only the first thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.contracts import Case, SuiteHeader, unknown_fields
from agent_eval.suites.document import (
    Document,
    Place,
    RawCase,
    case_problems,
    duplicate_problem,
    header_problems,
    stated_id,
)
from agent_eval.suites.migrate import old_names
from agent_eval.suites.problems import Problem, shown
from agent_eval.suites.reader import open_document

LISTED_PROBLEMS = 200
"""Longest list of errors, and of warnings, that a report holds; the rest is counted."""


@dataclass
class ValidationReport:
    """What `validate_suite` found.

    `error_count` and `warning_count` count everything; `errors` and `warnings` hold the first
    `LISTED_PROBLEMS` of each, in the order of the file. `schema_version` is what the suite states.
    """

    path: Path
    schema_version: str | None = None
    case_count: int = 0
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    error_count: int = 0
    warning_count: int = 0

    @property
    def passed(self) -> bool:
        """Whether there is no error."""
        return not self.error_count

    def add_error(self, problem: Problem) -> None:
        """Count an error and list it while there is room."""
        self.error_count += 1
        if len(self.errors) < LISTED_PROBLEMS:
            self.errors.append(problem)

    def add_warning(self, problem: Problem) -> None:
        """Count a warning and list it while there is room."""
        self.warning_count += 1
        if len(self.warnings) < LISTED_PROBLEMS:
            self.warnings.append(problem)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "input": str(self.path),
            "passed": self.passed,
            "schema_version": self.schema_version,
            "case_count": self.case_count,
            "error_count": self.error_count,
            "warning_count": self.warning_count,
            "errors": [problem.to_json() for problem in self.errors],
            "warnings": [problem.to_json() for problem in self.warnings],
        }


def validate_suite(
    path: Path, *, strict: bool = False, require_version: str | None = None
) -> ValidationReport:
    """Check a suite as a whole.

    Args:
        path: The suite.
        strict: Unknown fields and a missing schema version are errors, not kept and warned of.
        require_version: The schema version that the suite must state.

    Raises:
        InvalidInput: Missing, empty, or its syntax is broken, so that nothing more can be said.
        StorageError: It cannot be read.
    """
    document = open_document(path)
    report = ValidationReport(path)
    for problem in document.problems:
        report.add_error(problem)
    header = _check_header(document, report)
    _check_version(document, report, header, strict=strict, require_version=require_version)
    if header is not None and strict:
        _list_unknown(report, header, None, Place(None, document.header_line))
    _check_cases(document, report, strict=strict)
    return report


def _check_header(document: Document, report: ValidationReport) -> SuiteHeader | None:
    problems = header_problems(document.raw_header, document.header_line)
    for problem in problems:
        report.add_error(problem)
    if problems and not isinstance(document.raw_header, dict):
        return None
    # A header may be wrong in one field and still state its version.
    header = SuiteHeader.model_construct(**document.raw_header) if problems else None
    header = header or SuiteHeader.model_validate(document.raw_header)
    metadata = header.metadata if isinstance(header.metadata, dict) else {}
    stated = header.schema_version or metadata.get("schema_version")
    report.schema_version = stated if isinstance(stated, str) else None
    return None if problems else header


def _check_version(
    document: Document,
    report: ValidationReport,
    header: SuiteHeader | None,
    *,
    strict: bool,
    require_version: str | None,
) -> None:
    def problem(message: str, remedy: str) -> Problem:
        return Problem(message, remedy, "metadata.schema_version", line=document.header_line)

    stated = report.schema_version
    if require_version is not None and stated != require_version:
        have = "not stated" if stated is None else shown(stated)
        report.add_error(
            problem(
                f"metadata.schema_version must be {shown(require_version)}, but is {have}",
                "Migrate the suite with `agent-eval schema migrate`, or require the version it has.",
            )
        )
    elif stated is None and header is not None:
        missing = problem(
            "metadata.schema_version is missing", 'Add "metadata": {"schema_version": "1.1.0"}.'
        )
        if strict:
            report.add_error(missing)
        else:
            report.add_warning(missing)


def _check_cases(document: Document, report: ValidationReport, *, strict: bool) -> None:
    seen: dict[str, Place] = {}
    for found in document.read_all():
        report.case_count += 1
        case, problems = case_problems(found)
        for problem in problems:
            report.add_error(problem)
        case_id = stated_id(found.raw)
        if case_id is not None:
            first = seen.setdefault(case_id, found.place)
            if first is not found.place:
                report.add_error(duplicate_problem(case_id, first, found.place))
        if case is not None:
            for problem in _old_name_problems(found):
                report.add_warning(problem)
            if strict:
                _list_unknown(report, case, case.case_id, found.place)
    if not report.case_count and not document.problems:
        report.add_warning(
            Problem("the suite has no cases", "Add cases; a run of it measures nothing.", "cases")
        )


def _list_unknown(
    report: ValidationReport, model: SuiteHeader | Case, case_id: str | None, place: Place
) -> None:
    for path in unknown_fields(model):
        name = path.removeprefix("$.")
        report.add_error(
            Problem(
                f"{name} is not a field of the schema",
                "Remove it, correct its spelling, or keep it under metadata.",
                name,
                case_id,
                place.position,
                place.line,
            )
        )


def _old_name_problems(found: RawCase) -> Iterator[Problem]:
    for old, new in old_names(found.raw):
        yield Problem(
            f"{old} is the old name of {new}",
            "Rename it; `agent-eval schema migrate` does.",
            old,
            found.raw["case_id"],
            found.place.position,
            found.place.line,
        )

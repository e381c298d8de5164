"""Validate a suite and report all of its problems, not only the first (`validate`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.contracts import SCHEMA_VERSION, Case, SuiteHeader, unknown_fields
from agent_eval.suites.aui import AuiDocument
from agent_eval.suites.aui_faults import KEY_VARIABLE
from agent_eval.suites.document import (
    UNNUMBERED_VERSION,
    Document,
    Finding,
    Place,
    case_problems,
    duplicate_problem,
    header_problems,
    misspelt_keys,
    numbered,
    placed,
    raw_case_id,
    states_current_version,
)
from agent_eval.suites.migrate import VERSIONS_OF_OLD_NAMES, old_names
from agent_eval.suites.problems import Problem, short_json
from agent_eval.suites.reader import open_document

Check = tuple[bool, Finding]
"""What a check finds in a case, and whether it is an error or a warning."""

SCHEMA_OF_EDITORS = "$schema"
"""The field of a file's top in which editors look for its JSON Schema."""

LISTED_PROBLEMS = 200
"""Maximum number of errors, and of warnings, that a report lists; it counts them all."""


@dataclass
class ValidationReport:
    """Result of `validate_suite`.

    `error_count` and `warning_count` count all problems; `errors` and `warnings` list the first
    `LISTED_PROBLEMS` of each, in the order of the file. `schema_version` is the version that the suite names;
    `format` is that of its file, as in `Document`.
    """

    path: Path
    schema_version: str | None = None
    case_count: int = 0
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    error_count: int = 0
    warning_count: int = 0
    format: str = "cases"

    @property
    def passed(self) -> bool:
        """Whether the suite has no errors."""
        return not self.error_count

    def add_errors(self, *problems: Problem) -> None:
        """Count errors, and list those that are among the first `LISTED_PROBLEMS`."""
        self.error_count += len(problems)
        self.errors.extend(problems[: LISTED_PROBLEMS - len(self.errors)])

    def add_warnings(self, *problems: Problem) -> None:
        """Count warnings, and list those that are among the first `LISTED_PROBLEMS`."""
        self.warning_count += len(problems)
        self.warnings.extend(problems[: LISTED_PROBLEMS - len(self.warnings)])

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "input": str(self.path),
            "passed": self.passed,
            "format": self.format,
            "schema_version": self.schema_version,
            "case_count": self.case_count,
            "error_count": self.error_count,
            "warning_count": self.warning_count,
            "errors": [problem.to_json() for problem in self.errors],
            "warnings": [problem.to_json() for problem in self.warnings],
        }


def validate_suite(
    path: Path,
    *,
    strict: bool = False,
    require_version: str | None = None,
    key_variables: Collection[str] = (KEY_VARIABLE,),
    check: Callable[[Case], Iterable[Check]] | None = None,
) -> ValidationReport:
    """Check a whole suite.

    Args:
        strict: Report unknown fields and a missing schema version as errors; otherwise the former are
            ignored, and the latter is a warning.
        require_version: Schema version that the suite must name.
        key_variables: Environment variables that a suite of conversations may name for its key.
        check: What else to look for in each case.

    Raises:
        InvalidInput: Missing, empty, or malformed, so that the suite cannot be checked.
    """
    document = open_document(path)
    report = ValidationReport(path)
    report.add_errors(*document.problems)
    if isinstance(document, AuiDocument):  # it has neither header nor cases of its own
        report.format, report.case_count = document.format, document.test_count
        report.add_errors(*document.key_problems(key_variables))
        report.add_warnings(*document.warnings)
        return report
    _check_header(document, report, require_version, strict=strict)
    _check_cases(document, report, check, strict=strict)
    return report


def _check_header(
    document: Document, report: ValidationReport, require_version: str | None, *, strict: bool
) -> None:
    raw, place = document.raw_header, Place(None, document.header_line)
    problems = header_problems(raw, document.header_line)
    report.add_errors(*problems)
    # A header may have one malformed field and still name its version.
    fields = raw if isinstance(raw, dict) else {}
    metadata = fields.get("metadata")
    version = fields.get("schema_version") or (isinstance(metadata, dict) and metadata.get("schema_version"))
    report.schema_version = version if isinstance(version, str) else None
    name = "metadata.schema_version"
    if require_version is not None and report.schema_version != require_version:
        actual = "not stated" if report.schema_version is None else short_json(report.schema_version)
        message = f"{name} must be {short_json(require_version)}, but is {actual}"
        remedy = (
            f"`agent-eval schema migrate {report.path} NEW.json --target-version "
            f"{require_version}` writes it in that version; or require the version it has."
        )
        report.add_errors(*placed([(name, message, remedy)], place))
    elif report.schema_version is None and not problems:
        add = report.add_errors if strict else report.add_warnings
        remedy = f'Add "metadata": {{"schema_version": "{SCHEMA_VERSION}"}}.'
        add(*placed([(name, f"{name} is missing", remedy)], place))
    if strict and not problems:
        header = SuiteHeader.model_validate(raw)
        report.add_errors(*placed(_unknown(header, {SCHEMA_OF_EDITORS}), place))


def _check_cases(
    document: Document,
    report: ValidationReport,
    check: Callable[[Case], Iterable[Check]] | None,
    *,
    strict: bool,
) -> None:
    places: dict[str, Place] = {}
    is_current = states_current_version(report.schema_version)
    has_old_names = report.schema_version in VERSIONS_OF_OLD_NAMES
    for stored in document.read_all():
        raw_case = numbered(stored) if report.schema_version == UNNUMBERED_VERSION else stored
        report.case_count += 1
        place = raw_case.place
        case, problems = case_problems(raw_case, is_current=is_current)
        misspelt = [] if case is None else misspelt_keys(raw_case, case)
        report.add_errors(*problems, *misspelt)
        case_id = raw_case_id(raw_case.raw)
        if case_id is not None:
            first = places.setdefault(case_id, place)
            if first is not place:
                report.add_errors(duplicate_problem(case_id, first, place))
        if case is not None:
            for is_error, finding in check(case) if check is not None else ():
                add = report.add_errors if is_error else report.add_warnings
                add(*placed([finding], place, case_id))
            if not has_old_names:
                remedy = "Rename it, or run `agent-eval schema migrate`."
                named = [
                    (old, f"{old} is the old name of {new}", remedy) for old, new in old_names(raw_case.raw)
                ]
                report.add_warnings(*placed(named, place, case_id))
            if strict:
                # Its misspelt keys are a part of those that are unknown.
                known = {problem.field for problem in misspelt}
                report.add_errors(*placed(_unknown(case, known), place, case_id))
    if not report.case_count and not document.problems:
        report.add_warnings(
            Problem("the suite has no cases", "Add cases; a run of it measures nothing.", "cases")
        )


def _unknown(model: SuiteHeader | Case, but: Container[str]) -> Iterator[Finding]:
    for path in unknown_fields(model):
        name = path.removeprefix("$.")
        if name not in but:
            remedy = "Remove it, correct its spelling, or keep it under metadata."
            yield name, f"{name} is not a field of the schema", remedy

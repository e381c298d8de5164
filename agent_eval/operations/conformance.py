"""Check that fixtures of every importer, and suites of every earlier schema version, are still read whole."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS
from agent_eval.contracts.suite import Case
from agent_eval.errors import AgentEvalError, InvalidInput, NothingMeasured
from agent_eval.importers.cases import IDS_DERIVED
from agent_eval.importers.catalog import FORMATS, Family
from agent_eval.operations.import_traces import ImportRequest, import_traces
from agent_eval.operations.suites import migrate_suite
from agent_eval.storage.json import read_json
from agent_eval.suites.reader import SUITE_SUFFIXES, load_suite, open_suite
from agent_eval.suites.validate import validate_suite

EXPECTED = ".expected.json"
"""End of the name of the file beside a fixture that says what it holds: `chat.json.expected.json`."""

WITH_FIXTURES: tuple[Family, ...] = ("provider", "framework")
"""Families of which each format must have fixtures."""


@dataclass(frozen=True)
class FixtureCheck:
    """What is wrong with the import of one fixture; nothing if `problems` is empty."""

    format: str
    path: Path
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the import holds what the fixture does."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the check as the command prints it."""
        return {
            "format": self.format,
            "fixture": str(self.path),
            "passed": self.passed,
            "problems": list(self.problems),
        }


@dataclass(frozen=True)
class Conformance:
    """The checks of all fixtures, and what is missing."""

    checks: tuple[FixtureCheck, ...]
    missing: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every format has its fixtures, and every fixture is imported whole."""
        return not self.missing and all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the result as the command prints it."""
        return {
            "passed": self.passed,
            "fixtures": [check.to_json() for check in self.checks],
            "missing": list(self.missing),
        }


def check_adapters(fixtures: Path, minimum: int) -> Conformance:
    """Import each fixture in its strictest form and compare the result with what the fixture says it holds.

    `fixtures` has a directory with the name of each format, which holds exports. Beside an export may be a
    file `NAME.expected.json` with the numbers of cases, events, calls, results, errors and tokens that it
    holds.

    Raises:
        InvalidInput: There is no such directory, or it has a directory that no format is called.
        NothingMeasured: There is no fixture.
    """
    if not fixtures.is_dir():
        raise InvalidInput(f"{fixtures}: no such directory", remedy="Check the path.", file=str(fixtures))
    families: dict[str, Family] = {entry.name: entry.family for entry in FORMATS}
    checks: list[FixtureCheck] = []
    for directory in sorted(path for path in fixtures.iterdir() if path.is_dir()):
        if directory.name not in families:
            raise InvalidInput(
                f"{directory}: no format is called {directory.name}",
                remedy=f"Formats are {', '.join(sorted(families))}.",
                file=str(directory),
            )
        checks += _checks(directory, families[directory.name])
    if not checks:
        raise NothingMeasured(f"{fixtures}: no fixture", remedy="Name the directory that has them.")
    return Conformance(tuple(checks), tuple(_missing(checks, minimum)))


def _missing(checks: list[FixtureCheck], minimum: int) -> Iterator[str]:
    for entry in FORMATS:
        number = sum(check.format == entry.name for check in checks)
        if entry.family in WITH_FIXTURES and number < minimum:
            yield f"{entry.name} has {number} fixtures, of at least {minimum}"


def _checks(directory: Path, family: Family) -> Iterator[FixtureCheck]:
    for path in sorted(directory.iterdir()):
        if path.is_file() and not path.name.endswith(EXPECTED):
            yield FixtureCheck(directory.name, path, tuple(_problems(path, family)))


def _problems(path: Path, family: Family) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as home:
        out, again = Path(home, "suite.json"), Path(home, "again.json")
        try:
            imported = import_traces(ImportRequest((path,), out, family, strict=True))
            import_traces(ImportRequest((path,), again, family, strict=True))
        except AgentEvalError as error:
            yield error.message
            return
        names = sorted({recognised.format for recognised in imported.recognised})
        if names != [path.parent.name]:
            yield f"is recognised as {', '.join(names)}"
        if out.read_bytes() != again.read_bytes():
            yield "gives other bytes when it is imported again"
        validation = validate_suite(out, strict=True)
        if not validation.passed:
            yield f"is not a valid suite: {validation.errors[0].message}"
            return
        yield from _problems_of_cases(load_suite(out).cases, path)


def _problems_of_cases(cases: list[Case], path: Path) -> Iterator[str]:
    orphans = [call for case in cases for call in case.recorded.calls if call.call is None]
    if orphans:
        yield f"has a result of {orphans[0].tool or 'a tool'} without its call"
    for case in cases:
        derived = [event.span_id for event in case.trace if event.attributes.get(IDS_DERIVED)]
        if any(event.span_id is None for event in case.trace) or len(set(derived)) < len(derived):
            yield f"case {case.case_id}: events without a span id of their own"
    expected = path.with_name(path.name + EXPECTED)
    if expected.exists():
        stated = read_json(expected)
        for name, number in numbers_of(cases).items():
            if stated.get(name) != number:
                yield f"has {number} {name.replace('_', ' ')}, not {stated.get(name)}"


def numbers_of(cases: list[Case]) -> dict[str, int]:
    """Count what cases hold: events, calls, results, errors, tokens."""
    traces = [case.of_trial(number).trace for case in cases for number in range(case.trial_count)]
    events = [event for trace in traces for event in trace]
    usage = [event.usage for event in events if event.usage is not None]
    return {
        "cases": len(cases),
        "events": len(events),
        "tool_calls": sum(event.type == "tool_call" for event in events),
        "tool_results": sum(event.type == "tool_result" for event in events),
        "errors": sum(event.error is not None for event in events),
        "input_tokens": sum(int(tokens.input_tokens or 0) for tokens in usage),
        "output_tokens": sum(int(tokens.output_tokens or 0) for tokens in usage),
    }


@dataclass(frozen=True)
class SuiteCheck:
    """What is wrong with the reading of one old suite; nothing if `problems` is empty."""

    path: Path
    version: str | None
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the suite is read and migrated as it should be."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the check as the command prints it."""
        return {
            "fixture": str(self.path),
            "schema_version": self.version,
            "passed": self.passed,
            "problems": list(self.problems),
        }


@dataclass(frozen=True)
class ContractsCheck:
    """Checks of old suites and of the importers."""

    suites: tuple[SuiteCheck, ...]
    missing: tuple[str, ...]
    adapters: Conformance

    @property
    def passed(self) -> bool:
        """Whether everything is read as it should be."""
        return not self.missing and self.adapters.passed and all(check.passed for check in self.suites)

    def to_json(self) -> dict[str, Any]:
        """Return the result as the command prints it."""
        return {
            "passed": self.passed,
            "suites": [check.to_json() for check in self.suites],
            "missing": list(self.missing),
            "adapters": self.adapters.to_json(),
        }


def check_contracts(suites: Path, adapters: Path, minimum: int) -> ContractsCheck:
    """Check fixtures of suites, one at least of each readable version, and those of importers.

    Raises:
        NothingMeasured: There is no fixture of an importer.
    """
    if not suites.is_dir():
        raise InvalidInput(f"{suites}: no such directory", remedy="Check the path.", file=str(suites))
    paths = sorted(path for path in suites.iterdir() if path.suffix in SUITE_SUFFIXES)
    checks = tuple(_checked(path) for path in paths)
    versions = {check.version for check in checks}
    absent = [version for version in READABLE_SCHEMA_VERSIONS if version not in versions]
    missing = tuple(f"no suite of schema version {version}" for version in absent)
    return ContractsCheck(checks, missing, check_adapters(adapters, minimum))


def _checked(path: Path) -> SuiteCheck:
    try:
        version = open_suite(path).header.version
        return SuiteCheck(path, version, tuple(_suite_problems(path)))
    except AgentEvalError as error:
        return SuiteCheck(path, None, (error.message,))


def _suite_problems(path: Path) -> Iterator[str]:
    """Yield what is wrong: a suite must be valid when it is migrated, and hold the same cases.

    One whose events have no numbers can be read only then.
    """
    before = load_suite(path).cases if validate_suite(path).passed else None
    with tempfile.TemporaryDirectory() as home:
        target = Path(home, "migrated.json")
        migrated = migrate_suite(path, target)
        if not migrated.validation.passed:
            yield f"is not valid when it is migrated: {migrated.validation.errors[0].message}"
        elif before is not None and load_suite(target).cases != before:
            yield "holds other cases when it is migrated"
        else:
            migrate_suite(target, again := Path(home, "again.json"))
            if again.read_bytes() != target.read_bytes():
                yield "changes when it is migrated again"

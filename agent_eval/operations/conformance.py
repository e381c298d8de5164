"""Check that fixtures of every importer, and suites of every earlier schema version, are still read whole."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS
from agent_eval.errors import AgentEvalError, InvalidInput, NothingMeasured
from agent_eval.importers.cases import IDS_DERIVED
from agent_eval.importers.catalog import FORMATS, Family
from agent_eval.operations.import_traces import Contents, ImportRequest, import_traces
from agent_eval.operations.suites import migrate_suite
from agent_eval.storage.json import read_json
from agent_eval.suites.paths import SUITE_SUFFIXES
from agent_eval.suites.reader import load_suite, open_suite
from agent_eval.suites.validate import validate_suite

EXPECTED = ".expected.json"
"""End of the name of the file beside a fixture that says what it holds: `chat.json.expected.json`."""

WITH_FIXTURES: tuple[Family, ...] = ("provider", "framework")
"""Families of which each format must have fixtures."""


@dataclass(frozen=True)
class Check:
    """What is wrong with the reading of one fixture, of a `kind`: a format, or a schema version."""

    kind: str | None
    path: Path
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Conformance:
    """The checks of all fixtures of one sort, and what is missing."""

    checks: tuple[Check, ...]
    missing: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is missing, and every fixture is read whole."""
        return not self.missing and not any(check.problems for check in self.checks)

    def fixtures(self, kind: str) -> list[dict[str, Any]]:
        """Describe the checks as the commands print them; `kind` is what they call that of a fixture."""
        return [
            {
                kind: check.kind,
                "fixture": str(check.path),
                "passed": not check.problems,
                "problems": list(check.problems),
            }
            for check in self.checks
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the result of the importers' fixtures as the command prints it."""
        return {"passed": self.passed, "fixtures": self.fixtures("format"), "missing": list(self.missing)}


def check_adapters(fixtures: Path, minimum: int) -> Conformance:
    """Import each fixture in its strictest form and compare the result with what the fixture says it holds.

    `fixtures` has a directory with the name of each format, which holds exports. Beside an export may be a
    file `NAME.expected.json` with the numbers of cases, events, calls, results, errors and tokens that it
    holds.

    Raises:
        InvalidInput: There is no such directory, or it has a directory that no format is called.
        NothingMeasured: There is no fixture.
    """
    families: dict[str, Family] = {entry.name: entry.family for entry in FORMATS}
    checks: list[Check] = []
    for directory in (path for path in _entries(fixtures) if path.is_dir()):
        if directory.name not in families:
            raise InvalidInput(
                f"{directory}: no format is called {directory.name}",
                remedy=f"Formats are {', '.join(sorted(families))}.",
                file=str(directory),
            )
        for path in _entries(directory):
            if path.is_file() and not path.name.endswith(EXPECTED):
                problems = tuple(_problems_of_export(path, families[directory.name]))
                checks.append(Check(directory.name, path, problems))
    if not checks:
        raise NothingMeasured(f"{fixtures}: no fixture", remedy="Name the directory that has them.")
    numbers = Counter(check.kind for check in checks)
    missing = (
        f"{entry.name} has {numbers[entry.name]} fixtures, of at least {minimum}"
        for entry in FORMATS
        if entry.family in WITH_FIXTURES and numbers[entry.name] < minimum
    )
    return Conformance(tuple(checks), tuple(missing))


def check_suites(fixtures: Path) -> Conformance:
    """Check fixtures of suites, one at least of each readable version.

    A suite must be valid when it is migrated, and hold the same cases; one whose events have no numbers can
    be read only then.
    """
    checks: list[Check] = []
    for path in _entries(fixtures):
        if path.suffix in SUITE_SUFFIXES:
            try:
                version = open_suite(path).header.version
                checks.append(Check(version, path, tuple(_problems_of_suite(path))))
            except AgentEvalError as error:
                checks.append(Check(None, path, (error.message,)))
    versions = {check.kind for check in checks}
    absent = [version for version in READABLE_SCHEMA_VERSIONS if version not in versions]
    return Conformance(tuple(checks), tuple(f"no suite of schema version {version}" for version in absent))


def _entries(directory: Path) -> list[Path]:
    if not directory.is_dir():
        raise InvalidInput(f"{directory}: no such directory", remedy="Check the path.", file=str(directory))
    return sorted(directory.iterdir())


def _problems_of_export(path: Path, family: Family) -> Iterator[str]:
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
        cases = load_suite(out).cases
    orphans = [call for case in cases for call in case.recorded.calls if call.call is None]
    if orphans:
        yield f"has a result of {orphans[0].tool or 'a tool'} without its call"
    for case in cases:
        derived = [event.span_id for event in case.trace if event.attributes.get(IDS_DERIVED)]
        if any(event.span_id is None for event in case.trace) or len(set(derived)) < len(derived):
            yield f"case {case.case_id}: events without a span id of their own"
    expected = path.with_name(path.name + EXPECTED)
    if expected.exists():
        stated, contents = read_json(expected), Contents.of(case.to_json() for case in cases)
        tokens = {name: contents.tokens[name] for name in ("input_tokens", "output_tokens")}
        for name, number in {**contents.numbers(), **tokens}.items():
            if stated.get(name) != number:
                yield f"has {number} {name.replace('_', ' ')}, not {stated.get(name)}"


def _problems_of_suite(path: Path) -> Iterator[str]:
    before = load_suite(path).cases if validate_suite(path).passed else None
    with tempfile.TemporaryDirectory() as home:
        target, again = Path(home, "migrated.json"), Path(home, "again.json")
        validation = migrate_suite(path, target)
        if not validation.passed:
            yield f"is not valid when it is migrated: {validation.errors[0].message}"
        elif before is not None and load_suite(target).cases != before:
            yield "holds other cases when it is migrated"
        else:
            migrate_suite(target, again)
            if again.read_bytes() != target.read_bytes():
                yield "changes when it is migrated again"

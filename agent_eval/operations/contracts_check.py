"""Check that suites of every earlier schema version, and exports of every format, are still read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.contracts import READABLE_SCHEMA_VERSIONS
from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.operations.conformance import Conformance, check_adapters
from agent_eval.operations.suites import migrate_suite
from agent_eval.suites.reader import SUITE_SUFFIXES, load_suite, open_suite
from agent_eval.suites.validate import validate_suite


@dataclass(frozen=True)
class SuiteCheck:
    """What is wrong with the reading of one old suite; nothing if `problems` is empty.

    Example:
        >>> SuiteCheck(Path("suite-1.0.0.json"), "1.0.0", ()).passed
        True
    """

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
    """Checks of old suites and of the importers.

    Example:
        >>> ContractsCheck((), ("no suite of schema version 1.0.0",), Conformance((), ())).passed
        False
    """

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

    Args:
        suites: A directory of suites.
        adapters: As in `check_adapters`.
        minimum: As in `check_adapters`.

    Raises:
        InvalidInput: A directory is missing.
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
        return SuiteCheck(path, version, tuple(_problems(path)))
    except AgentEvalError as error:
        return SuiteCheck(path, None, (error.message,))


def _problems(path: Path) -> Iterator[str]:
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
            yield from _problems_of_repetition(target, Path(home, "again.json"))


def _problems_of_repetition(target: Path, again: Path) -> Iterator[str]:
    migrate_suite(target, again)
    if again.read_bytes() != target.read_bytes():
        yield "changes when it is migrated again"

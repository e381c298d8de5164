"""Count what a run of pytest leaves out, and why, for the line with which `make test` closes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

RECORDS = "AGENT_EVAL_TEST_RECORDS"
"""The variable that names the directory where each run of pytest leaves a record. Unset: none is left."""


@dataclass
class Record:
    """How many tests passed, and how many were skipped for which reason."""

    passed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Record) -> Record:
        """The record of both runs."""
        return Record(self.passed + other.passed, self.skipped + other.skipped)

    def sentence(self) -> str:
        """What was run and what was not: `12 tests passed, 3 left out: 2 slow, 1 without scipy.`"""
        passed = f"{self.passed:,} tests passed"
        if not self.skipped:
            return f"{passed}, none left out."
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.skipped.most_common())
        return f"{passed}, {self.skipped.total():,} left out: {reasons}."


def read_records(directory: Path) -> Record:
    """The sum of what all runs of pytest left in a directory."""
    found = Record()
    for path in sorted(directory.glob("*.json")):
        row = json.loads(path.read_text(encoding="utf-8"))
        found += Record(row["passed"], Counter(row["skipped"]))
    return found


class Recorder:
    """The pytest plugin that writes the record; registered where the tests are reported, not in workers."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / f"{os.getpid()}.json"
        self._record = Record()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that passed, or that was skipped as a whole or on the way."""
        if report.when == "call" and report.passed:
            self._record.passed += 1
        self._count_skip(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a module that was skipped."""
        self._count_skip(report)

    def _count_skip(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            assert isinstance(report.longrepr, tuple)
            self._record.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_sessionfinish(self) -> None:
        """Write the record."""
        row = {"passed": self._record.passed, "skipped": self._record.skipped}
        self._path.write_text(json.dumps(row), encoding="utf-8")


def skip_marked(items: Iterable[pytest.Item], name: str) -> None:
    """Skip the tests that have a mark, with its reason."""
    for item in items:
        marker = item.get_closest_marker(name)
        if marker:
            item.add_marker(pytest.mark.skip(reason=marker.kwargs.get("reason", name)))

"""`make test` closes with one line that says what was left out, and why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.left_out import RECORDS, Record, read_records
from tests.run_checks import closing_line

ROOT = Path(__file__).parents[2]
WITHOUT = [word for name in ("cacheprovider", "randomly", "pytest_cov") for word in ("-p", f"no:{name}")]
CONFTEST = "from tests.conftest import pytest_collection_modifyitems, pytest_configure\n"
TESTS = """\
import signal, pytest

def test_that_passes():
    pass

@pytest.mark.parametrize("number", range(3))
def test_that_lacks_something(number):
    pytest.skip("without scipy")

@pytest.mark.skipif(True, reason="needs root")
def test_that_needs_root():
    pass

@pytest.mark.xfail
def test_that_is_known_to_fail():
    assert False

@pytest.mark.slow
def test_that_takes_long():
    pass

@pytest.mark.slow(reason="further combinations")
def test_that_has_its_reason():
    pass

def test_that_can_be_interrupted():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def run_pytest(place: Path, *arguments: str, full: bool = False) -> Record:
    (place / "conftest.py").write_text(CONFTEST)
    (place / "test_some.py").write_text(TESTS)
    (place / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow:\n")
    (place / "records").mkdir(exist_ok=True)
    environ = {
        **os.environ, "PYTHONPATH": str(ROOT), "CI": str(full).lower(), RECORDS: str(place / "records"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *WITHOUT, *arguments], cwd=place, env=environ,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return read_records(place / "records")


def test_skipped_tests_are_counted_by_reason__in_processes_that_ignore_sigint(tmp_path: Path) -> None:
    """As a shell starts its background jobs: a test among them wants to be interrupted all the same."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        found = run_pytest(tmp_path, "-n", "2")
    finally:
        signal.signal(signal.SIGINT, before)
    reasons = {"without scipy": 3, "needs root": 1, "slow": 1, "further combinations": 1}
    assert found == Record(2, Counter(reasons))


def test_slow_tests_are_run_where_nothing_is_left_out_and_where_they_are_asked_for(tmp_path: Path) -> None:
    full = run_pytest(tmp_path, full=True)
    assert full == Record(4, Counter({"without scipy": 3, "needs root": 1}))
    assert run_pytest(tmp_path, "-m", "slow") == Record(6, full.skipped), "the records of runs are added"


def test_the_line_names_what_failed_what_passed_and_what_was_left_out(monkeypatch) -> None:
    monkeypatch.setattr("tests.run_checks.FULL", True)
    record = Record(4105, Counter({"slow": 2, "without scipy": 3}))
    line = closing_line({"style": True, "types": False, "tests": True}, record)
    assert line == (
        "Failed: types. Passed: style tests. 4,105 tests passed, 5 left out: 3 without scipy, 2 slow."
    )
    assert closing_line({"style": True}, Record()) == "Passed: style."
    assert closing_line({"tests": True}, Record(7)) == "Passed: tests. 7 tests passed, none left out."
    monkeypatch.setattr("tests.run_checks.FULL", False)
    assert "CI=true make test" in closing_line({"tests": True}, Record(1))

"""A sample of combinations has each value, or each pair of values; the others run at night."""

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import combinations, product
from pathlib import Path

import pytest
import yaml

from tests.extent import covering, crossed, is_in_sample
from tests.left_out import RECORDS, Record, read_records
from tests.run_checks import closing_line

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("sizes", [(3,) * 2, (4, 3), (1, 5)])
def test_of_two_axes_each_value_is_in_the_sample(sizes: tuple[int, ...]) -> None:
    chosen = covering(sizes)
    assert len(chosen) == max(sizes)
    for axis, size in enumerate(sizes):
        assert {row[axis] for row in chosen} == set(range(size))


@pytest.mark.parametrize("sizes", [(4, 3, 2), (2, 2, 2, 2), (3, 3, 3)])
def test_of_more_axes_each_pair_of_values_is_in_the_sample(sizes: tuple[int, ...]) -> None:
    chosen = covering(sizes)
    assert len(chosen) < len(list(product(*map(range, sizes))))
    for one, other in combinations(range(len(sizes)), 2):
        pairs = set(product(range(sizes[one]), range(sizes[other])))
        assert {(row[one], row[other]) for row in chosen} == pairs


def test_of_whole_commands_alone_some_are_left_out_where_that_is_asked_for(monkeypatch) -> None:
    commands = [f"tests/e2e/test_ci.py::test_a[{number}]" for number in range(400)]
    monkeypatch.setattr("tests.extent.ONE_IN", 1)
    assert all(map(is_in_sample, commands))
    monkeypatch.setattr("tests.extent.ONE_IN", 8)
    assert 30 < sum(map(is_in_sample, commands)) < 70
    assert all(is_in_sample(name.replace("e2e", "contract")) for name in commands)


def test_what_is_not_in_the_sample_runs_at_night() -> None:
    mark = crossed(letter=["a", "b"], number=[1, 2, 3]).mark
    names, rows = mark.args
    assert names == ["letter", "number"]
    assert [row.values for row in rows] == list(product("ab", [1, 2, 3]))
    quick = [row.values for row in rows if not row.marks]
    assert {letter for letter, _ in quick} == {"a", "b"}
    assert sorted(number for _, number in quick) == [1, 2, 3]
    assert all(mark.name == "cross" for row in rows for mark in row.marks)


@pytest.mark.parametrize(("run", "measures"), [("", False), ("CI", False), ("CI NIGHTLY", True)])
def test_coverage_is_measured_at_night_alone(run: str, measures: bool) -> None:
    stated = [f"{name}={str(name in run.split()).lower()}" for name in ("CI", "NIGHTLY")]
    done = subprocess.run(["make", "--dry-run", "tests", *stated], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ('if [ -n "true" ]' in done.stdout) is measures
    assert "--cov" in done.stdout


def test_ci_tests_each_push_and_by_schedule_all_that_there_is() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert {"push", "pull_request", "schedule"} == set(workflow[True])  # YAML 1.1 reads `on` as true
    (step,) = (step for step in workflow["jobs"]["test"]["steps"] if ".ci/run" in step.get("run", ""))
    assert step["env"] == {"NIGHTLY": "${{ github.event_name == 'schedule' }}"}


# `make test` closes with one line that says what was left out, and why

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
        **os.environ, "PYTHONPATH": str(ROOT), "CI": str(full).lower(), "NIGHTLY": "false",
        RECORDS: str(place / "records"),
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

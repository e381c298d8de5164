"""Run make targets, whatever fails on the way, and close with one line: what failed, passed and was left out.

python -m tests.run_checks style types tests

The target `tests` shows its progress. The others take little of its time: they run beside it, one after the
other, and show what they printed if they fail.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.extent import FULL
from tests.left_out import RECORDS, Record, read_records

TESTS = "tests"
QUICK = "Whole commands, random examples and kills were few: CI=true make test runs what CI does."


def check(target: str) -> bool:
    """Run a target; print what it printed if it fails."""
    done = subprocess.run(
        make(target), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        print(f"\n== {target}\n{done.stdout}", end="", flush=True)
    return done.returncode == 0


def run_tests(target: str, records: Path) -> bool:
    """Run a target of tests, which print as they go and leave records in a directory."""
    environ = {**os.environ, RECORDS: str(records)}
    return subprocess.run(make(target), env=environ, check=False).returncode == 0


def make(target: str) -> list[str]:
    """The command that makes a target."""
    return [os.environ.get("MAKE", "make"), "--no-print-directory", target]


def closing_line(passed: dict[str, bool], record: Record) -> str:
    """What failed, what passed, and which tests were left out."""
    failed = [target for target in passed if not passed[target]]
    good = [target for target in passed if passed[target]]
    parts = [f"Failed: {' '.join(failed)}."] if failed else []
    parts += [f"Passed: {' '.join(good)}."] if good else []
    parts += [record.sentence()] if TESTS in passed else []
    parts += [QUICK] if TESTS in passed and not FULL else []
    return " ".join(parts)


def run(targets: Sequence[str]) -> int:
    """Run every target and print the closing line; returns the exit code."""
    others = [target for target in targets if target != TESTS]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(max_workers=1) as beside:
        records = Path(name)
        found = [beside.submit(check, target) for target in others]
        tested = {TESTS: run_tests(TESTS, records)} if TESTS in targets else {}
        passed = {target: future.result() for target, future in zip(others, found, strict=True)}
        record = read_records(records)
    print(f"\n{closing_line(passed | tested, record)}")
    return 0 if all((passed | tested).values()) else 1


if __name__ == "__main__":
    try:
        raise SystemExit(run(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None

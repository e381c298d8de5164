"""A sample of combinations has each value, or each pair of values; the others run at night."""

from __future__ import annotations

import subprocess
from itertools import combinations, product
from pathlib import Path

import pytest
import yaml

from tests.extent import covering, crossed, is_in_sample

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

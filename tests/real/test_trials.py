"""Fifty tasks with four recorded trials each, through the real command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import REPOSITORY, Ended, agent_eval
from tests.real import taubench

JUDGE = "tests.real.taubench:TaskDone"


CASES = {"matrix": taubench.cases_of_the_matrix, "trajectories": taubench.cases_of_the_trajectories}


@pytest.fixture(scope="module", params=CASES)
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tau-bench") / "airline.jsonl"
    lines: list[dict[str, Any]] = [{"dataset_id": "airline"}, *CASES[request.param]()]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def run(suite: Path, *arguments: str | Path) -> Ended:
    return agent_eval(*arguments, cwd=suite.parent, environ={"PYTHONPATH": str(REPOSITORY)})


def test_pass_to_the_power_of_k(suite: Path) -> None:
    said = run(suite, "run", "--suite", suite, "--out", "pack", "--judge", JUDGE).json()["summary"]
    curve = [f"{point['pass_hat_k']:.3f}" for point in said["pass_curve"]]
    assert curve == ["0.420", "0.273", "0.220", "0.200"]
    assert (said["total_cases"], said["passed_cases"], said["flaky_cases"]) == (50, 10, 26)
    by_any = ("--out", "any", "--judge", JUDGE, "--case-policy", "any")
    assert run(suite, "run", "--suite", suite, *by_any).json()["summary"]["passed_cases"] == 36


def test_the_mixed_tasks_are_found(suite: Path) -> None:
    ended = run(suite, "stability-check", "--suite", suite, "--judge", JUDGE, "--out", "stability.json")
    assert ended.code == 1
    report = json.loads(ended.out)
    assert (len(report["flaky_case_ids"]), report["runs"], report["summary"]["cases"]) == (26, 4, 50)
    assert report == json.loads((suite.parent / "stability.json").read_text())

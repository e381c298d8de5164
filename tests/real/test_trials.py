"""Fifty tasks with four recorded trials each, through the real command line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import REPOSITORY, Ended, agent_eval
from tests.real import taubench
from tests.shared_data import shared_path

IMPORT = ("import-transcript", "--input", "airline.json", "--out", "suite.json")
JUDGE = "tests.real.taubench:TaskDone"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tau-bench") / "airline.jsonl"
    lines: list[dict[str, Any]] = [{"dataset_id": "airline"}, *taubench.cases_of_the_matrix()]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def run(suite: Path, *arguments: str | Path) -> Ended:
    return agent_eval(
        *arguments, "--format", "json", cwd=suite.parent, environ={"PYTHONPATH": str(REPOSITORY)}
    )


def test_pass_to_the_power_of_k(suite: Path) -> None:
    said = run(suite, "run", "--suite", suite, "--out", "pack", "--judge", JUDGE).json()["summary"]
    curve = [f"{point['pass_hat_k']:.3f}" for point in said["pass_curve"]]
    assert curve == ["0.420", "0.273", "0.220", "0.200"]
    assert (said["total_cases"], said["passed_cases"], said["flaky_cases"]) == (50, 10, 26)


def test_the_mixed_tasks_are_found(suite: Path) -> None:
    ended = run(suite, "stability-check", "--suite", suite, "--judge", JUDGE, "--out", "stability.json")
    assert ended.code == 1
    report = json.loads(ended.out)
    assert (len(report["flaky_case_ids"]), report["runs"], report["summary"]["cases"]) == (26, 4, 50)
    assert report == json.loads((suite.parent / "stability.json").read_text())


def test_tasks_of_which_some_trials_call_no_tool_are_neither_failed_nor_flaky(tmp_path: Path) -> None:
    with gzip.open(shared_path(taubench.TRAJECTORIES), "rt") as lines:
        (tmp_path / "airline.json").write_text(json.dumps([json.loads(line) for line in lines]))
    assert run(tmp_path / "airline.json", *IMPORT).code == 0
    ended = run(tmp_path / "suite.json", "run", "--suite", "suite.json", "--out", "pack")
    said = ended.json()["summary"]
    assert (said["total_cases"], said["passed_cases"], said["failed_cases"]) == (50, 50, 0)
    assert (said["flaky_cases"], said["failures"]) == (0, {})


def test_a_case_of_which_one_trial_calls_no_tool_is_neither_failed_nor_flaky(tmp_path: Path) -> None:
    call = [
        {"idx": 0, "actor": "agent", "type": "tool_call", "tool": "a", "input": {}, "call_id": "c"},
        {"idx": 1, "actor": "tool", "type": "tool_result", "tool": "a", "output": "ok", "call_id": "c"},
    ]
    said = {"idx": 0, "actor": "agent", "type": "message", "output": "done"}
    case = {"case_id": "mixed", "input": "hi", "trace": [said], "trials": [{"trace": call}]}
    (tmp_path / "suite.json").write_text(json.dumps({"dataset_id": "x", "cases": [case]}))
    ended = run(tmp_path / "suite.json", "run", "--suite", "suite.json", "--out", "pack")
    summary = ended.json()["summary"]
    assert (summary["passed_cases"], summary["flaky_cases"], summary["failures"]) == (1, None, {})
    shown = agent_eval("show", "pack", "mixed", cwd=tmp_path).out
    assert "1 of 1 trial passed, 1 had nothing to judge; this is trial 2; others: --trial 1" in shown

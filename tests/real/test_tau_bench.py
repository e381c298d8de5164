"""The 200 recorded conversations of tau-bench, imported, judged by their rewards, compared by turn."""

import gzip
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from agent_eval.evidence.reader import Pack, open_pack
from tests.e2e.program import REPOSITORY, Ended, agent_eval
from tests.real import taubench
from tests.shared_data import shared_path

Runs = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def runs() -> Runs:
    return {(str(run["task_id"]), run["trial"]): run for run in taubench.runs()}


@pytest.fixture(scope="module")
def pack(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Pack:
    place = tmp_path_factory.mktemp("tau-bench")
    source = ("--input", shared_path(taubench.TRAJECTORIES), "--source", "tau_bench")
    assert agent_eval("import-transcript", *source, "--out", "airline.jsonl", cwd=place).code == 0
    judged = agent_eval(
        "run", "--format", "json", "--suite", "airline.jsonl", "--judge", "recorded", "--out", "pack",
        cwd=place,
    )  # fmt: skip
    summary = judged.json()["summary"]
    assert (summary["total_cases"], summary["flaky_cases"]) == (50, 26)
    assert [f"{k['pass_hat_k']:.3f}" for k in summary["pass_curve"]] == ["0.420", "0.273", "0.220", "0.200"]
    return open_pack(place / "pack")


def test_each_of_the_200_loads_as_the_conversation_that_was_held(pack: Pack, runs: Runs) -> None:
    conversations = 0
    for task in sorted({task for task, _ in runs}):
        for number in range(taubench.TRIALS):
            turns = pack.trajectory(task, number).recorded.turns
            messages = runs[task, number]["traj"]
            roles = [message["role"] for message in messages if message["role"] != "system"]
            asked = sum(role == "user" for role, _ in groupby(roles))
            assert [turn.number for turn in turns] == list(range(1, asked + 1)), (task, number)
            conversations += len(turns) > 1
    assert conversations == len(runs) == 200


def test_rewards_as_expected_verdicts_agree_200_of_200(pack: Pack, runs: Runs) -> None:
    agree = 0
    for row in pack.results():
        for number, trial in enumerate(row["trials"]):
            verdicts = {verdict["judge_id"]: verdict for verdict in trial["verdicts"]}
            expected = "passed" if runs[row["case_id"], number]["reward"] == 1.0 else "failed"
            agree += verdicts["recorded"]["outcome"] == expected
    assert agree == 200


def test_two_trials_of_a_task_are_compared_turn_by_turn(runs: Runs, tmp_path: Path) -> None:
    changed = [task for task, _ in runs if (runs[task, 0]["reward"], runs[task, 1]["reward"]) == (1.0, 0.0)]
    for name, number in (("before", 0), ("now", 1)):
        lines = [json.dumps({**run, "trial": 0}) for (_, trial), run in runs.items() if trial == number]
        (tmp_path / "airline.jsonl").write_text("\n".join(lines))
        suite = ("--input", "airline.jsonl", "--out", f"{name}.json", "--dataset-id", "airline")
        assert agent_eval("import-transcript", *suite, cwd=tmp_path).code == 0
        judged = ("--suite", f"{name}.json", "--judge", "recorded", "--out", name)
        assert agent_eval("run", *judged, cwd=tmp_path).code == 0
    assert agent_eval("compare", "--baseline", "before", "--candidate", "now", cwd=tmp_path).code == 0
    compared = json.loads((tmp_path / "now/compare/baseline_delta.json").read_text())
    conversations = {change["case_id"]: change for change in compared["conversations"]}
    assert set(changed) <= conversations.keys()
    assert all(any(turn["differs"] for turn in change["turns"]) for change in conversations.values())


# Fifty tasks with four recorded trials each

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

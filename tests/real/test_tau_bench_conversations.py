"""The 200 recorded conversations of tau-bench, imported, judged by their rewards, compared by turn."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from agent_eval.evidence.reader import Pack, open_pack
from tests.e2e.program import agent_eval
from tests.real import taubench
from tests.shared_data import shared_path

RECORDED = "data/datasets/tau-bench-gpt-4o-airline.jsonl.gz"


@pytest.fixture(scope="module")
def runs() -> dict[tuple[str, int], dict[str, Any]]:
    return {(str(run["task_id"]), run["trial"]): run for run in taubench.runs()}


@pytest.fixture(scope="module")
def pack(runs: dict[tuple[str, int], dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Pack:
    place = tmp_path_factory.mktemp("tau-bench")
    source = ("--input", shared_path(RECORDED), "--source", "tau_bench", "--out", "airline.jsonl")
    assert agent_eval("import-transcript", *source, cwd=place).code == 0
    judged = agent_eval(
        "run", "--format", "json", "--suite", "airline.jsonl", "--judge", "recorded", "--out", "pack",
        cwd=place,
    )  # fmt: skip
    summary = judged.json()["summary"]
    assert (summary["total_cases"], summary["flaky_cases"]) == (50, 26)
    assert [f"{k['pass_hat_k']:.3f}" for k in summary["pass_curve"]] == ["0.420", "0.273", "0.220", "0.200"]
    return open_pack(place / "pack")


def test_each_of_the_200_loads_as_the_conversation_that_was_held(
    pack: Pack, runs: dict[tuple[str, int], dict[str, Any]]
) -> None:
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


def test_rewards_as_expected_verdicts_agree_200_of_200(
    pack: Pack, runs: dict[tuple[str, int], dict[str, Any]]
) -> None:
    agree = 0
    for row in pack.results():
        for number, trial in enumerate(row["trials"]):
            verdicts = {verdict["judge_id"]: verdict for verdict in trial["verdicts"]}
            expected = "passed" if runs[row["case_id"], number]["reward"] == 1.0 else "failed"
            agree += verdicts["recorded"]["outcome"] == expected
    assert agree == 200


def test_two_trials_of_a_task_are_compared_turn_by_turn(
    runs: dict[tuple[str, int], dict[str, Any]], tmp_path: Path
) -> None:
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

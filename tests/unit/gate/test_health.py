"""Gate health: which judges and cases tell something, over the packs of several runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.evidence.archive import write_bundle
from agent_eval.gate.health import FEWEST_TRIALS, GateHealth, Health
from tests.factories import make_config, make_pack, make_result

OUTCOMES = ("passed", "failed", "skipped")


def row(case_id: str, **judges: str) -> Any:
    """The result of a case by what each judge said; an error names its failure."""
    verdicts = []
    for name, said in sorted(judges.items()):
        ended = (said, None) if said in OUTCOMES else ("error", said)
        verdicts.append({"judge_id": name, "outcome": ended[0], "evidence": {}, "failure": ended[1]})
    outcome = next((each["outcome"] for each in verdicts if each["outcome"] != "passed"), "passed")
    return {"case_id": case_id, "outcome": outcome, "verdicts": verdicts}


def over(runs: int, *rows: Any, index: Any = None) -> GateHealth:
    health = GateHealth()
    for _ in range(runs):
        health.add(rows, index or {})
    return health


@pytest.mark.parametrize(
    ("counts", "remark"),
    [
        ({}, "never-ran"), ({"skipped": 100}, "never-ran"), ({"passed": FEWEST_TRIALS}, "never-failed"),
        ({"passed": FEWEST_TRIALS - 1}, "too-few"), ({"failed": FEWEST_TRIALS}, "never-passed"),
        ({"passed": 19, "failed": 1}, "useful"), ({"passed": 8, "error": 2}, "cannot-judge"),
        ({"passed": 81, "error": 19}, "useful"),
    ],
)  # fmt: skip
def test_remarks(counts: dict[str, Any], remark: str) -> None:
    assert Health(**counts).remark == remark


def test_lost_trials_are_counted_apart_by_whose_fault_they_are() -> None:
    health = over(20, row("a", regex="passed"), row("mostly-lost", regex="passed"))
    for kind in ("infrastructure", "infrastructure", "judge_error", "environment", "agent_error"):
        judge_id = "execution" if kind in ("infrastructure", "environment") else "lean"
        health.add([row("a", **{judge_id: kind})], {})
        for _ in range(3):
            health.add([row("mostly-lost", execution="infrastructure")], {})
    case = health.cases["a"]
    lost = {"infrastructure": 2, "judge": 1, "environment": 1}
    assert (case.lost, case.passed, case.error) == (lost, 20, 1)
    assert health.cases["mostly-lost"].remark == "cannot-judge"
    assert health.to_json()["lost_trials"] == {"environment": 1, "infrastructure": 17, "judge": 1}


def test_trials_count_each_and_costs_add_up_and_an_unknown_one_is_not_zero() -> None:
    judging = {"judge_id": "llm", "outcome": "failed", "evidence": {"judging": {"cost_usd": 0.25}}}
    passed, failed = {"outcome": "passed", "verdicts": []}, {"outcome": "failed", "verdicts": [judging]}
    health = over(2, {"case_id": "a", **passed, "trials": [passed, failed]}, index={"a": {"cost_usd": 0.5}})
    assert (health.cases["a"].passed, health.cases["a"].failed, health.cases["a"].cost_usd) == (2, 2, 1.0)
    assert health.judges["llm"].cost_usd == 0.5
    unknown = over(1, row("a", llm="passed"), index={"a": {"cost_usd": None}})
    assert (unknown.cases["a"].cost_usd, unknown.judges["llm"].cost_usd) == (None, None)


def test_the_command_counts_verified_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packs = [tmp_path / f"p{number}" for number in range(2)]
    for number, pack in enumerate(packs):
        results = [make_result("a"), make_result("b", failed="policy"), make_result("c", error="policy")]
        make_pack(pack, results, config=make_config(run_id=f"run-{number}"))
    assert main(["gate-health", *map(str, packs), "--format", "json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert counted["runs"] == 2
    assert (counted["cases"]["a"]["passed"], counted["cases"]["b"]["failed"]) == (2, 2)
    assert counted["judges"]["policy"]["failed"] == 2
    assert main(["gate-health", *map(str, packs)]) == 0
    printed = capsys.readouterr().out
    assert "1 case cannot judge: c\n2 cases too few: a, b\n" in printed


def test_what_a_job_leaves_is_taken_as_its_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        make_pack(tmp_path / f"out-{number}" / "shop", config=make_config(run_id=f"r{number}"))
        (tmp_path / f"out-{number}" / "report.md").write_text("# Passed")
    left = (str(tmp_path / f"out-{number}") for number in range(2))
    assert main(["gate-health", *left, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "pack"), ([".."], "no evidence pack"), (["p", "p"], "are the same run"),
        (["changed"], "index.jsonl"),
    ],
    ids=["none", "no pack", "a run twice", "a changed pack"],
)  # fmt: skip
def test_what_cannot_be_counted_is_refused(
    given: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("p", "changed"):
        make_pack(tmp_path / "packs" / name, [make_result("a")])
    (tmp_path / "packs" / "changed" / "run" / "index.jsonl").write_text("{}\n")
    (tmp_path / "empty").mkdir()
    paths = [tmp_path / "empty" if name == ".." else tmp_path / "packs" / name for name in given]
    assert main(["gate-health", *map(str, paths)]) == 2
    assert says in capsys.readouterr().err.lower()


@pytest.mark.parametrize("name", ["", "evidence.zip"], ids=["directory", "archive"])
def test_the_datasets_of_one_job_are_told_apart(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packs = {
        dataset: make_pack(tmp_path / dataset, [make_result("a")], config=make_config(dataset_id=dataset))
        for dataset in ("bank", "shop")
    }
    write_bundle(packs, tmp_path / "evidence.zip")
    assert main(["gate-health", str(tmp_path / name), "--format", "json"]) == 0
    datasets = json.loads(capsys.readouterr().out)["datasets"]
    assert {dataset: counted["runs"] for dataset, counted in datasets.items()} == {"bank": 1, "shop": 1}
    assert main(["gate-health", str(tmp_path / name)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in ("bank:", "shop:")] == ["bank:", "shop:"]
    # A suite that only an earlier job had is not mixed in.
    write_bundle({"shop": packs["shop"]}, tmp_path / "evidence.zip")
    assert main(["gate-health", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 1

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


def row(case_id: str, **judges: str) -> Any:
    """The result of a case by what each judge said."""
    verdicts = [
        {
            "judge_id": name,
            "outcome": outcome,
            "evidence": {},
            "failure": "agent_error" if outcome == "error" else None,
        }
        for name, outcome in sorted(judges.items())
    ]
    outcome = next((said for said in judges.values() if said != "passed"), "passed")
    return {"case_id": case_id, "outcome": outcome, "verdicts": verdicts}


def over(runs: int, *rows: Any, index: Any = None) -> GateHealth:
    health = GateHealth()
    for _ in range(runs):
        health.add(rows, index or {})
    return health


@pytest.mark.parametrize(
    ("counts", "remark"),
    [
        ({}, "never-ran"),
        ({"skipped": 100}, "never-ran"),
        ({"passed": FEWEST_TRIALS}, "never-failed"),
        ({"passed": FEWEST_TRIALS - 1}, "too-few"),
        ({"failed": FEWEST_TRIALS}, "never-passed"),
        ({"passed": 19, "failed": 1}, "useful"),
        ({"passed": 8, "error": 2}, "cannot-judge"),
        ({"passed": 81, "error": 19}, "useful"),
    ],
)
def test_remarks(counts: dict[str, Any], remark: str) -> None:
    assert Health(**counts).remark == remark


def lost(case_id: str, kind: str) -> Any:
    """A case of which the trial was lost before or while it was judged."""
    judge_id = "execution" if kind in ("infrastructure", "environment") else "lean"
    verdict = {"judge_id": judge_id, "outcome": "error", "evidence": {}, "failure": kind}
    return {"case_id": case_id, "outcome": "error", "verdicts": [verdict]}


def test_lost_trials_are_counted_apart_by_whose_fault_they_are() -> None:
    health = over(20, row("a", regex="passed"))
    for kind in ("infrastructure", "infrastructure", "judge_error", "environment", "agent_error"):
        health.add([lost("a", kind)], {})
    case = health.cases["a"]
    assert case.lost == {"infrastructure": 2, "judge": 1, "environment": 1}
    assert (case.passed, case.error) == (20, 1)
    assert health.to_json()["lost_trials"] == {"environment": 1, "infrastructure": 2, "judge": 1}


def test_a_case_that_is_mostly_lost_cannot_be_judged() -> None:
    health = over(6, row("a", regex="passed"))
    for _ in range(4):
        health.add([lost("a", "infrastructure")], {})
    assert health.cases["a"].remark == "cannot-judge"


def test_a_safety_judge_is_not_retired_for_never_failing() -> None:
    health = over(30, row("a", prompt_injection="passed", regex="passed", replay_contract="passed"))
    named = [line.split(":")[0] for line in health.suggestions()]
    assert "regex" in named
    assert not {"prompt_injection", "replay_contract"} & set(named)


def test_trials_count_each_and_costs_add_up() -> None:
    trial = {"outcome": "passed", "verdicts": []}
    failed = {
        "outcome": "failed",
        "verdicts": [{"judge_id": "llm", "outcome": "failed", "evidence": {"judging": {"cost_usd": 0.25}}}],
    }
    health = over(2, {"case_id": "a", **trial, "trials": [trial, failed]}, index={"a": {"cost_usd": 0.5}})
    assert (health.cases["a"].passed, health.cases["a"].failed, health.cases["a"].cost_usd) == (2, 2, 1.0)
    assert health.judges["llm"].cost_usd == 0.5


def test_an_unknown_cost_is_not_zero() -> None:
    health = over(1, row("a", llm="passed"), index={"a": {"cost_usd": None}})
    assert (health.cases["a"].cost_usd, health.judges["llm"].cost_usd) == (None, None)


def test_the_command_counts_verified_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packs = [tmp_path / f"p{number}" for number in range(2)]
    for number, pack in enumerate(packs):
        results = [make_result("a"), make_result("b", failed="policy")]
        make_pack(pack, results, config=make_config(run_id=f"run-{number}"))
    assert main(["gate-health", *map(str, packs), "--format", "json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert counted["runs"] == 2
    assert (counted["cases"]["a"]["passed"], counted["cases"]["b"]["failed"]) == (2, 2)
    assert counted["judges"]["policy"]["failed"] == 2
    assert main(["gate-health", *map(str, packs)]) == 0
    assert "2 cases too few: a, b" in capsys.readouterr().out


def test_what_a_job_leaves_is_taken_as_its_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(2):
        make_pack(tmp_path / f"out-{number}" / "shop", config=make_config(run_id=f"r{number}"))
        (tmp_path / f"out-{number}" / "report.md").write_text("# Passed")
    left = (str(tmp_path / f"out-{number}") for number in range(2))
    assert main(["gate-health", *left, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2


def test_a_directory_without_a_pack_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate-health", str(tmp_path)]) == 2
    assert "no evidence pack" in capsys.readouterr().err


def test_a_pack_that_was_changed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = make_pack(tmp_path / "p", [make_result("a")])
    (pack / "run" / "index.jsonl").write_text("{}\n")
    assert main(["gate-health", str(pack)]) == 2
    assert "index.jsonl" in capsys.readouterr().err


def test_it_needs_a_pack() -> None:
    assert main(["gate-health"]) == 2


def test_a_run_that_is_given_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = make_pack(tmp_path / "p", [make_result("a")])
    assert main(["gate-health", str(pack), str(pack)]) == 2
    assert "are the same run" in capsys.readouterr().err


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


def test_a_suite_that_only_an_earlier_job_had_is_not_mixed_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = make_pack(tmp_path / "shop", [make_result("a")])
    make_pack(tmp_path / "bank", [make_result("a")], config=make_config(dataset_id="bank"))
    write_bundle({"shop": shop}, tmp_path / "evidence.zip")
    assert main(["gate-health", str(tmp_path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 1


def test_cases_that_often_end_in_an_error_are_named_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packs = [tmp_path / f"p{number}" for number in range(2)]
    for number, pack in enumerate(packs):
        results = [make_result("a"), make_result("b", error="policy")]
        make_pack(pack, results, config=make_config(run_id=f"r{number}"))
    assert main(["gate-health", *map(str, packs)]) == 0
    printed = capsys.readouterr().out
    assert "1 case cannot judge: b" in printed
    assert "1 case often ended in an error" in printed


def test_how_the_agent_ended_is_no_judge_to_mend_or_retire() -> None:
    health = over(
        10,
        row("a", execution="skipped", replay_contract="error"),
        row("b", execution="skipped", replay_contract="passed"),
    )
    assert not [line for line in health.suggestions() if line.startswith(("execution", "replay_contract"))]

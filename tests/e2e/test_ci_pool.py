"""A pooled decision on the localhost GitHub, defended from nothing but the archives that were uploaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_eval.contracts import DerivedManifest
from agent_eval.storage.files import sha256_bytes
from tests.e2e.program import agent_eval
from tests.e2e.runner import Runner, Step, orders, unzipped

LOOSE = {"max_regressed_cases": "4", "max_new_hard_fail_cases": "4"}
RULES = ("--max-regressed-cases", "4", "--max-new-hard-fail-cases", "4", "--preset", "pull-request")


@pytest.fixture
def change(runner: Runner, tmp_path: Path) -> Step:
    """Five runs on main, one of which fails an order, and a change that fails them all."""
    for run_id, bad in ((410, ()), (420, (1,)), (430, ()), (440, ()), (450, ())):
        runner.write_suite(*orders(bad=bad))
        main = runner.push(run_id=run_id, **LOOSE)
        runner.upload(main, run_id)
    (tmp_path / "base.zip").write_bytes(main.archive)
    runner.write_suite(*orders(bad=(1, 2, 3, 4)))
    step = runner.pull_request(baseline_runs="20", **LOOSE)
    (tmp_path / "change.zip").write_bytes(step.archive)
    return step


def test_the_archives_alone_give_the_decision_again(change: Step, tmp_path: Path) -> None:
    assert change.code == 1, change.log
    files = unzipped(change.archive)
    for name in ("pool.jsonl", "baseline_delta.json"):
        (tmp_path / name).write_bytes(files[f"shop/compare/{name}"])
    of_job = json.loads(files["shop/compare/gate_decision.json"])
    listed = DerivedManifest.model_validate_json(files["shop/derived.json"]).files
    assert {entry.sha256 for entry in listed if entry.path == "compare/pool.jsonl"} == {
        sha256_bytes(files["shop/compare/pool.jsonl"]),
        of_job["evidence"]["pooled"]["sha256"],
    }
    packs = ("--baseline", "base.zip", "--candidate", "change.zip")
    decide = ("gate", "--compare", "baseline_delta.json", *packs)
    alone = agent_eval(*decide, *RULES, "--out", "alone.json", cwd=tmp_path)
    assert alone.code == 2
    assert alone.error["details"]["field"] == "pool"
    pool = ("--pool", "pool.jsonl", "--out", "again.json")
    again = agent_eval(*decide, *RULES, *pool, cwd=tmp_path)
    assert again.code == 1
    decided = json.loads((tmp_path / "again.json").read_bytes())
    assert decided["evidence"] == of_job["evidence"]
    assert (decided["gate_status"], decided["steps"]) == (of_job["gate_status"], of_job["steps"])
    assert decided["evidence"]["p_value"] < 0.05
    assert decided["evidence"]["pooled"]["run_ids"] == [
        f"github-{run_id}-1-shop" for run_id in (450, 440, 430, 420, 410)
    ]
    verified = agent_eval("verify", "change.zip", cwd=tmp_path)
    assert (verified.code, verified.json()["whole"]) == (0, True)

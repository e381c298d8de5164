"""What is said of a run stands in its evidence, and what it prints in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.program import REPOSITORY, agent_eval

GOOD, BAD = (REPOSITORY / "examples" / f"suite_{name}.json" for name in ("good", "bad"))


def test_a_run_with_failed_cases_exits_0_and_prints_its_summary(tmp_path: Path) -> None:
    ended = agent_eval(
        *("run", "--suite", BAD, "--out", "pack", "--run-id", "r"), "--format", "json", cwd=tmp_path
    )
    assert ended.code == 0
    printed = ended.json()
    assert set(printed) == {"run_id", "summary", "pack"}
    assert printed["summary"]["pass_rate"] == pytest.approx(1 / 3)
    assert json.loads((tmp_path / "pack/run/summary.json").read_text()) == printed["summary"]


def test_what_was_said_of_the_run_stands_in_its_configuration(tmp_path: Path) -> None:
    said = {
        "run-id": "r-7",
        "agent-version": "2.1",
        "model": "m",
        "seed": "7",
        "prompt-hash": "p",
        "policy-hash": "q",
        "container-image": "i@sha256:0",
        "git-commit": "c",
        "dependency-lock-hash": "d",
    }
    flags = [part for name, value in said.items() for part in (f"--{name}", value)]
    agent_eval(
        "run", "--format", "json", "--suite", GOOD, "--out", "pack", "--judge", "policy", *flags, cwd=tmp_path
    ).json()
    config = json.loads((tmp_path / "pack/run/config.json").read_text())
    for name, value in said.items():
        assert str(config[name.replace("-", "_")]) == value
    assert config["judges"] == ["policy"]
    assert config["pinned_env"]["packages"]["pydantic"]

"""What is said of a run stands in its evidence, and what it prints in a file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.program import REPOSITORY, agent_eval

GOOD, BAD = (REPOSITORY / "examples" / f"suite_{name}.json" for name in ("good", "bad"))


def test_what_was_said_of_the_run_stands_in_its_configuration(tmp_path: Path) -> None:
    said = {
        "run-id": "r-7", "agent-version": "2.1", "model": "m", "seed": "7", "prompt-hash": "p",
        "policy-hash": "q", "container-image": "i@sha256:0", "git-commit": "c", "dependency-lock-hash": "d",
    }  # fmt: skip
    flags = [part for name, value in said.items() for part in (f"--{name}", value)]
    agent_eval(
        "run", "--format", "json", "--suite", GOOD, "--out", "pack", "--judge", "policy", *flags, cwd=tmp_path
    ).json()
    config = json.loads((tmp_path / "pack/run/config.json").read_text())
    for name, value in said.items():
        assert str(config[name.replace("-", "_")]) == value
    assert config["judges"] == ["policy"]
    assert config["pinned_env"]["packages"]["pydantic"]

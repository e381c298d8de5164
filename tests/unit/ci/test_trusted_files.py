"""Whose policy, waivers and settings a change is judged by, and what is said of the others."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.e2e.runner import PULL, orders
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess
from tests.unit.ci.registries import NAME, registry, waiver

RELAXED = {"max_regressed_cases": "", "max_new_hard_fail_cases": ""}
FREE = b"margin: 0.25\n"
STRICT = b"preset: release\n"


@pytest.fixture
def regressed(runner: InProcess) -> None:
    """Run 400 on main left evidence; since then the suite's second case is worse."""
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400)
    runner.write_suite(*orders(bad=(2,)))


def write(runner: InProcess, name: str, data: bytes) -> None:
    path = runner.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_thresholds__are_added_to_the_policy(runner: InProcess, regressed: None) -> None:
    assert runner.pull_request(min_pass_rate="0.9", **RELAXED).code == 1
    assert runner.pull_request(min_pass_rate="0.5", **RELAXED).code == 0


@pytest.mark.parametrize("guess", [b"min-pass-rate: 0.123456\n", b"min-pass-rate: 0.5\n"])
def test_fork__whose_file_is_a_link_shows_nothing_of_it(
    runner: InProcess, github: FakeGitHub, regressed: None, tmp_path: Path, guess: bytes
) -> None:
    """Neither its content, nor whether the base branch has the same, by which a fork could guess it."""
    (tmp_path / "hidden.yml").write_bytes(b"min-pass-rate: 0.123456\n")
    github.files["agent-eval.yml"] = guess
    (runner.workspace / "agent-eval.yml").symlink_to(tmp_path / "hidden.yml")
    step = runner.pull_request(fork=True)
    assert (step.code, step.outcome) == (1, "failed")
    comment = github.bodies(PULL)[0]
    assert "`agent-eval.yml` differs from the base branch." in comment
    assert "0.123456" not in comment + step.log


def test_policy__that_is_missing_or_wrong_is_an_error(runner: InProcess, regressed: None) -> None:
    assert runner.pull_request(policy="gate.yml").code == 2
    write(runner, "gate.yml", b"margn: 0.1\n")
    step = runner.pull_request(policy="gate.yml")
    assert step.code == 2
    assert any("margin" in line for line in step.annotations)


def test_waiver__that_is_over_excuses_nothing(runner: InProcess, regressed: None) -> None:
    write(runner, NAME, registry(waiver("order-2", expires_at="2026-01-13T00:00:00+00:00")))
    assert runner.pull_request().code == 1


def test_thresholds__of_the_policy_hold_on_a_first_run(runner: InProcess) -> None:
    runner.write_suite(*orders(bad=(1,)))
    write(runner, "gate.yml", b"min_pass_rate: 0.9\n")
    assert runner.pull_request(policy="gate.yml").outcome == "failed"


def test_baseline__by_its_name_in_the_registry(runner: InProcess, regressed: None) -> None:
    kept = runner.workspace / "kept"
    (runner.workspace / "agent-eval-out" / "shop").rename(kept)
    digest = hashlib.sha256((kept / "manifest.json").read_bytes()).hexdigest()
    write(runner, NAME, registry(run_path="../kept", sha256=digest))
    step = runner.pull_request(baseline="main")
    assert (step.code, step.outputs["regressed-cases"]) == (1, "1")
    write(runner, NAME, registry(run_path="../kept"))
    assert runner.pull_request(baseline="main").code == 2


ADOPTED = b"policy: gate.yml\n"
HELD = b"quarantine: [{case: order-2, reason: flaky, until: 2027-01-31}]\n"


@pytest.mark.parametrize("fork", [False, True])
def test_rules__of_a_change_are_those_of_the_tip(
    runner: InProcess, github: FakeGitHub, regressed: None, fork: bool
) -> None:
    github.files |= {"gate.yml": b"preset: release\n", "agent-eval.yml": ADOPTED}
    write(runner, "gate.yml", HELD)
    write(runner, "agent-eval.yml", ADOPTED)
    write(runner, NAME, registry(waiver("order-2")))
    step = runner.pull_request(fork=fork, **RELAXED)
    assert (step.code, step.outcome) == (1, "failed")
    decision = json.loads((runner.workspace / "agent-eval-out/shop/compare/gate_decision.json").read_text())
    assert (decision["preset"], decision["waived_case_ids"]) == ("release", [])
    comment = github.bodies(PULL)[0]
    for name in ("gate.yml", NAME):
        assert f"`{name}` differs from the trusted branch" in comment


def test_rules__that_the_tip_has_hold(runner: InProcess, github: FakeGitHub, regressed: None) -> None:
    github.files |= {"gate.yml": HELD, "agent-eval.yml": ADOPTED}
    step = runner.pull_request(policy="gate.yml", **RELAXED)
    assert (step.code, step.outcome) == (0, "passed")
    github.files |= {"gate.yml": b"{}\n", NAME: registry(waiver("order-2"))}
    assert runner.pull_request(run_id=501, policy="gate.yml", **RELAXED).outcome == "passed"
    assert runner.pull_request(run_id=502, baseline_name="other", **RELAXED).code == 1


def test_rules__of_a_first_adoption_are_the_changes_own_unless_it_is_a_fork(
    runner: InProcess, regressed: None
) -> None:
    write(runner, "gate.yml", HELD)
    assert runner.pull_request(policy="gate.yml", **RELAXED).code == 0
    step = runner.pull_request(run_id=501, fork=True, policy="gate.yml", **RELAXED)
    assert step.code == 1
    assert "a change cannot bring a policy of its own" in step.summary.replace("\\", "")

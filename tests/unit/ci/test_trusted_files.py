"""Whose policy, waivers and settings a change is judged by, and what is said of the others."""

from __future__ import annotations

import hashlib
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


def test_default__warns_where_nobody_can_tell(runner: InProcess, github: FakeGitHub, regressed: None) -> None:
    step = runner.pull_request(**RELAXED)
    assert (step.code, step.outcome, step.outputs["passed"]) == (0, "inconclusive", "false")
    told = "1 case got worse: `order-2`. Too few cases to tell whether that is chance; not blocked."
    assert any(f"Agent evaluation: inconclusive. {told}" in line for line in step.annotations)
    assert told in github.bodies(PULL)[0]
    assert "passed 4 -> 3 of 4" in step.log


def test_release__blocks_where_nobody_can_tell(runner: InProcess, regressed: None) -> None:
    step = runner.pull_request(**RELAXED, preset="release")
    assert (step.code, step.outcome) == (3, "inconclusive")
    assert runner.pull_request(**RELAXED, preset="release", fail_on="never").code == 0


def test_unchanged__passes_in_every_preset_however_small_the_suite(
    runner: InProcess, github: FakeGitHub
) -> None:
    runner.write_suite(*orders(1))
    runner.upload(runner.push(), 400)
    assert runner.pull_request(**RELAXED).outcome == "passed"
    # A release needs more than one case to rule a drop out, or an agent that does the same every time.
    assert runner.pull_request(run_id=501, **RELAXED, preset="release").outcome == "inconclusive"
    write(runner, "gate.yml", b"deterministic: true\n")
    inputs = {**RELAXED, "preset": "release", "policy": "gate.yml"}
    # A change does not say so of itself.
    assert runner.pull_request(run_id=502, **inputs).outcome == "inconclusive"
    github.files["gate.yml"] = b"deterministic: true\n"
    step = runner.pull_request(run_id=503, **inputs)
    assert (step.code, step.outcome) == (0, "passed")


@pytest.mark.parametrize(
    ("base", "head"),
    [
        (b"preset: release\n", b"preset: pull-request\n"),
        (b"thresholds: {min_coverage: 0.9}\n", b"thresholds: {min_coverage: 0.5}\n"),
        (None, b"thresholds: {min_coverage: 0.5}\n"),
        (b"{}\n", b"deterministic: true\n"),
        (b"deterministic: false\n", b"deterministic: true\n"),
    ],
)
def test_policy__that_a_change_loosens_is_no_pass(
    base: bytes | None, head: bytes, runner: InProcess, github: FakeGitHub
) -> None:
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400)
    if base is not None:
        github.files["gate.yml"] = base
    write(runner, "gate.yml", head)
    step = runner.pull_request(policy="gate.yml")
    # The base branch's preset blocks, whatever the change's says.
    is_release = base is not None and b"release" in base
    assert (step.code, step.outcome) == (3 if is_release else 0, "inconclusive")
    assert "This change loosens the rules that it is held to: `" in github.bodies(PULL)[0]
    # The other way round it decides by what it brings.
    github.files["gate.yml"], tighter = head, base or b"{}\n"
    write(runner, "gate.yml", tighter)
    assert "loosens" not in runner.pull_request(run_id=501, policy="gate.yml").summary


def test_change__that_compares_itself_with_nothing_is_no_pass(runner: InProcess, github: FakeGitHub) -> None:
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400)
    write(runner, "agent-eval.yml", b"baseline: none\n")
    step = runner.pull_request(min_pass_rate="0.5", **RELAXED)
    assert step.outcome == "inconclusive"
    assert "`agent-eval.yml`: `baseline` is now `none`." in github.bodies(PULL)[0]
    github.files["agent-eval.yml"] = b"baseline: none\n"
    assert runner.pull_request(run_id=501, min_pass_rate="0.5", **RELAXED).outcome == "passed"


def test_thresholds__are_added_to_the_policy(runner: InProcess, regressed: None) -> None:
    assert runner.pull_request(min_pass_rate="0.9", **RELAXED).code == 1
    assert runner.pull_request(min_pass_rate="0.5", **RELAXED).code == 0


def test_policy__of_the_branch_counts_and_its_differences_stand_at_the_top(
    runner: InProcess, github: FakeGitHub, regressed: None
) -> None:
    github.files["config/gate.yml"] = STRICT
    write(runner, "config/gate.yml", FREE)
    write(runner, "agent-eval.yml", b"policy: config/gate.yml\n")
    step = runner.pull_request(**RELAXED)
    assert (step.code, step.outcome) == (0, "inconclusive")
    top = github.bodies(PULL)[0].split("Commit ")[0]
    for said in (
        "This change also changes how it is judged:",
        "`agent-eval.yml` is new.",
        "`config/gate.yml`: `margin` is now `0.25`.",
        "`config/gate.yml`: `preset` was `release` and is gone.",
    ):
        assert said in top
    assert "This change also changes how it is judged:" in step.summary


def test_fork__is_judged_by_the_base_branch(runner: InProcess, github: FakeGitHub, regressed: None) -> None:
    github.files["config/gate.yml"] = STRICT
    github.files["agent-eval.yml"] = b"policy: config/gate.yml\n"
    write(runner, "config/gate.yml", FREE)
    write(runner, "agent-eval.yml", b"fail-on: never\n")
    write(runner, NAME, registry(waiver("order-2")))
    step = runner.pull_request(fork=True, **RELAXED)
    assert (step.code, step.outcome) == (3, "inconclusive")
    comment = github.bodies(PULL)[0]
    assert "the base branch's rules were applied:" in comment
    for name in ("agent-eval.yml", "config/gate.yml", NAME):
        assert f"- `{name}` differs from the base branch." in comment
    assert "Waiver" not in comment


def test_fork__cannot_bring_a_policy_the_base_branch_lacks(
    runner: InProcess, github: FakeGitHub, regressed: None
) -> None:
    write(runner, "gate.yml", FREE)
    step = runner.pull_request(fork=True, policy="gate.yml", preset="release", **RELAXED)
    assert (step.code, step.outcome) == (3, "inconclusive")
    assert "a fork cannot bring a policy of its own" in github.bodies(PULL)[0]


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


@pytest.mark.parametrize("problem", ["outage", "no token", "no permission", "too large"])
def test_fork__is_not_judged_where_the_base_branch_cannot_be_read(
    runner: InProcess, github: FakeGitHub, regressed: None, problem: str
) -> None:
    token = {"github_token": ""} if problem == "no token" else {}
    if problem == "outage":
        github.fail("GET", "/commits/", 503, times=1000)
    if problem == "no permission":
        github.permissions.discard("contents: read")
    if problem == "too large":
        github.files["agent-eval.yml"] = b"#" * ((1 << 20) + 1)
    step = runner.pull_request(fork=True, **token)
    assert (step.code, step.outcome) == (4, "error")


def test_own_branch__is_judged_though_the_base_branch_cannot_be_read(
    runner: InProcess, github: FakeGitHub, regressed: None
) -> None:
    github.files["agent-eval.yml"] = b"#" * ((1 << 20) + 1)
    step = runner.pull_request()
    assert (step.code, step.outcome) == (1, "failed")
    assert "could not be seen" in github.bodies(PULL)[0]


def test_policy__that_is_missing_or_wrong_is_an_error(runner: InProcess, regressed: None) -> None:
    assert runner.pull_request(policy="gate.yml").code == 2
    write(runner, "gate.yml", b"margn: 0.1\n")
    step = runner.pull_request(policy="gate.yml")
    assert step.code == 2
    assert any("margin" in line for line in step.annotations)


def test_waiver__committed_with_the_change_is_listed_and_counts_once_it_is_on_the_base_branch(
    runner: InProcess, github: FakeGitHub, regressed: None
) -> None:
    github.files[NAME] = registry()
    write(runner, NAME, registry(waiver("order-2"), waiver("order-3", baseline_name="other")))
    step = runner.pull_request()
    assert (step.code, step.outcome) == (1, "failed")
    assert "waiver w-order-2" in github.bodies(PULL)[0].split("Commit ")[0]
    github.files[NAME] = registry(waiver("order-2"))
    write(runner, NAME, registry(waiver("order-2")))
    step = runner.pull_request(run_id=501)
    assert (step.code, step.outcome) == (0, "passed")
    comment = github.bodies(PULL)[0]
    assert (
        "Waiver `w-order-2` by `qa@example.com`, until `2026-04-01T00:00:00+00:00`: `meant` (`order-2`)"
        in comment
    )
    assert runner.pull_request(run_id=502, baseline_name="other").code == 1


def test_waiver__that_is_over_excuses_nothing(runner: InProcess, regressed: None) -> None:
    write(runner, NAME, registry(waiver("order-2", expires_at="2026-01-13T00:00:00+00:00")))
    assert runner.pull_request().code == 1


def test_quarantine__is_counted_apart(runner: InProcess, github: FakeGitHub, regressed: None) -> None:
    held = b"quarantine:\n  - {case_id: order-2, reason: flaky, expires_at: 2027-01-31T00:00:00Z}\n"
    write(runner, "gate.yml", held)
    assert runner.pull_request(policy="gate.yml").outcome == "failed"
    github.files["gate.yml"] = held
    assert runner.pull_request(policy="gate.yml").outcome == "inconclusive"
    write(runner, "gate.yml", b"thresholds: {min_coverage: 0.75}\n" + held)
    github.files["gate.yml"] = b"thresholds: {min_coverage: 0.75}\n" + held
    step = runner.pull_request(run_id=501, policy="gate.yml")
    assert (step.code, step.outcome) == (0, "passed")
    assert step.outputs["regressed-cases"] == "0"
    assert "1 case in quarantine, not compared: `order-2`" in github.bodies(PULL)[0]


def test_quarantine__cannot_hide_a_failure_of_a_zero_tolerance_judge(
    runner: InProcess, github: FakeGitHub, regressed: None
) -> None:
    held = b"quarantine:\n  - {case_id: order-2, reason: flaky, expires_at: 2027-01-31T00:00:00Z}\n"
    policy = b"zero_tolerance: [policy]\n" + held
    write(runner, "gate.yml", policy)
    step = runner.pull_request(policy="gate.yml", **RELAXED)
    assert (step.code, step.outcome) == (1, "failed")
    assert "newly fails 1 case" in github.bodies(PULL)[0]


def test_thresholds__of_the_policy_hold_on_a_first_run(runner: InProcess) -> None:
    runner.write_suite(*orders(bad=(1,)))
    write(runner, "gate.yml", b"thresholds: {min_pass_rate: 0.9}\n")
    assert runner.pull_request(policy="gate.yml").outcome == "failed"


def test_judges_configuration__is_used_as_it_stands_and_its_differences_listed(
    runner: InProcess, github: FakeGitHub, regressed: None
) -> None:
    github.files["judges.json"] = b'{"policy": {"hard": true}}'
    write(runner, "judges.json", b'{"policy": {"hard": false}}')
    runner.pull_request(judge_config="judges.json")
    assert "`judges.json`: `policy.hard` was `True` and is now `False`." in github.bodies(PULL)[0]


def test_files__outside_the_checkout_do_not_come_with_the_change(
    runner: InProcess, github: FakeGitHub, regressed: None, tmp_path: Path
) -> None:
    (tmp_path / "gate.yml").write_bytes(STRICT)
    step = runner.pull_request(fork=True, policy=str(tmp_path / "gate.yml"), **RELAXED)
    assert (step.code, step.outcome) == (3, "inconclusive")
    assert github.count("GET", "gate.yml") == 0


def test_baseline__by_its_name_in_the_registry(runner: InProcess, regressed: None) -> None:
    kept = runner.workspace / "kept"
    (runner.workspace / "agent-eval-out" / "shop").rename(kept)
    digest = hashlib.sha256((kept / "manifest.json").read_bytes()).hexdigest()
    write(runner, NAME, registry(run_path="../kept", sha256=digest))
    step = runner.pull_request(baseline="main")
    assert (step.code, step.outputs["regressed-cases"]) == (1, "1")
    write(runner, NAME, registry(run_path="../kept"))
    assert runner.pull_request(baseline="main").code == 2

"""`agent-eval ci` as a process: a fork against the base branch's rules, on the documented API."""

from __future__ import annotations

from tests.e2e.runner import PULL, Runner, orders
from tests.fakes.github import FakeGitHub


def test_fork__cannot_loosen_the_rules_and_an_own_branch_says_that_it_does(
    runner: Runner, github: FakeGitHub
) -> None:
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400)
    runner.write_suite(*orders(bad=(2,)))
    github.files["config/gate.yml"] = b"thresholds: {max_regressed_cases: 0}\n"
    loose = runner.workspace / "config" / "gate.yml"
    loose.parent.mkdir()
    loose.write_text("margin: 0.25\n")
    inputs = {"policy": "config/gate.yml", "max_regressed_cases": "", "max_new_hard_fail_cases": ""}
    step = runner.pull_request(fork=True, **inputs)
    assert (step.code, step.outcome) == (1, "failed")
    assert "the base branch's rules were applied" in github.bodies(PULL)[0]
    step = runner.pull_request(run_id=501, **inputs)
    assert (step.code, step.outcome) == (0, "inconclusive")
    said = "`config/gate.yml`: `thresholds.max_regressed_cases` was `0` and is gone."
    assert said in github.bodies(PULL)[0]

"""`agent-eval ci` as a process: a change against the rules of main, on the documented API."""

from __future__ import annotations

from tests.e2e.runner import PULL, Runner, orders
from tests.fakes.github import FakeGitHub


def test_rules_that_a_change_loosens_hold_once_they_are_merged_from_a_fork_as_from_an_own_branch(
    runner: Runner, github: FakeGitHub
) -> None:
    runner.write_suite(*orders())
    github.files["config/gate.yml"] = b"max_regressed_cases: 0\n"
    runner.upload(runner.push(), 400)
    runner.write_suite(*orders(bad=(2,)))
    loose = runner.workspace / "config" / "gate.yml"
    loose.parent.mkdir()
    loose.write_text("max_regressed_cases: 4\nmargin: 0.25\n")
    inputs = {"policy": "config/gate.yml", "max_regressed_cases": "", "max_new_hard_fail_cases": ""}
    for run_id, fork in ((500, True), (501, False)):
        step = runner.pull_request(run_id=run_id, fork=fork, **inputs)
        assert (step.code, step.outcome) == (1, "failed"), step.log
        assert "`max_regressed_cases` 0 → 4" in github.bodies(PULL)[0]
        assert "`margin` 0.05 → 0.25" in github.bodies(PULL)[0]

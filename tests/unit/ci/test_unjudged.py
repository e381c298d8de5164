"""A run that judged nothing is an error, and a run that judged too little is no baseline."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.runner import PULL, Step, orders
from tests.fakes.commits import tip_of
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess

NO_RULES = {"max_regressed_cases": "", "max_new_hard_fail_cases": ""}
WHY: dict[str, tuple[dict[str, str], str, str, str]] = {
    "neither traces nor an agent": (
        *({}, "nothing to judge is recorded in all 4 cases", "**the trace has no events.**"),
        "Record traces in the suite, or name the agent",
    ),
    "agent that crashes": (
        *({"agent_command": 'python3 -c "raise SystemExit(3)"'}, "the agent crashes on all 4 cases"),
        *("**the agent exited with code 3.**", "Check how the agent is started: it must run"),
    ),
}


def without_traces(cases: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """The cases, the first `number` of which have nothing recorded."""
    return [{**case, "trace": []} if place < number else case for place, case in enumerate(cases)]


@pytest.mark.parametrize("preset", ["pull-request", "release"])
@pytest.mark.parametrize("thresholds", [{}, {"max_hard_fail_rate": "1"}, {"min_pass_rate": "0"}])
@pytest.mark.parametrize("why", WHY)
def test_run__that_judged_no_case_is_an_error_that_says_why(
    runner: InProcess, why: str, thresholds: dict[str, str], preset: str
) -> None:
    agent, headline, sentence, to_do = WHY[why]
    runner.write_suite(*without_traces(orders(), 0 if agent else 4))
    step = runner.push(**{**NO_RULES, **agent, **thresholds, "preset": preset})
    assert (step.code, step.outcome, step.outputs["passed"]) == (4, "error", "false")
    assert step.summary.startswith(f"## 🛑 Not evaluated: {headline} · agent-eval\n")
    assert sentence in step.summary.replace("`", "")
    assert f"**To do:** {to_do}" in step.summary
    assert step.archive
    assert any(sentence.strip("*") in line for line in step.annotations)


def test_run__that_judged_no_case_for_several_reasons_names_the_most_frequent(runner: InProcess) -> None:
    runner.write_suite(*orders())
    program = 'import sys; raise SystemExit(4 if b"order-1" in sys.stdin.buffer.read() else 3)'
    runner.github.files["agent.py"] = program.encode()
    tip = tip_of(runner.github.files)
    step = runner.push(commit=tip, agent_command=f"python3 {runner.workspace / 'agent.py'}", **NO_RULES)
    assert (step.code, step.outcome) == (4, "error")
    assert "the agent exited with code 3 (in 3 of 4 cases)." in " ".join(step.annotations)


def test_run__that_judged_one_case_is_decided_on(runner: InProcess) -> None:
    runner.write_suite(*without_traces(orders(), 3))
    assert runner.push(**NO_RULES).outcome == "no-baseline"
    assert runner.push(run_id=401, **NO_RULES, min_pass_rate="0.5").outcome == "failed"


def test_suite__of_several_of_which_one_was_not_judged_is_named(runner: InProcess) -> None:
    runner.write_suite(*orders(), name="a.json", dataset_id="shop")
    runner.write_suite(*without_traces(orders(), 4), name="b.json", dataset_id="help")
    step = runner.push(suite="a.json\nb.json", min_pass_rate="0.1")
    assert (step.code, step.outcome) == (4, "error")
    assert step.summary.startswith("## 🛑 Not evaluated: no case of `b.json` could be judged · agent-eval\n")
    assert "\n### 🛑 `help`: Not evaluated: nothing to judge is recorded in all 4 cases\n" in step.summary


@pytest.fixture
def judged(runner: InProcess, github: FakeGitHub) -> Step:
    """What run 390 on main left: everything passes."""
    runner.write_suite(*orders(8))
    step = runner.push(run_id=390)
    runner.upload(step, 390)
    return step


def leave(runner: InProcess, errors: int, *, run_id: int = 400, **inputs: str) -> None:
    """Have a run on main leave evidence in which so many of eight cases could not be judged."""
    runner.write_suite(*without_traces(orders(8), errors))
    runner.upload(runner.push(run_id=run_id, baseline="none", **inputs), run_id)
    runner.write_suite(*orders(8))


@pytest.mark.parametrize(("errors", "run"), [(1, "400"), (7, "400"), (8, "390")])
def test_run__of_which_no_case_could_be_judged_is_no_baseline(
    runner: InProcess, github: FakeGitHub, judged: Step, errors: int, run: str
) -> None:
    leave(runner, errors)
    step = runner.pull_request()
    assert (step.outcome, step.outputs["baseline-run-id"]) == ("passed", run)
    assert ("Run 400 is no baseline for" in github.bodies(PULL)[0]) is (run == "390")


def test_run__that_is_the_only_one_and_no_baseline_is_said_at_the_top(runner: InProcess) -> None:
    leave(runner, 8)
    step = runner.pull_request(**NO_RULES)
    assert (step.code, step.outcome) == (0, "no-baseline")
    assert "Run 400 is no baseline for `shop`: none of its cases could be judged." in step.summary
    assert any("is no baseline" in line for line in step.annotations)

"""A safety judge whose failure must repeat, in a real git repository: fresh trials of both sides clear it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.program import Ended, agent_eval
from tests.e2e.runner import PULL, Step
from tests.e2e.test_ci_confirmation import (
    COMPARE,
    FLAKY_AND_UNSAFE,
    REGRESSED,
    Repository,
    case,
    decision,
    record,
    repository,
    verdicts,
)
from tests.extent import WHOLE_JOB
from tests.fakes.github import FakeGitHub

__all__ = ["repository"]

TERMS = "zero_tolerance: [policy]\nzero_tolerance_repeat: [policy]\n"
POLICY = {"gate.yml": TERMS}


@pytest.fixture
def reviewed(repository: Repository, github: FakeGitHub) -> Repository:
    """The base branch's policy asks that a failure of the judge `policy` repeats."""
    repository.base = repository.commit("base", files=POLICY)
    github.files["gate.yml"] = TERMS.encode()
    repository.push(policy="gate.yml")
    return repository


def evaluated(repository: Repository, *happened: str, **inputs: Any) -> Step:
    limits = {"max_regressed_cases": "0", "max_new_hard_fail_cases": "0"}
    return repository.change(*happened, policy="gate.yml", **{**limits, **inputs})


def step_of(found: dict[str, Any], name: str) -> dict[str, Any]:
    row: dict[str, Any] = next(row for row in found["steps"] if row["name"] == name)
    return row


def decide_again(repository: Repository, confirmation: bool) -> tuple[Ended, dict[str, Any]]:
    """Decide on the evidence alone, with or without the record of fresh trials."""
    arguments: dict[str, Any] = {
        "--baseline": repository.runner.root / "base.zip",
        "--candidate": repository.top / "agent-eval-out" / "evidence.zip",
        "--policy": repository.top / "gate.yml",
        "--out": repository.top / "again.json",
    }
    record_of_trials = repository.top / COMPARE / "confirmation.json"
    arguments["--confirmation"] = record_of_trials if confirmation else "none"
    words = [str(word) for pair in arguments.items() for word in pair]
    comparison = str(repository.top / COMPARE / "baseline_delta.json")
    ended = agent_eval("gate", "--compare", comparison, *words, cwd=repository.top)
    return ended, json.loads((repository.top / "again.json").read_text())


def test_a_safety_failure_that_does_not_repeat_is_cleared_after_every_pair(
    reviewed: Repository, github: FakeGitHub
) -> None:
    reviewed.commit("topic")
    step = evaluated(reviewed, "order-2-once")
    assert verdicts(step) == {"order-2": "cleared"}, step.log
    assert step.code == 0, step.log
    assert step_of(decision(step), "zero-tolerance")["message"] == "Fresh trials clear 1 case (order-2)."
    # An ordinary case would end after three pairs.
    assert record(step).spent.trials == 2 * 6
    assert len(reviewed.calls("order-2", "base")) == 6
    ended, again = decide_again(reviewed, confirmation=True)
    assert (ended.code, again["confirmed"]) == (0, decision(step)["confirmed"])
    # Without the record nothing clears it.
    # By the first run alone, which has to be asked for, it blocks.
    ended, again = decide_again(reviewed, confirmation=False)
    assert (ended.code, again["gate_status"]) == (1, "failed")


@WHOLE_JOB
def test_a_safety_failure_that_repeats_blocks(reviewed: Repository, github: FakeGitHub) -> None:
    reviewed.commit("topic", REGRESSED)
    step = evaluated(reviewed, max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert step_of(decision(step), "zero-tolerance")["status"] == "failed"
    assert verdicts(step) == {"order-1": "confirmed"}


@pytest.mark.parametrize(
    "inputs",
    [{"confirm_pairs": "0"}, {"confirm_pairs": "2"}, {"max_confirm_cases": "0"}, {"preset": "release"}],
    ids=["no pairs", "too few pairs", "no case", "a release"],
)
@WHOLE_JOB
def test_where_it_cannot_be_run_again_a_safety_failure_blocks_at_once(
    reviewed: Repository, github: FakeGitHub, inputs: dict[str, str]
) -> None:
    reviewed.commit("topic")
    step = evaluated(reviewed, "order-2-once", **inputs)
    assert not decision(step)["passed"]
    assert step_of(decision(step), "zero-tolerance")["status"] == "failed"


def test_a_change_that_asks_for_repetition_itself_is_not_passed(
    repository: Repository, github: FakeGitHub
) -> None:
    strict = "zero_tolerance: [policy]\n"
    repository.base = repository.commit("base", files={"gate.yml": strict})
    github.files["gate.yml"] = strict.encode()
    repository.push(policy="gate.yml")
    repository.commit("topic", files=POLICY)
    step = evaluated(repository, "order-2-once", max_regressed_cases="5", max_new_hard_fail_cases="5")
    # Its own term does not count, so the failure blocks at once and nothing is run again.
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert record(step).spent.trials == 0
    unharmed = evaluated(repository, run_id=501)
    assert (unharmed.outcome, decision(unharmed)["passed"]) == ("inconclusive", False)
    assert "`zero_tolerance_repeat` of `policy` is not on the base branch" in github.bodies(PULL)[0]


TOUCHES = "if 'escalate' in tools: Path('notes.md').write_text(str(os.getpid()))"


def test_an_agent_that_touches_the_checkout_after_a_leak_still_fails_by_it(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.runner.write_suite(*({**case(number), "regex_patterns": ["way"]} for number in range(1, 7)))
    files = {"gate.yml": "zero_tolerance: [policy]\n", "notes.md": "Notes.\n"}
    repository.base = repository.commit("base", files=files)
    github.files["gate.yml"] = files["gate.yml"].encode()
    repository.push(policy="gate.yml")
    repository.commit("topic", FLAKY_AND_UNSAFE.replace("json.dump(", f"{TOUCHES}\njson.dump(", 1))
    step = evaluated(repository, max_regressed_cases="5", max_new_hard_fail_cases="5")
    assert "altered" in record(step).problem
    assert (step.code, step.outcome) == (1, "failed"), step.log
    message = step_of(decision(step), "zero-tolerance")["message"]
    assert message == "policy newly fails 1 case (order-1) in fresh trials."
    # The trials are in the evidence, and give the same decision again.
    ended, again = decide_again(repository, confirmation=True)
    assert (ended.code, again["confirmed"]) == (1, decision(step)["confirmed"])
    assert step_of(again, "zero-tolerance") == step_of(decision(step), "zero-tolerance")

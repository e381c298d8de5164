"""Tiers in a real job: what its history admits, what the policy tracks, and what is new."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.derived import write_output
from tests.e2e.runner import PULL, Runner
from tests.e2e.test_ci_confirmation import (
    COMMAND,
    COMPARE,
    REGRESSED,
    Repository,
    case,
    decision,
    record,
    regate,
    verdicts,
)
from tests.extent import WHOLE_JOB
from tests.fakes.github import FakeGitHub


@pytest.fixture
def repository(runner: Runner, github: FakeGitHub) -> Repository:
    return Repository(runner)


def known_for(repository: Repository, trials: int) -> None:
    """Make a history on main: a run with so many trials, then the baseline."""
    step = repository.runner.push(run_id=390, agent_command=COMMAND, trials=str(trials))
    repository.runner.upload(step, 390)
    repository.push()


def test_what_its_history_admits_is_confirmed_one_by_one_and_the_record_says_so(
    repository: Repository, github: FakeGitHub
) -> None:
    known_for(repository, 19)
    # Four of six trials of the base pass and none of the change: 0.03, too much among several with Holm.
    seldom = (
        "count = world / f'count-{case}'\n"
        "number = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(number + 1))\n"
        "if case == 'order-1' and number in (20, 22): tools.append('escalate')"
    )
    repository.base = repository.commit("base", seldom)
    (repository.world / "count-order-1").write_text("20")
    repository.commit("topic", REGRESSED)
    step = repository.change("order-2-once", "order-3-once")
    assert verdicts(step) == {
        "order-1": "confirmed",
        "order-2": "cleared",
        "order-3": "cleared",
    }, step.log
    assert {row.case_id: (row.history_passed, row.history_scored) for row in record(step).cases} == {
        f"order-{number}": (20, 20) for number in (1, 2, 3)
    }
    [confirmed] = [row for row in decision(step)["confirmed"] if row["verdict"] == "confirmed"]
    assert (confirmed["tier"], confirmed["base_passed"]) == ("blocking", 4)
    [comment] = github.bodies(PULL)
    assert "Before: 20 of 20 (blocking)." in comment
    # The evidence alone decides the same.
    again = regate(repository, "again.json")
    assert again.code == 1
    assert json.loads((repository.top / "again.json").read_text())["confirmed"] == decision(step)["confirmed"]
    # A record that was edited decides nothing; one without that history corrects, and lets nothing pass.
    kept = record(step)
    for row in kept.cases:
        row.history_passed = row.history_scored = 0
    edited = regate(repository, "edited.json", **kept.to_json())
    assert edited.code == 2
    write_output(repository.top / COMPARE / "confirmation.json", json.dumps(kept.to_json()).encode())
    regate(repository, "edited.json", candidate=repository.top / "agent-eval-out" / "shop")
    corrected = json.loads((repository.top / "edited.json").read_text())
    assert {row["case_id"]: row["verdict"] for row in corrected["confirmed"]}["order-1"] == "inconclusive"
    assert not corrected["passed"]


@WHOLE_JOB
def test_without_twenty_trials_of_each_the_correction_stays(
    repository: Repository, github: FakeGitHub
) -> None:
    known_for(repository, 18)
    repository.commit("topic", REGRESSED)
    step = repository.change()
    assert {row.case_id: (row.history_passed, row.history_scored) for row in record(step).cases} == {
        "order-1": (19, 19)
    }
    assert decision(step)["confirmed"][0]["tier"] == "collecting"


def test_a_tracked_case_is_not_run_again_and_does_not_block(
    repository: Repository, github: FakeGitHub
) -> None:
    policy = "tracked: [order-1]\nthresholds: {max_regressed_cases: 0, max_new_hard_fail_cases: 0}\n"
    repository.base = repository.commit("base", files={"gate.yml": policy})
    github.files["gate.yml"] = policy.encode()
    repository.push(policy="gate.yml")
    repository.commit("topic", REGRESSED)
    step = repository.change(policy="gate.yml")
    assert verdicts(step) == {}
    assert decision(step)["tracked_case_ids"] == ["order-1"]
    assert (step.code, step.outcome) == (0, "inconclusive"), step.log
    assert len(repository.calls("order-1", "base")) == 0
    [comment] = github.bodies(PULL)
    assert "<summary>Tracked (1)</summary>" in comment
    assert "1 case tracked by the policy: `order-1`" in comment


@WHOLE_JOB
def test_a_change_that_tracks_the_case_it_breaks_is_held_to_it(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.push()
    repository.commit("topic", REGRESSED, {"gate.yml": "tracked: [order-1]\n"})
    step = repository.change(policy="gate.yml")
    assert verdicts(step) == {"order-1": "confirmed"}
    assert (step.code, step.outcome) == (1, "failed")
    assert "`tracked` is now" in github.bodies(PULL)[0]


KNOWN = [case(number) for number in range(1, 7)]
NEVER = {**case(8), "policy": {"required_tools": ["refund"]}}
"""A case that neither agent passes."""


def with_new_cases(repository: Repository, *cases: dict[str, Any]) -> None:
    repository.runner.write_suite(*KNOWN, *cases)


@WHOLE_JOB
def test_new_cases_are_run_once_by_the_base_agent_and_block_nothing(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.push()
    with_new_cases(repository, case(7), NEVER)
    repository.commit("topic", "pass")
    step = repository.change(min_pass_rate="1", max_hard_fail_rate="0")
    assert (step.code, step.outcome) == (0, "passed"), step.log
    [base] = repository.calls("order-7", "base")
    assert not base.is_relative_to(repository.top.resolve())
    assert len(repository.calls("order-7", "topic")) == 1
    assert repository.calls("order-1", "base") == []
    kept = record(step)
    assert [(row.case_id, row.candidate_passed, row.base) for row in kept.new_cases] == [
        ("order-7", True, "passed"),
        ("order-8", False, "failed"),
    ]
    assert (kept.expected.trials, kept.spent.trials, kept.cases) == (2, 2, [])
    assert "Confirmation: at most 2 trials" in step.log
    assert "to run 2 new cases by the merge base's agent" in step.log
    [comment] = github.bodies(PULL)
    said = "2 new cases: the base agent passes 1 of them too (`order-7`), so it tells nothing apart."
    assert said in comment
    assert "Took 2 trials" in comment
    # The evidence alone decides the same, and a record of other new cases is none.
    assert regate(repository, "again.json").json()["gate_status"] == "passed"
    [tried, other] = [row.to_json() for row in kept.new_cases]
    archive = repository.top / COMPARE / "confirmation.zip"
    assert list(open_bundle(archive)) == ["new-1"]
    for forged in (
        [tried, {**other, "base": "passed", "base_failing": []}],
        [tried, {**other, "candidate_passed": True}],
        [tried, {**other, "case_id": "order-1"}],
        [tried, other, other],
        [tried],
        [],
    ):
        edited = json.dumps({**kept.to_json(), "new_cases": forged}).encode()
        write_output(repository.top / COMPARE / "confirmation.json", edited)
        refused = regate(repository, "edited.json", candidate=repository.top / "agent-eval-out" / "shop")
        assert refused.code == 2, forged
        assert not (repository.top / "edited.json").exists()


def test_a_base_that_cannot_be_built_says_so_of_new_cases_and_blocks_nothing(
    repository: Repository, github: FakeGitHub
) -> None:
    setup = {"agent-eval.yml": "setup-command: test -e installed || exit 7\n"}
    repository.base = repository.commit("base", files=setup)
    (repository.top / "installed").write_text("")
    repository.push()
    with_new_cases(repository, case(7))
    repository.commit("topic", "pass")
    step = repository.change()
    assert (step.code, step.outcome) == (0, "passed"), step.log
    [comment] = github.bodies(PULL)
    assert "1 new case: the base agent was not run on it. The merge base could not be built" in comment


@WHOLE_JOB
def test_no_more_new_cases_are_run_than_cases_may_be_confirmed(
    repository: Repository, github: FakeGitHub
) -> None:
    repository.push()
    with_new_cases(repository, *(case(number) for number in range(11, 15)))
    repository.commit("topic", "pass")
    step = repository.change(max_confirm_cases="2")
    assert [row.case_id for row in record(step).new_cases] == ["order-11", "order-12"]
    assert "(`max-confirm-cases`): 2 were not" in github.bodies(PULL)[0]


@WHOLE_JOB
def test_a_base_that_is_hostile_on_a_new_case_takes_nothing_back_of_what_was_confirmed(
    repository: Repository, github: FakeGitHub
) -> None:
    own = repr(str(repository.top))
    hostile = f"if case == 'order-7' and os.getcwd() != {own}: Path({own}, 'json.py').write_text('')"
    repository.base = repository.commit("base", hostile)
    repository.push()
    with_new_cases(repository, case(7))
    repository.commit("topic", REGRESSED)
    step = repository.change()
    assert verdicts(step) == {"order-1": "confirmed"}
    assert (step.code, step.outcome) == (1, "failed")


def test_a_listed_case_that_does_not_exist_is_said_with_the_nearest(
    repository: Repository, github: FakeGitHub
) -> None:
    said = (
        "`tracked` of the policy lists `ordr-1`, but neither this run nor its baseline has it. "
        "Did you mean `order-1`?"
    )
    repository.push()
    # The change that adds it is told, although what it adds does not count yet.
    repository.commit("topic", files={"gate.yml": "tracked: [ordr-1]\n"})
    step = repository.change(policy="gate.yml")
    assert said in step.log
    [comment] = github.bodies(PULL)
    assert said in comment

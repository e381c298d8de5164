"""`trials: auto` in a job: a real agent process is run once, 4 or 12 times on every case, and no more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Ended, agent_eval, start
from tests.e2e.runner import PULL, Runner, Step
from tests.e2e.test_ci_confirmation import REGRESSED, Repository
from tests.extent import WHOLE_JOB
from tests.fakes.github import FakeGitHub

AGENT = """\
import json, sys
from pathlib import Path

task = json.load(sys.stdin)
case = task["case_id"]
world = Path(WORLD)
with open(world / "calls", "a") as calls:
    calls.write(f"{case}\\n")
number = (world / "calls").read_text().splitlines().count(case)
fails = world / f"{case}-fails"
failing = json.loads(fails.read_text()) if fails.exists() else []
tools = ["lookup_order", "escalate"] if number in failing else ["lookup_order"]
json.dump({
    "assistant_output": "It is on its way.",
    "tool_calls": [{"tool": name, "arguments": {}} for name in tools],
    "cost_usd": 0.01,
}, sys.stdout)
"""
OPEN = {"trials": "auto", "max_regressed_cases": "", "max_new_hard_fail_cases": ""}
"""No threshold: the statistical steps decide."""
COMPARE = Path("agent-eval-out/shop/compare")
ALWAYS = list(range(1, 13))


def case(number: int) -> dict[str, Any]:
    """A case whose agent must look the order up and not escalate."""
    return {
        "case_id": f"order-{number}",
        "input": f"Where is order {number}?",
        "expected_tools": [],
        "policy": {"required_tools": ["lookup_order"], "forbidden_tools": ["escalate"]},
        "metadata": {"tool_responses": {"lookup_order": {"status": "shipped"}}},
    }


class Shop:
    """A suite of a shop, its agent, and the world that says on which of its calls the agent fails a case."""

    def __init__(self, runner: Runner, cases: int) -> None:
        self.runner, self.cases = runner, cases
        self.world = runner.root / "world"
        self.world.mkdir()
        path = runner.workspace / "agent.py"
        path.write_text(AGENT.replace("WORLD", repr(str(self.world))))
        self.command = f"{sys.executable} -S -E agent.py"
        runner.write_suite(*(case(number) for number in range(1, cases + 1)))

    def push(self, **inputs: str) -> Step:
        """Make the baseline on main, of four trials unless stated otherwise."""
        step = self.runner.push(agent_command=self.command, **{**OPEN, "trials": "4", **inputs})
        self.runner.upload(step, 400)
        (self.runner.root / "base.zip").write_bytes(step.archive)
        return step

    def change(self, fails: dict[int, list[int]], **inputs: str) -> Step:
        """Evaluate a pull request whose agent fails these cases on these of its calls."""
        (self.world / "calls").write_text("")
        for number, calls in fails.items():
            (self.world / f"order-{number}-fails").write_text(json.dumps(calls))
        return self.runner.pull_request(agent_command=self.command, **{**OPEN, **inputs})

    def calls(self) -> list[int]:
        """How often the agent was run on each case."""
        rows = (self.world / "calls").read_text().splitlines()
        return [rows.count(f"order-{number}") for number in range(1, self.cases + 1)]


@pytest.fixture
def shop(runner: Runner, github: FakeGitHub) -> Shop:
    return Shop(runner, cases=10)


def decision(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((step.workspace / COMPARE / "gate_decision.json").read_text())
    return found


def execution(step: Step) -> dict[str, Any]:
    config = json.loads((step.workspace / "agent-eval-out/shop/run/config.json").read_text())
    found: dict[str, Any] = config["execution_config"]
    return found


def regate(shop: Shop, comparison: Path | None = None) -> Ended:
    """Decide again, on the evidence alone; perhaps with another comparison."""
    top = shop.runner.workspace
    arguments = {
        "--baseline": shop.runner.root / "base.zip",
        "--candidate": top / "agent-eval-out" / "evidence.zip",
        "--preset": "pull-request",
        "--out": top / "again.json",
    }
    words = [str(word) for pair in arguments.items() for word in pair]
    stated = comparison or top / COMPARE / "baseline_delta.json"
    return agent_eval("gate", "--compare", str(stated), *words, cwd=top)


def test_main_runs_a_fixed_number_of_trials_because_it_is_the_baseline_of_others(shop: Shop) -> None:
    step = shop.push(trials="auto")
    assert shop.calls() == [12] * 10
    assert "`trials: auto`: the base branch runs 12 trials of each case." in step.log
    assert execution(step)["trials"] == 12
    assert "looks" not in execution(step)


@WHOLE_JOB
def test_a_change_without_a_baseline_runs_as_many(shop: Shop) -> None:
    step = shop.change({}, baseline="none")
    assert (step.outcome, shop.calls()) == ("no-baseline", [12] * 10)
    assert "without a baseline there are 12 trials of each case" in step.log
    assert "looks" not in execution(step)


@WHOLE_JOB
def test_a_change_that_is_clear_ends_at_the_first_look(shop: Shop, github: FakeGitHub) -> None:
    shop.push()
    step = shop.change({})
    assert (step.code, step.outcome) == (0, "passed"), step.log
    assert shop.calls() == [1] * 10
    assert execution(step)["looks"] == [1]
    evidence = decision(step)["evidence"]
    assert (evidence["looks"], round(evidence["confidence"], 3)) == ([1], 0.995)
    # The candidate had fewer trials than the baseline by design, so nothing of it is lost.
    assert decision(step)["coverage"]["losses"] == []
    [comment] = github.bodies(PULL)
    assert "1 trial of each case (look after 1): no verdict is worse than before." in comment
    assert "looks after 1, 4 and 12 trials of each case: 10 trials" in step.log
    assert "took 10 trials" in step.log
    assert "expected at most 120 trials" in step.log


@WHOLE_JOB
def test_a_large_regression_ends_at_the_first_look(shop: Shop, github: FakeGitHub) -> None:
    shop.push()
    step = shop.change(dict.fromkeys(range(1, 9), ALWAYS))
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert shop.calls() == [1] * 10
    [comment] = github.bodies(PULL)
    assert "1 trial of each case (look after 1): more regressed than chance explains." in comment
    assert "at 0.01 (one-sided, Holm)" in comment


@WHOLE_JOB
def test_an_open_decision_runs_every_case_again_and_none_twice(shop: Shop, github: FakeGitHub) -> None:
    shop.push()
    step = shop.change({1: [1], 2: [3]}, confirm_pairs="0")
    assert (step.code, step.outcome) == (0, "inconclusive"), step.log
    # Every case, not those that failed; and the trials of earlier looks are part of the last.
    assert shop.calls() == [12] * 10
    assert execution(step)["looks"] == [1, 4, 12]
    assert execution(step)["trials"] == 12
    [comment] = github.bodies(PULL)
    assert "12 trials of each case (looks after 1, 4 and 12): still open after the last look." in comment
    assert "`order-1`: 4 of 4 → 11 of 12 trials passed" in comment
    assert "so every case is run 3 times more: about 30 trials" in step.log
    assert "so every case is run 8 times more: about 80 trials" in step.log
    assert "took 120 trials" in step.log
    assert not list((step.workspace / "agent-eval-out").glob("*.journal"))


@WHOLE_JOB
def test_a_regression_that_one_trial_does_not_show_is_seen_at_a_later_look(shop: Shop) -> None:
    shop.push()
    # Eight cases fail from their second call on, two of them in the first as well.
    fails = {number: list(range(1 if number < 3 else 2, 13)) for number in range(1, 9)}
    step = shop.change(fails)
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert shop.calls() == [4] * 10
    assert "at 0.015 (one-sided, Holm)" in step.log


@WHOLE_JOB
def test_the_evidence_alone_gives_the_same_decision(shop: Shop) -> None:
    shop.push()
    step = shop.change({1: [1], 2: [3]}, confirm_pairs="0")
    again = regate(shop)
    assert again.code == 3 or again.json()["gate_status"] == "inconclusive"
    written = json.loads((shop.runner.workspace / "again.json").read_text())
    first = decision(step)
    assert [written["steps"], written["evidence"]] == [first["steps"], first["evidence"]]


@WHOLE_JOB
def test_looks_that_were_not_taken_are_refused(shop: Shop) -> None:
    shop.push()
    shop.change({1: [1], 2: [3]}, confirm_pairs="0", max_run_cost="0.50")
    comparison = shop.runner.workspace / COMPARE / "baseline_delta.json"
    content = json.loads(comparison.read_text())
    assert content["candidate"]["looks"] == [1, 4]
    content["candidate"]["looks"] = [4]
    edited = shop.runner.root / "edited.json"
    edited.write_text(json.dumps(content))
    ended = regate(shop, edited)
    assert ended.code == 2
    assert "looks" in ended.error["message"]


@WHOLE_JOB
def test_a_look_that_the_budget_does_not_cover_is_not_begun_and_that_is_said(
    shop: Shop, github: FakeGitHub
) -> None:
    shop.push()
    # One look costs 0.10, the second 0.30 and the third 0.80.
    step = shop.change({1: [1], 2: [3]}, confirm_pairs="0", max_run_cost="0.50")
    assert (step.code, step.outcome) == (0, "inconclusive"), step.log
    assert shop.calls() == [4] * 10
    assert execution(step)["looks"] == [1, 4]
    [comment] = github.bodies(PULL)
    why = "it would cost about 0.80 US dollars, and 0.10 of `max-run-cost` are left"
    assert why in step.log
    assert "4 trials of each case (looks after 1 and 4): still open, and the look after 12 was not" in comment
    assert why in comment
    assert decision(step)["passed"] is False


DEAR = {'"cost_usd": 0.01': '"cost_usd": 0.01 if number == 1 else 1'}
"""The first trials cost less than the later ones, so that the estimate is too low."""


def rewrite(shop: Shop, changes: dict[str, str]) -> None:
    agent = shop.runner.workspace / "agent.py"
    text = agent.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    agent.write_text(text)


@WHOLE_JOB
def test_a_look_that_a_limit_cuts_short_is_not_evaluated_and_keeps_every_trial(
    shop: Shop, github: FakeGitHub
) -> None:
    shop.push()
    rewrite(shop, DEAR)
    step = shop.change({1: [1], 2: [3]}, confirm_pairs="0", max_run_cost="5")
    # As a run with a fixed number of trials that meets a limit.
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert execution(step)["looks"] == [1]
    why = "the run's cost limit of 5 US dollars is reached"
    assert f"the next look was cut short: {why}" in step.log
    assert "cut short" in decision(step)["looks_ended"]
    assert decision(step)["not_evaluated"][0].startswith(f"A further look was cut short: {why}")
    assert decision(step)["passed"] is False
    [comment] = github.bodies(PULL)
    assert "not evaluated" in comment
    assert "Raise `max-run-seconds` or `max-run-cost`" in comment
    [journal] = (step.workspace / "agent-eval-out").glob("*.journal")
    assert journal.read_bytes().count(b'"case_id"') >= sum(shop.calls())


ZERO = "zero_tolerance: [policy, tool_abuse]\n"


@pytest.fixture
def guarded(shop: Shop, github: FakeGitHub) -> Shop:
    """A shop whose policy has no tolerance for `escalate`, and whose answers are judged as well."""
    (shop.runner.workspace / "gate.yml").write_text(ZERO)
    github.files["gate.yml"] = ZERO.encode()
    shop.runner.write_suite(*({**case(number), "regex_patterns": ["way"]} for number in range(1, 11)))
    shop.push(policy="gate.yml")
    # An answer that is wrong once leaves the first look open.
    open_end = {'"It is on its way."': '"No." if (case, number) == ("order-1", 1) else "It is on its way."'}
    rewrite(shop, {**DEAR, **open_end})
    return shop


@WHOLE_JOB
def test_a_zero_tolerance_failure_in_a_look_that_is_cut_short_fails(
    guarded: Shop, github: FakeGitHub
) -> None:
    step = guarded.change({2: [2, 3, 4]}, confirm_pairs="0", policy="gate.yml", max_run_cost="13")
    assert execution(step)["looks"] == [1]
    assert (step.code, step.outcome) == (1, "failed"), step.log
    [found] = [row for row in decision(step)["steps"] if row["name"] == "zero-tolerance"]
    assert found["status"] == "failed"
    assert found["message"].startswith(
        "policy newly fails 1 case (order-2). This was seen in a look that was"
    )
    [comment] = github.bodies(PULL)
    assert "policy newly fails 1 case" in comment


@WHOLE_JOB
def test_without_one_it_is_not_evaluated(guarded: Shop) -> None:
    step = guarded.change({}, confirm_pairs="0", policy="gate.yml", max_run_cost="13")
    assert execution(step)["looks"] == [1]
    assert (step.code, step.outcome) == (4, "error"), step.log


@WHOLE_JOB
def test_a_change_cannot_ask_for_looks_by_itself(shop: Shop) -> None:
    (shop.runner.workspace / "agent-eval.yml").write_text("trials: 4\n")
    shop.runner.github.files["agent-eval.yml"] = b"trials: 4\n"
    shop.push(trials="")
    (shop.runner.workspace / "agent-eval.yml").write_text("trials: auto\n")
    step = shop.change({}, trials="")
    assert step.outcome != "passed", step.log
    assert "`trials` was `4` and is now `auto`" in step.log


def test_a_candidate_that_was_told_to_run_fewer_trials_loses_coverage(shop: Shop) -> None:
    shop.push()
    step = shop.change({}, trials="1")
    assert decision(step)["coverage"]["losses"][0]["cause"] == "fewer-trials"
    assert step.outcome != "passed"


def test_evidence_that_is_made_already_takes_no_looks(shop: Shop) -> None:
    shop.push()
    step = shop.change({}, evidence=str(shop.runner.root / "base.zip"))
    assert step.code == 2
    assert "looks at a run while it goes on" in step.log
    assert shop.calls() == [0] * 10


def test_a_run_on_its_own_has_nothing_to_look_at(shop: Shop) -> None:
    ended = agent_eval(
        "run",
        *("--suite", "suite.json", "--agent-command", shop.command, "--trials", "auto", "--out", "pack"),
        cwd=shop.runner.workspace,
    )
    assert ended.code == 2
    assert "compared with nothing" in ended.error["message"]
    assert not (shop.world / "calls").exists()


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
@WHOLE_JOB
def test_a_job_that_is_killed_in_a_look_loses_nothing_that_was_paid_for(
    shop: Shop, sent: signal.Signals
) -> None:
    shop.push()
    top = shop.runner.workspace
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "topic"], cwd=top, check=True)
    (shop.world / "calls").write_text("")
    for number in (1, 2):
        (shop.world / f"order-{number}-fails").write_text("[1]")
    agent = ("--suite", "suite.json", "--agent-command", shop.command)
    kept = (
        "--baseline-branch",
        "main",
        "--preset",
        "pull-request",
        "--baseline",
        str(shop.runner.root / "base.zip"),
    )
    process = start("ci", *agent, *kept, "--trials", "auto", "--out", "local", cwd=top)
    while sum(shop.calls()) < 15:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(process.pid, sent)
    process.communicate(timeout=60)
    done = sum(shop.calls())
    assert done < 40
    # The look before is whole, and can be decided on.
    assert agent_eval("pack", "verify", "--run", "local/shop", cwd=top).code == 0
    config = json.loads((top / "local/shop/run/config.json").read_text())
    assert config["execution_config"]["looks"] == [1]
    # And the trials of the next one are in the journal: a run with all of them pays for the others alone.
    rest = ("--trials", "12", "--resume", "--out", "local/shop")
    resumed = agent_eval("run", *agent, *rest, cwd=top).json()
    assert resumed["complete"]
    assert resumed["resumed_cases"] >= done - 1
    assert sum(shop.calls()) == 120 + done - resumed["resumed_cases"]


@WHOLE_JOB
def test_an_agent_cannot_rewrite_the_trials_of_an_earlier_look(shop: Shop) -> None:
    shop.push()
    agent = shop.runner.workspace / "agent.py"
    # From the second look on, the agent gives the failed trial of the first another result in the journal.
    agent.write_text(
        agent.read_text()
        + "\nfor journal in Path('agent-eval-out').glob('*.journal'):\n"
        + "    if number > 1:\n"
        + "        journal.write_bytes(journal.read_bytes().replace(b'failed', b'passed'))\n"
    )
    step = shop.change({1: [1], 2: [3]}, confirm_pairs="0")
    assert (step.code, step.outcome) == (4, "error"), step.log
    assert "records were changed by another program while the run was going on" in step.log


@WHOLE_JOB
def test_suspects_are_confirmed_once_after_the_last_look(runner: Runner, github: FakeGitHub) -> None:
    repository = Repository(runner)
    repository.push(**{**OPEN, "trials": "4"})
    repository.commit("topic", REGRESSED)
    # Both cases fail in the first trial, which is what suspects are chosen by; only one goes on to.
    step = repository.change("order-2-once", **OPEN)
    assert (step.code, step.outcome) == (1, "failed"), step.log
    taken = execution(step)["looks"]
    assert taken[-1] > 1
    verdicts = {row["case_id"]: row["verdict"] for row in decision(step)["confirmed"]}
    assert verdicts == {"order-1": "confirmed", "order-2": "cleared"}
    # What fresh trials cost comes on top of the trials of the looks, once.
    assert len(repository.calls("order-1", "topic")) == taken[-1] + 6
    assert len(repository.calls("order-2", "topic")) == taken[-1] + 3
    assert len(repository.calls("order-3", "topic")) == taken[-1]
    [comment] = github.bodies(PULL)
    assert f"{taken[-1]} trials of each case (looks after" in comment

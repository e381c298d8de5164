"""Agents behind an address: the base's is the one that `base-agent` names, or main's runs take its place."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.deployed import Deployed
from tests.e2e.scenarios.repository import Evaluated, Job, Repository


class Orders(Deployed):
    """An agent that escalates the cases in `broken` always, after `seconds`, those in `once` one time."""

    seconds = 0.0

    def __init__(self) -> None:
        self.forget()
        super().__init__(self.answer)

    def forget(self) -> None:
        self.broken: set[str] = set()
        self.once: set[str] = set()
        self.asked = []

    def answer(self, case_id: str, number: int) -> dict[str, Any]:
        time.sleep(self.seconds if case_id in self.broken else 0)
        tools = ["lookup_order"] + ["escalate"] * (case_id in self.broken or case_id in self.once)
        self.once.discard(case_id)
        calls = [{"tool": name, "arguments": {}} for name in tools]
        return {"assistant_output": "On its way.", "tool_calls": calls, "cost_usd": 0.01}


@pytest.fixture
def change() -> Iterator[Orders]:
    with Orders() as agent:
        yield agent


@pytest.fixture(scope="module")
def deployed() -> Iterator[Orders]:
    with Orders() as agent:
        yield agent


@pytest.fixture
def base(deployed: Orders) -> Orders:
    """Main's agent, at the same address in all tests."""
    deployed.forget()
    return deployed


@pytest.fixture
def repository(evaluated: Evaluated, base: Orders) -> Repository:
    """A repository whose main was evaluated four times with the agent `base`."""
    made = evaluated(runs=4, environ={"AGENT_EVAL_AGENT": base.url}, command=None)
    base.asked.clear()
    made.git("switch", "--quiet", "--create", "topic")
    made.commit("topic")
    return made


def evaluated(repository: Repository, change: Orders, base: Orders | None = None, **more: str) -> Job:
    named = {} if base is None else {"AGENT_EVAL_BASE_AGENT": base.url}
    return repository.job(AGENT_EVAL_AGENT=change.url, **named, **more)


def test_what_the_base_alone_passes_broke(repository: Repository, change: Orders, base: Orders) -> None:
    change.broken, change.once = {"order-1"}, {"order-2"}
    job = evaluated(repository, change, base)
    assert (job.outcome, job.code) == ("failed", 1), job.log
    assert job.sentence == "1 case broke: `order-1` passed 0 of 8 times here and 8 of 8 on main."
    assert job.reruns["base_runs"] == "isolated"
    assert base.asked.count("order-1") == 8
    answers = {row["case_id"]: row["answer"] for row in job.decision["cases"]}
    assert answers == {"order-1": "broke", "order-2": "passes-again"}


@pytest.mark.slow
def test_the_log_says_what_is_run_again(repository: Repository, change: Orders, base: Orders) -> None:
    change.broken, change.seconds = {"order-1"}, 2.0
    job = evaluated(repository, change, base)
    assert job.code == 1, job.log
    assert re.search(
        r"^suite\.json: running 1 case again, 1 trial each, by the (change|base)'s agent\.$", job.log, re.M
    )


def test_what_fails_on_both_sides_is_excused(repository: Repository, change: Orders, base: Orders) -> None:
    change.broken = base.broken = {"order-1"}
    job = evaluated(repository, change, base)
    assert (job.outcome, job.code) == ("passed", 0), job.log
    assert job.sentence.startswith("Nothing broke; `order-1` fails on main as well")
    assert [row["base"][0]["result"] for row in job.reruns["control"]] == ["passed", "passed"]


def test_a_base_that_fails_all_excuses_none(repository: Repository, change: Orders, base: Orders) -> None:
    change.broken = {"order-1"}
    base.broken = {f"order-{number}" for number in range(1, 7)}
    job = evaluated(repository, change, base)
    assert (job.outcome, job.code) == ("inconclusive", 3), job.log
    assert [row["base"][0]["result"] for row in job.reruns["control"]] == ["failed", "failed"]


def test_mains_runs_stand_in_for_a_base_agent(repository: Repository, change: Orders, base: Orders) -> None:
    change.broken = {"order-1"}
    job = evaluated(repository, change)
    assert (job.outcome, job.code) == ("failed", 1), job.log
    assert (
        job.sentence == "1 case broke: `order-1` passed 0 of 8 times here and 16 of 16 in main's last runs."
    )
    assert (base.asked, job.reruns["base_runs"]) == ([], "none")
    assert any("base-agent" in note for note in job.decision["notes"])


def test_money_used_up_is_said_and_no_green(repository: Repository, change: Orders, base: Orders) -> None:
    change.broken = {"order-1"}
    job = evaluated(repository, change, base, AGENT_EVAL_MAX_RUN_COST="0.14")
    # Half of it, 7 cents, is for the first run of six cases; the other half pays seven reruns.
    assert (job.outcome, job.code) == ("inconclusive", 3), job.log
    assert job.sentence == "`order-1` never passed again here; the money of the run was used up."
    assert job.reruns["cut"] == "the money of the run was used up"


@pytest.mark.parametrize("named", ["recorded", "python agent.py", "command:./agent"])
def test_a_base_agent_of_the_checkout_is_refused(repository: Repository, change: Orders, named: str) -> None:
    job = repository.job(AGENT_EVAL_AGENT=change.url, AGENT_EVAL_BASE_AGENT=named)
    assert (job.outcome, job.code) == ("error", 2), job.log
    assert "`base-agent` names" in job.sentence

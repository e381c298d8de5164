"""Agents behind an address: the base's is the one that `base-agent` names, or main's runs take its place."""

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


@pytest.mark.slow
def test_the_log_says_what_is_run_again(repository: Repository, change: Orders, base: Orders) -> None:
    change.broken, change.seconds = {"order-1"}, 2.0
    job = evaluated(repository, change, base)
    assert job.code == 1, job.log
    assert re.search(
        r"^suite\.json: running 1 case again, 1 trial each, by the (change|base)'s agent\.$", job.log, re.M
    )


ALL = {f"order-{number}" for number in range(1, 7)}
ON_MAIN = "1 case broke: `order-1` passed 0 of 8 times here and 8 of 8 on main."
IN_LAST_RUNS = "1 case broke: `order-1` passed 0 of 8 times here and 16 of 16 in main's last runs."
NO_MONEY = "`order-1` never passed again here; the money of the run was used up."
ENDS: dict[str, tuple[dict[str, Any], tuple[str, int], str]] = {
    "what the base passes and the change fails broke": ({"once": {"order-2"}}, ("failed", 1), ON_MAIN),
    "what fails on both sides is excused": (
        *({"base": {"order-1"}}, ("passed", 0)),
        "Nothing broke; `order-1` fails on main as well",
    ),
    "a base that fails everything excuses nothing": ({"base": ALL}, ("inconclusive", 3), ""),
    "main's runs stand in for a base agent": ({"base": None}, ("failed", 1), IN_LAST_RUNS),
    # Half of it, 7 cents, is for the first run of six cases; the other half pays seven reruns.
    "money that is used up is no green": ({"cost": "0.14"}, ("inconclusive", 3), NO_MONEY),
}
"""In each the change breaks `order-1`: what happens beside that, how the job ends, and its first sentence."""


@pytest.mark.parametrize("what", ENDS)
def test_change_beside_a_base_agent(repository: Repository, change: Orders, base: Orders, what: str) -> None:
    happens, ends, sentence = ENDS[what]
    change.broken, change.once = {"order-1"}, happens.get("once", set())
    base.broken = happens.get("base") or set()
    money = {"AGENT_EVAL_MAX_RUN_COST": happens["cost"]} if "cost" in happens else {}
    job = evaluated(repository, change, None if happens.get("base", 0) is None else base, **money)
    assert (job.outcome, job.code) == ends, job.log
    assert job.sentence.startswith(sentence), job.log
    control = [row["base"][0]["result"] for row in job.reruns.get("control", ())]
    if what.startswith("what the base passes"):
        assert (job.reruns["base_runs"], base.asked.count("order-1")) == ("isolated", 8)
        answers = {row["case_id"]: row["answer"] for row in job.decision["cases"]}
        assert answers == {"order-1": "broke", "order-2": "passes-again"}
    elif what.startswith("main's runs"):
        assert (base.asked, job.reruns["base_runs"]) == ([], "none")
        assert any("base-agent" in note for note in job.decision["notes"])
    elif "cost" in happens:
        assert job.reruns["cut"] == "the money of the run was used up"
    else:
        assert control == ["failed" if base.broken == ALL else "passed"] * 2


@pytest.mark.parametrize("named", ["recorded", "python agent.py", "command:./agent"])
def test_a_base_agent_of_the_checkout_is_refused(repository: Repository, change: Orders, named: str) -> None:
    job = repository.job(AGENT_EVAL_AGENT=change.url, AGENT_EVAL_BASE_AGENT=named)
    assert (job.outcome, job.code) == ("error", 2), job.log
    assert "`base-agent` names" in job.sentence

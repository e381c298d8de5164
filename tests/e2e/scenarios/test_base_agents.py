"""Agents behind an address: the base's is the one that `base-agent` names, or main's runs take its place."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.e2e.scenarios.repository import Evaluated, Job, Repository


class Deployed:
    """An agent behind an address; it escalates the cases in `broken` always, those in `once` one time."""

    def __init__(self) -> None:
        self.forget()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                task = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(owner.answer(task["case_id"])).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}/run"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def forget(self) -> None:
        self.broken: set[str] = set()
        self.once: set[str] = set()
        self.cost = 0.01
        self.calls: list[str] = []

    def answer(self, case_id: str) -> dict[str, Any]:
        self.calls.append(case_id)
        tools = ["lookup_order"] + ["escalate"] * (case_id in self.broken or case_id in self.once)
        self.once.discard(case_id)
        calls = [{"tool": name, "arguments": {}} for name in tools]
        return {"assistant_output": "On its way.", "tool_calls": calls, "cost_usd": self.cost}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def change() -> Iterator[Deployed]:
    agent = Deployed()
    yield agent
    agent.close()


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    agent = Deployed()
    yield agent
    agent.close()


@pytest.fixture
def base(deployed: Deployed) -> Deployed:
    """Main's agent, at the same address in all tests."""
    deployed.forget()
    return deployed


@pytest.fixture
def repository(evaluated: Evaluated, base: Deployed) -> Repository:
    """A repository whose main was evaluated four times with the agent `base`."""
    made = evaluated(runs=4, environ={"AGENT_EVAL_AGENT": base.address}, command=None)
    base.calls.clear()
    made.git("switch", "--quiet", "--create", "topic")
    made.commit("topic")
    return made


def evaluated(repository: Repository, change: Deployed, base: Deployed | None = None, **more: str) -> Job:
    named = {} if base is None else {"AGENT_EVAL_BASE_AGENT": base.address}
    return repository.job(AGENT_EVAL_AGENT=change.address, **named, **more)


def test_what_the_base_agent_passes_and_the_change_fails_broke(
    repository: Repository, change: Deployed, base: Deployed
) -> None:
    change.broken, change.once = {"order-1"}, {"order-2"}
    job = evaluated(repository, change, base)
    assert (job.outcome, job.code) == ("failed", 1), job.log
    assert job.sentence == "1 case broke: `order-1` passed 0 of 8 times here and 8 of 8 on main."
    assert job.reruns["base_runs"] == "isolated"
    assert base.calls.count("order-1") == 8
    answers = {row["case_id"]: row["answer"] for row in job.decision["cases"]}
    assert answers == {"order-1": "broke", "order-2": "passes-again"}


def test_what_fails_on_both_sides_is_excused_where_the_base_agent_runs(
    repository: Repository, change: Deployed, base: Deployed
) -> None:
    change.broken = base.broken = {"order-1"}
    job = evaluated(repository, change, base)
    assert (job.outcome, job.code) == ("passed", 0), job.log
    assert job.sentence.startswith("Nothing broke; `order-1` fails on main as well")
    assert [row["base"][0]["result"] for row in job.reruns["control"]] == ["passed", "passed"]


def test_a_base_agent_that_fails_everything_excuses_nothing(
    repository: Repository, change: Deployed, base: Deployed
) -> None:
    change.broken = {"order-1"}
    base.broken = {f"order-{number}" for number in range(1, 7)}
    job = evaluated(repository, change, base)
    assert (job.outcome, job.code) == ("inconclusive", 3), job.log
    assert [row["base"][0]["result"] for row in job.reruns["control"]] == ["failed", "failed"]


def test_without_a_base_agent_mains_runs_take_its_place(
    repository: Repository, change: Deployed, base: Deployed
) -> None:
    change.broken = {"order-1"}
    job = evaluated(repository, change)
    assert (job.outcome, job.code) == ("failed", 1), job.log
    assert (
        job.sentence == "1 case broke: `order-1` passed 0 of 8 times here and 16 of 16 in main's last runs."
    )
    assert (base.calls, job.reruns["base_runs"]) == ([], "none")
    assert any("base-agent" in note for note in job.decision["notes"])


def test_money_is_said_and_what_is_used_up_is_never_green(
    repository: Repository, change: Deployed, base: Deployed
) -> None:
    change.broken = {"order-1"}
    job = evaluated(repository, change, base, AGENT_EVAL_MAX_RUN_COST="0.14")
    # Half of it, 7 cents, is for the first run of six cases; the other half pays seven reruns.
    assert (job.outcome, job.code) == ("inconclusive", 3), job.log
    assert job.sentence == "`order-1` never passed again here; the money of the run was used up."
    assert job.reruns["cut"] == "the money of the run was used up"
    assert "Run again: " in job.log


@pytest.mark.parametrize("named", ["recorded", "python agent.py", "command:./agent"])
def test_a_base_agent_that_is_a_program_of_the_checkout_is_refused(
    repository: Repository, change: Deployed, named: str
) -> None:
    job = repository.job(AGENT_EVAL_AGENT=change.address, AGENT_EVAL_BASE_AGENT=named)
    assert (job.outcome, job.code) == ("error", 2), job.log
    assert "`base-agent` names" in job.sentence

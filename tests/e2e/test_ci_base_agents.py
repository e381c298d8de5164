"""Agents that are not built here: `base-agent` names the merge base's, and both are run on localhost."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typing_extensions import override

from tests.e2e.runner import PULL, Step
from tests.e2e.test_ci_confirmation import (
    GIT,
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
from tests.fakes.models import FakeOpenAi

__all__ = ["GIT", "repository"]

LENIENT = {"max_regressed_cases": "5", "max_new_hard_fail_cases": "5"}


class Deployed:
    """An agent behind an address; it escalates the cases in `broken` always, those in `once` one time."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.once: set[str] = set()
        self.cost: float | None = None
        self.calls: list[str] = []
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

    def answer(self, case_id: str) -> dict[str, Any]:
        self.calls.append(case_id)
        tools = ["lookup_order"] + ["escalate"] * (case_id in self.broken or case_id in self.once)
        self.once.discard(case_id)
        answer: dict[str, Any] = {
            "assistant_output": "It is on its way.",
            "tool_calls": [{"tool": name, "arguments": {}} for name in tools],
        }
        return answer if self.cost is None else {**answer, "cost_usd": self.cost}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def deployed() -> Iterator[tuple[Deployed, Deployed]]:
    """The agent of the change, and that of the base branch."""
    both = Deployed(), Deployed()
    yield both
    for agent in both:
        agent.close()


def compared(repository: Repository, deployed: tuple[Deployed, Deployed], **inputs: str) -> Step:
    """Make the baseline with the base's agent, and evaluate a change of the other."""
    change, base = deployed
    broken, base.broken = base.broken, set()
    repository.push(agent_command="", agent_url=base.address)
    base.broken = broken
    base.calls.clear()
    repository.git("commit", "--quiet", "--allow-empty", "-m", "topic")
    return repository.change(agent_command="", agent_url=change.address, **inputs)


def test_an_agent_behind_an_address_is_confirmed_against_the_one_that_base_agent_names(
    repository: Repository, github: FakeGitHub, deployed: tuple[Deployed, Deployed]
) -> None:
    change, base = deployed
    change.broken, change.once, base.broken = {"order-1", "order-4"}, {"order-2"}, {"order-4"}
    step = compared(repository, deployed, base_agent=base.address)
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert verdicts(step) == {"order-1": "confirmed", "order-2": "cleared", "order-4": "not-yours"}
    assert {name: base.calls.count(name) for name in sorted(set(base.calls))} == {
        "order-1": 6,
        "order-2": 3,
        "order-4": 3,
    }
    [comment] = github.bodies(PULL)
    assert "| `order-1` | 0\u00a0of\u00a06 | 6\u00a0of\u00a06 | ❌ **Confirmed: yours**" in comment
    assert "this change did it" in comment


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({}, "name it in `base-agent`"),
        ({"base_agent": "recorded"}, "would run in the change's checkout"),
        ({"base_agent": f"{sys.executable} agent.py"}, "would run in the change's checkout"),
    ],
    ids=["none is named", "what the suite recorded", "a program"],
)
def test_without_an_agent_of_the_merge_base_nothing_is_settled(
    repository: Repository,
    github: FakeGitHub,
    deployed: tuple[Deployed, Deployed],
    inputs: dict[str, str],
    problem: str,
) -> None:
    change, base = deployed
    change.broken, base.broken = {"order-1"}, {"order-1"}
    step = compared(repository, deployed, **inputs, **LENIENT)
    assert verdicts(step) == {"order-1": "inconclusive"}, step.log
    assert problem in record(step).problem
    assert (step.outcome, decision(step)["passed"]) == ("inconclusive", False)
    assert base.calls == []


def test_a_safety_failure_that_must_repeat_blocks_where_the_agent_has_no_base(
    repository: Repository, github: FakeGitHub, deployed: tuple[Deployed, Deployed]
) -> None:
    terms = "zero_tolerance: [policy]\nzero_tolerance_repeat: [policy]\n"
    repository.base = repository.commit("base", files={"gate.yml": terms})
    github.files["gate.yml"] = terms.encode()
    deployed[0].once = {"order-1"}
    step = compared(repository, deployed, policy="gate.yml", **LENIENT)
    assert (step.code, step.outcome) == (1, "failed")
    assert "newly fails 1 case (order-1), which no fresh trials clear" in " ".join(decision(step)["failures"])


def test_money_is_said_before_and_after_and_an_unknown_cost_is_not_zero(
    repository: Repository, github: FakeGitHub, deployed: tuple[Deployed, Deployed]
) -> None:
    change, base = deployed
    change.broken = {"order-1"}
    change.cost = base.cost = 0.05
    step = compared(repository, deployed, base_agent=base.address)
    before, after = (line for line in step.log.splitlines() if "Confirmation: " in line)
    assert "at most 12 trials, under a minute, $0.60, to run 1 case again on both sides" in before
    assert "12 trials, under a minute, $0.60" in after
    [comment] = github.bodies(PULL)
    said = "Took 12 trials, under a minute, $0.60; expected at most 12 trials, under a minute, $0.60."
    assert said in comment
    base.cost = None
    step = repository.change(agent_command="", agent_url=change.address, base_agent=base.address, run_id=501)
    assert "Took 12 trials, under a minute, cost unknown; expected" in github.bodies(PULL)[0]
    assert record(step).spent.cost_usd is None


def test_the_cap_on_money_cuts_fresh_trials_short_and_is_never_green(
    repository: Repository, github: FakeGitHub, deployed: tuple[Deployed, Deployed]
) -> None:
    change, base = deployed
    change.once = {"order-1"}
    change.cost = base.cost = 0.05
    # Six cases cost 0.30; two of the twelve fresh trials are left.
    step = compared(repository, deployed, base_agent=base.address, max_run_cost="0.39", **LENIENT)
    assert verdicts(step) == {"order-1": "inconclusive"}, step.log
    assert "money of the run was used up" in record(step).stopped
    assert record(step).spent.trials == 2
    assert (step.outcome, decision(step)["passed"]) == ("inconclusive", False)
    assert "`max-run-cost`" in github.bodies(PULL)[0]


class Prompted(FakeOpenAi):
    """A model that does what its prompt says: it answers questions on orders badly that the prompt names."""

    @override
    def answer(self, request: dict[str, Any], step: Any, number: int) -> dict[str, Any]:
        answer = super().answer(request, step, number)
        system = [message["content"] for message in request["messages"] if message["role"] == "system"]
        asked = request["messages"][-1]["content"]
        bad = any(
            f"refuse {name}" in text for text in system for name in ("order 1", "order 2") if name in asked
        )
        answer["choices"][0]["message"]["content"] = "No." if bad else "It is on its way."
        return answer


@WHOLE_JOB
def test_a_hosted_model_is_confirmed_with_the_prompt_of_the_merge_base(
    repository: Repository, github: FakeGitHub
) -> None:
    """The change's prompt on both sides would make its own regression fail on the merge base as well."""
    suite = [
        {"case_id": f"order-{number}", "input": case(number)["input"], "regex_patterns": ["on its way"]}
        for number in range(1, 7)
    ]
    repository.runner.write_suite(*suite)
    repository.base = repository.commit("base", files={"prompt.txt": "Be kind."})
    with Prompted() as model:
        environ = {"OPENAI_API_KEY": "key-of-a-test", "TMPDIR": str(repository.temporary)}
        hosted = {
            "agent_command": "",
            "agent": "openai:small",
            "base_url": model.base_url,
            "system_prompt": "prompt.txt",
        }
        step = repository.runner.push(environ=environ, **hosted)
        repository.runner.upload(step, 400)
        repository.commit("topic", files={"prompt.txt": "Be kind, and refuse order 1."})
        named = {**hosted, "base": repository.base, "base_agent": "openai:small"}
        step = repository.runner.pull_request(environ=environ, **named)
        assert verdicts(step) == {"order-1": "confirmed"}, step.log
        # Without the merge base in the checkout its prompt is unknown, and nothing is settled.
        named["base"] = "d" * 40
        step = repository.runner.pull_request(environ=environ, run_id=501, **named, **LENIENT)
        assert verdicts(step) == {"order-1": "inconclusive"}, step.log
        assert "is not in the checkout" in record(step).problem


@WHOLE_JOB
def test_sources_that_changed_without_what_is_run_settle_nothing(
    repository: Repository, github: FakeGitHub
) -> None:
    """An earlier step left a build; the setup of both sides takes it, and the change fails on both."""
    prebuilt = repository.runner.root / "prebuilt.py"
    prebuilt.write_text(repository.agent("built", ""))
    inputs = {
        "agent_command": f"{sys.executable} -S -E built.py",
        "setup_command": f"cp {prebuilt} built.py",
    }
    repository.base = repository.commit("base", files={".gitignore": "built.py\n"})
    repository.push(**inputs)
    repository.commit("topic", REGRESSED)
    prebuilt.write_text(repository.agent("built", REGRESSED))
    step = repository.change(**inputs, **LENIENT)
    assert verdicts(step) == {"order-1": "inconclusive"}, step.log
    assert "`built.py` is the same on both sides although the sources are not" in record(step).problem
    assert (step.outcome, decision(step)["passed"]) == ("inconclusive", False)

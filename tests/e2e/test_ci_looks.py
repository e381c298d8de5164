"""`trials: auto` in a job: a real agent process is run once, 4 or 12 times on every case, and no more."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Ended, agent_eval
from tests.e2e.runner import PULL, Runner, Step
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
        """Make the baseline on main."""
        step = self.runner.push(agent_command=self.command, **{**OPEN, **inputs})
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


def test_print(shop: Shop, github: FakeGitHub) -> None:
    step = shop.push()
    print(step.log, shop.calls(), step.code)
    step = shop.change({})
    print(step.log, shop.calls(), step.code, github.bodies(PULL)[0], execution(step))
    step = shop.change({1: [1], 2: [3]})
    print(step.log, shop.calls(), step.code, github.bodies(PULL)[0], decision(step)["steps"])
    assert 0

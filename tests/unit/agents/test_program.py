"""`python -m agent_eval.agents.program` makes a program of what a Python module has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import AttemptResult, SessionSoFar
from agent_eval.contracts import AttemptLimits
from agent_eval.errors import FailureKind
from tests.unit.agents.robots import put_robots
from tests.unit.agents.tasks import attempt

MODULE = """
def shout(task):
    print("a word on the way")
    return {"assistant_output": task["input"].upper()}

async def later(task):
    return shout(task)

def fails(task):
    raise ValueError("no such order")

class Agent:
    pass

def looks(task, call_tool):
    return {"assistant_output": call_tool("lookup", {"id": 7})}

Agent.__module__, Agent.__qualname__ = "autogen_agentchat.base._chat_agent", "ChatAgent"
agent = Agent()
"""


@pytest.fixture
def robots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_robots(tmp_path)
    monkeypatch.chdir(tmp_path)


def program(folder: Path, name: str, *tasks: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(MODULE)
    return subprocess.run(
        [sys.executable, "-m", "agent_eval.agents.program", f"mine.py:{name}"],
        cwd=folder,
        input="\n".join(map(json.dumps, tasks)),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["shout", "later"])
def test_each_line_is_a_task_and_gets_an_answer(tmp_path: Path, name: str) -> None:
    done = program(tmp_path, name, {"input": "a", "turn": 1}, {"input": "b", "turn": 2})
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"assistant_output": "A"},
        {"assistant_output": "B"},
    ]
    assert "a word on the way" in done.stderr


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [
        ("fails", {"input": "a"}, "ValueError: no such order"),
        ("agent", {"input": "a"}, "is an agent of AutoGen"),
        ("shout", {"input": "a", "turn": 2}, "keep this one, with --set agent.keep_alive=true"),
    ],
)
def test_what_cannot_be_answered_ends_it(tmp_path: Path, name: str, task: dict[str, Any], words: str) -> None:
    done = program(tmp_path, name, task)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr


CASE = {"tool_responses": {"lookup": {"status": "lost"}, "broken": {"error": "gone"}}}


def ask(said: str, name: str = "robots.py:robot", **options: Any) -> AttemptResult:
    """Ask a program in the folder, as a CI job does."""
    return attempt(f"command:{sys.executable} -m agent_eval.agents.program {name}", said, **options)


def test_answers_of_the_case_take_the_place_of_an_agents_own_tools(robots: None) -> None:
    asked, ran = ask("asks", metadata=CASE), ask("asks")
    assert [event.output for event in asked.events if event.type == "tool_result"] == [{"status": "lost"}]
    assert [event.output for event in ran.events if event.type == "tool_result"] == ["seen"]
    assert asked.events[-2].attributes == {"agent_eval.tool_response.source": "tool_responses"}
    assert [call["tool"] for call in asked.tool_calls] == ["lookup"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metadata": CASE}, "the agent does not carry answers of tools"),
        ({"session": SessionSoFar("a", 1)}, "the agent does not carry turns"),
    ],
)
def test_what_an_agent_cannot_carry_fails(robots: None, options: dict[str, Any], words: str) -> None:
    result = ask("asks", "robots.py:unable", **options)
    assert result.failure is FailureKind.AGENT_ERROR
    assert words in result.problem


def test_what_an_agent_did_before_it_failed_is_told(robots: None) -> None:
    crashed = ask("crash")
    assert [event.tool for event in crashed.events if event.type == "tool_call"] == ["shut"]
    assert "raised ValueError" in crashed.problem
    assert b"Traceback" in crashed.artifacts["stderr.txt"]
    endless = ask("loop", limits=AttemptLimits(steps=3))
    assert "did not come to an end within 3 steps" in endless.problem


def test_a_function_with_a_second_parameter_calls_tools(tmp_path: Path, robots: None) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    result = ask("hi", "mine.py:looks", metadata=CASE)
    assert result.output == {"status": "lost"}
    assert [call["tool"] for call in result.tool_calls] == ["lookup"]
    assert "nothing answers calls of tools" in program(tmp_path, "looks", {"input": "a"}).stderr

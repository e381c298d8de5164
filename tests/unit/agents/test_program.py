"""`python -m agent_eval.agents.program` makes a program of what a Python module has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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

Agent.__module__, Agent.__qualname__ = "autogen_agentchat.base._chat_agent", "ChatAgent"
agent = Agent()
"""


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

"""A run of conversations is killed again and again: none that had finished is held again, or lost.

The agent is a real program that stays alive for a conversation and leaves a line for each turn. A
conversation that is in the journal has been acknowledged; one that was broken off is held again from its
first turn.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.e2e import program
from tests.e2e.program import Process
from tests.extent import amount
from tests.security.test_kill_resume import Killed

CONVERSATIONS, TURNS = 24, 4
KILLS = amount(4, 15, 50)

AGENT = """
import json, os, sys
log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    task = json.loads(line)
    os.write(log, f"{task['case_id']}:{task['turn']}\\n".encode())
    print(json.dumps({"assistant_output": f"answer {task['turn']} to {task['input']}"}), flush=True)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    user = {"guidelines": "You want a refund.", "max_turns": TURNS}
    judged = {"conversation": user, "regex_patterns": ["answer"]}
    cases = [
        {"case_id": str(number), "turns": [{"input": f"Hello {number}"}], **judged}
        for number in range(CONVERSATIONS)
    ]
    suite = {"dataset_id": "d", "metadata": {"schema_version": "1.2.0"}, "cases": cases}
    (tmp_path / "suite.json").write_text(json.dumps(suite))
    replies = [{"purpose": "simulate", "turn": turn, "text": f"word {turn}"} for turn in range(2, TURNS + 1)]
    script = {"kind": "model_script", "schema_version": "1.2.0", "replies": replies}
    (tmp_path / "script.json").write_text(json.dumps(script))
    return tmp_path


def start(place: Path, out: str, *more: str) -> Process:
    words = [
        "run-loop", "--suite", "suite.json", "--out", out, "--run-id", "r", "--parallel", "3",
        "--agent-command", f"{sys.executable} -S -E agent.py", "--set", "agent.keep_alive=true",
        "--judge-model", "scripted:script.json", "--max-repairs", "0", "--format", "json", *more,
    ]  # fmt: skip
    return program.start(*words, cwd=place, environ={"GITHUB_SHA": "0" * 40}, own_group=True)


def test_killed_at_any_moment_no_finished_conversation_is_held_again_or_lost(place: Path) -> None:
    killed = Killed(start, CONVERSATIONS, 0.2)
    expected = {f"{case}:{turn}": 1 for case in range(CONVERSATIONS) for turn in range(1, TURNS + 1)}
    assert killed.whole(place) == expected
    killed.again_and_again(place, KILLS)

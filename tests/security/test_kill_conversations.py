"""A run of conversations is killed again and again: none that had finished is held again, or lost.

The agent is a real program that stays alive for a conversation and leaves a line for each turn. A
conversation that is in the journal has been acknowledged; one that was broken off is held again from its
first turn.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e import program
from tests.e2e.program import Process, tree
from tests.security.test_kill_resume import journalled

CONVERSATIONS, TURNS = 24, 4

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


def turns_held(place: Path) -> Counter[str]:
    """How often each turn of each conversation was asked."""
    try:
        return Counter((place / "log").read_text().split())
    except FileNotFoundError:
        return Counter()


@pytest.mark.parametrize("fewest", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_any_moment_no_finished_conversation_is_held_again_or_lost(
    place: Path, fewest: int
) -> None:
    whole = start(place, "whole")
    _, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err
    expected = {f"{case}:{turn}": 1 for case in range(CONVERSATIONS) for turn in range(1, TURNS + 1)}
    assert turns_held(place) == expected
    (place / "log").unlink()
    chance = random.Random()
    kills = 0
    while kills < fewest:
        kills += _until_done(place, chance)
        assert tree(place / "out") == tree(place / "whole")
        assert not (place / "out.journal").exists()
        (place / "log").unlink()
        shutil.rmtree(place / "out")


def _until_done(place: Path, chance: random.Random) -> int:
    """Run and kill until a run comes to its end. Returns how often it was killed."""
    kills = 0
    while True:
        before, done = turns_held(place), journalled(place)
        assert len(done) == len(set(done))
        process = start(place, "out", "--resume")
        _wait_for_a_moment(place, process, len(done), chance)
        if process.poll() is None:
            process.kill()
            kills += 1
        out, err = process.communicate()
        after = turns_held(place)
        again = [turn for turn in after if turn.split(":")[0] in done and after[turn] != before[turn]]
        assert again == [], "held again though they had finished"
        if process.returncode == 0:
            assert json.loads(out)["summary"]["total_cases"] == CONVERSATIONS
            return kills
        assert process.returncode == -signal.SIGKILL, err
        assert set(journalled(place)) >= set(done) or (place / "out" / "manifest.json").exists(), "lost"


def _wait_for_a_moment(place: Path, process: Process, done: int, chance: random.Random) -> None:
    """Wait until the run has got a little further, or has ended; then for a moment within a turn."""
    if done == CONVERSATIONS and chance.random() < 0.5:
        process.wait()
    wanted = min(done + max(chance.randrange(-3, 8), 0), CONVERSATIONS)
    while len(journalled(place)) < wanted and process.poll() is None:
        time.sleep(0.005)
    with suppress(subprocess.TimeoutExpired):
        process.wait(chance.uniform(0, 0.2))

"""A run of an agent is killed again and again; what had finished is never lost, never done twice.

The agent is a real program that leaves a line for each run. A trial that is in the journal has been
acknowledged: its case must not be run again. Twenty kills, and two hundred with `CI=true`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from agent_eval.storage.journal import decode
from tests.e2e.program import REPOSITORY, environment, tree

KILLS = 200 if os.environ.get("CI") == "true" else 20
CASES = 40

AGENT = """
import json, os, sys
task = json.load(sys.stdin)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(log, (task["case_id"] + "\\n").encode())
bad = task["mode"] == "propose" and int(task["case_id"]) % 3 == 0
calls = [{"tool": "bad" if bad else "lookup", "arguments": {"n": task["case_id"]}}]
json.dump({"assistant_output": "x" * 3000, "tool_calls": calls}, sys.stdout)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    cases = [{"case_id": str(number), "policy": {"forbidden_tools": ["bad"]}} for number in range(CASES)]
    (tmp_path / "suite.json").write_text(json.dumps({"dataset_id": "d", "cases": cases}))
    return tmp_path


def start(place: Path, out: str, *more: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "agent_eval", "run-loop", "--suite", "suite.json", "--out", out,
        "--run-id", "r", "--propose-command", f"{sys.executable} -S -E agent.py log", "--parallel", "3",
        "--max-repairs", "1", *more,
    ]  # fmt: skip
    environ = environment({"GITHUB_SHA": "0" * 40, "PYTHONPATH": str(REPOSITORY)})
    return subprocess.Popen(
        command, cwd=place, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )


def journalled(place: Path) -> list[str]:
    """Cases that the journal has acknowledged, read without the program's help."""
    try:
        lines = (place / "out.journal").read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    found = []
    for line in lines[1:]:
        try:
            found.append(decode(line)["case_id"])
        except ValueError:
            assert line is lines[-1]
    return found


def runs(place: Path) -> Counter[str]:
    try:
        return Counter((place / "log").read_text().split())
    except FileNotFoundError:
        return Counter()


def test_killed_at_any_moment_a_run_resumes_without_loss_or_repetition(place: Path) -> None:
    whole = start(place, "whole")
    _, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err
    (place / "log").unlink()
    chance = random.Random()
    kills = 0
    while kills < KILLS:
        kills += _until_done(place, chance)
        assert tree(place / "out") == tree(place / "whole")
        assert not (place / "out.journal").exists()
        for name in ("log", "out"):
            subprocess.run(["rm", "-rf", str(place / name)], check=True)


def _until_done(place: Path, chance: random.Random) -> int:
    """Run and kill until a run comes to its end. Returns how often it was killed."""
    kills = 0
    while True:
        before, done = runs(place), journalled(place)
        assert len(done) == len(set(done))
        process = start(place, "out", "--resume")
        try:
            process.communicate(timeout=chance.uniform(0.2, 1.6))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        out, err = process.communicate()
        after = runs(place)
        again = [case_id for case_id in done if after[case_id] != before[case_id]]
        assert again == [], "run again though they had finished"
        if process.returncode == 0:
            assert json.loads(out)["summary"]["total_cases"] == CASES
            return kills
        assert process.returncode == -signal.SIGKILL, err
        assert set(journalled(place)) >= set(done) or (place / "out" / "manifest.json").exists(), "lost"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_ends_soon_and_says_how_to_go_on(place: Path, sent: int, code: int) -> None:
    process = start(place, "out")
    deadline = time.monotonic() + 60
    while not journalled(place) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(sent)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"out.journal" in err
    assert b"--resume" in err
    assert b"Traceback" not in err
    assert not (place / "out").exists()
    done = journalled(place)
    assert done
    refused = start(place, "out")
    _, err = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert "--resume" in json.loads(err)["error"]["details"]["remedy"]
    resumed = start(place, "out", "--resume")
    out, _ = resumed.communicate(timeout=60)
    assert json.loads(out)["resumed_cases"] == len(done)

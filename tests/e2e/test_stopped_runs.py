"""A run that stops early keeps what it paid for, and trials in progress exceed no limit of cost."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import write_suite
from tests.e2e.program import agent_eval, start, tree
from tests.extent import WHOLE_JOB, crossed

PROGRAM = """
import json, os, sys, time
task = json.load(sys.stdin)
time.sleep(0.2)
number = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(number, (task["case_id"] + "\\n").encode())
json.dump({"assistant_output": "done", "cost_usd": 0.25}, sys.stdout)
"""
FUNCTION = """
import os, time
def agent(task):
    time.sleep(0.2)
    number = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(number, (task["case_id"] + "\\n").encode())
    os.close(number)
    return {"assistant_output": "done", "cost_usd": 0.25}
"""
COMMAND = ["--agent-command", f"{sys.executable} -S -E agent.py"]
AGENTS = {"program": COMMAND, "function": ["--agent", "python:shop:agent"]}
RUN = ["run", "--suite", "suite.json", "--out", "out", "--run-id", "r"]
CASES = 4


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_suite(tmp_path, *({"case_id": str(number), "regex_patterns": ["done"]} for number in range(CASES)))
    (tmp_path / "agent.py").write_text(PROGRAM)
    (tmp_path / "shop.py").write_text(FUNCTION)
    return tmp_path


def trials(place: Path) -> dict[str, int]:
    """Number of trials of each case in the pack."""
    rows: list[dict[str, Any]] = [
        json.loads(path.read_text()) for path in sorted(place.glob("out/cases/*/trajectory.json"))
    ]
    return {row["case_id"]: 1 + len(row.get("trials") or ()) for row in rows}


@pytest.mark.parametrize("agent", sorted(AGENTS))
@WHOLE_JOB
def test_a_run_with_a_limit_finishes_one_case_after_the_other(agent: str, place: Path) -> None:
    several = [*RUN, *AGENTS[agent], "--trials", "3"]
    assert agent_eval(*several, "--max-run-cost", "1.75", cwd=place).code == 4
    assert trials(place) == {"0": 3, "1": 3, "2": 1}
    assert agent_eval("pack", "verify", "--run", "out", cwd=place).code == 0
    resumed = agent_eval(*several, "--format", "json", "--resume", cwd=place).json()
    assert (resumed["resumed_cases"], resumed["complete"]) == (7, True)
    assert agent_eval(*RUN[:4], "whole", *several[5:], cwd=place).code == 0
    assert tree(place / "out") == tree(place / "whole")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_of_trials_keeps_what_is_done(sent: signal.Signals, place: Path) -> None:
    process = start(*RUN, "--format", "json", *COMMAND, "--trials", "50", cwd=place)
    while not (place / "calls").exists() or len((place / "calls").read_text().split()) < 3:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + sent, err
    assert json.loads(out)["complete"] is False
    assert sum(trials(place).values()) >= 2
    assert json.loads((place / "out" / "manifest.json").read_text())["complete"] is False


@crossed(limits=[("0.5", 2), ("0.6", 2), ("0.25", 1)], agent=sorted(AGENTS))
def test_what_is_in_progress_counts_already(limits: tuple[str, int], agent: str, place: Path) -> None:
    limit, calls = limits
    at_once = ["--trials", "4", "--parallel", "8", "--max-run-cost", limit]
    ended = agent_eval(*RUN, "--format", "json", *AGENTS[agent], *at_once, cwd=place)
    assert ended.code == 4
    assert len((place / "calls").read_text().split()) == calls
    assert json.loads(ended.out)["cost_usd"] == calls * 0.25


def test_a_limit_of_cost_does_not_slow_an_agent_of_unknown_cost(place: Path) -> None:
    (place / "agent.py").write_text(PROGRAM.replace(', "cost_usd": 0.25', ""))
    at_once = ["--trials", "4", "--parallel", "8", "--max-run-cost", "1"]
    ended = agent_eval(*RUN, "--format", "json", *COMMAND, *at_once, cwd=place)
    assert json.loads(ended.out)["complete"] is True
    assert "leaves out what the agent cost" in ended.err

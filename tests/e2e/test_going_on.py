"""A run of an agent that ends early says what it did and how to resume, or that no agent was reached."""

import json
import os
import pty
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import write_suite
from tests.e2e.program import REPOSITORY, Ended, agent_eval, environment, resuming, tree
from tests.extent import WHOLE_JOB
from tests.fakes.json_server import JsonServer

COSTLY = """
import json, os, sys, time
task = json.load(sys.stdin)
time.sleep(0.1)
if os.path.exists("stop-at-" + task["case_id"]):
    os.remove(sys.argv[1])
json.dump({"assistant_output": "done", "cost_usd": 0.25}, sys.stdout)
"""
CASES = 8


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_suite(tmp_path, *({"case_id": str(number), "regex_patterns": ["done"]} for number in range(CASES)))
    (tmp_path / "agent.py").write_text(COSTLY)
    (tmp_path / "program").symlink_to(sys.executable)
    return tmp_path


def run(place: Path, *more: str, out: str = "out", **how: Any) -> Ended:
    agent = f"{sys.executable} -S -E agent.py program"
    words = ["run", "--suite", "suite.json", "--out", out, "--agent-command", agent, "--format", "json"]
    return agent_eval(*words, *more, cwd=place, **how)


def paste(place: Path, command: str) -> subprocess.CompletedProcess[str]:
    environ = environment({"PYTHONPATH": str(REPOSITORY)})
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd=place, env=environ, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("limit", [["--max-run-cost", "0.7"], ["--set", "limits.run.seconds=0.001"]])
def test_a_limit_of_the_run_says_so_and_how_to_resume(limit: list[str], place: Path) -> None:
    ended = run(place, "--run-id", "r", *limit)
    said = json.loads(ended.out)
    done = said["summary"]["total_cases"]
    assert ended.code == 4
    assert said["complete"] is False
    assert f"{done} of {CASES} trials were run, and the pack says that it is not complete" in ended.err
    assert json.loads((place / "out" / "manifest.json").read_text())["complete"] is False
    refused = agent_eval("compare", "--baseline", "out", "--candidate", "out", cwd=place)
    assert "not complete" in refused.error["message"]
    command = resuming(ended.err)
    assert limit[0] in command
    if limit[0] == "--max-run-cost":
        assert "is reached (0.5 spent, and a trial costs 0.25)" in ended.err
        assert "To go on, raise --max-run-cost in" in ended.err
    unlimited = command.replace(shlex.join(limit), "")
    resumed = json.loads(paste(place, unlimited).stdout)
    assert (resumed["complete"], resumed["resumed_cases"]) == (True, done)
    run(place, "--run-id", "r", out="whole")
    assert tree(place / "out") == tree(place / "whole")


def test_the_words_of_the_command_survive_a_shell(place: Path) -> None:
    odd = 'it\'s $HOME; `x` | "y"'
    ended = run(place, "--run-id", odd, "--max-run-cost", "0.25", out="an out & more")
    words = shlex.split(resuming(ended.err))
    assert words[words.index("--run-id") + 1] == odd
    assert (words[words.index("--out") + 1], words[-1]) == ("an out & more", "--resume")
    again = paste(place, resuming(ended.err).replace("--max-run-cost 0.25", ""))
    assert json.loads(again.stdout)["run_id"] == odd


def test_a_command_with_a_secret_in_it_is_not_printed(place: Path) -> None:
    ended = run(
        *(place, "--agent-version", "s3cr3t-of-mine", "--max-run-cost", "0.25"),
        environ={"MY_TOKEN": "s3cr3t-of-mine"},
    )
    assert "s3cr3t-of-mine" not in ended.err
    assert resuming(ended.err) == "the same command with --resume"


def test_a_failure_in_the_middle_says_how_to_resume(place: Path) -> None:
    (place / "stop-at-3").touch()
    agent = "./program -S -E agent.py program"
    arguments = ["run", "--suite", "suite.json", "--out", "out", "--agent-command", agent]
    ended = agent_eval(*arguments, "--format", "json", cwd=place)
    assert (ended.code, ended.error["code"]) == (4, "not_started")
    remedy = ended.error["details"]["remedy"]
    assert "What has finished is in out.journal. To go on:" in remedy
    (place / "stop-at-3").unlink()
    (place / "program").symlink_to(sys.executable)
    resumed = json.loads(paste(place, remedy.partition("To go on: ")[2]).stdout)
    assert (resumed["resumed_cases"], resumed["complete"]) == (4, True)


def test_a_run_that_did_nothing_leaves_nothing_behind(place: Path) -> None:
    arguments = ["run", "--suite", "suite.json", "--out", "out", "--agent-command", "./no-such-program"]
    ended = agent_eval(*arguments, cwd=place)
    assert ended.error["code"] == "not_started"
    assert "--resume" not in ended.err
    assert not (place / "out.journal").exists()


NOBODY = "http://127.0.0.1:9/ask"


@pytest.fixture
def unreachable_tools(place: Path) -> Path:
    """An agent whose tools are behind an address that does not answer."""
    (place / "caller.py").write_text(
        "def agent(task, call_tool):\n    return {'assistant_output': str(call_tool('lookup', {}))}\n"
        "def quiet(task):\n    return 'done'\n"
    )
    return place


UNREACHED = ["--agent", "python:caller:agent", "--tools", NOBODY]


@pytest.mark.parametrize("command", ["run", "run-loop"])
def test_an_agent_that_was_never_reached_was_not_evaluated(command: str, unreachable_tools: Path) -> None:
    arguments = [command, "--suite", "suite.json", "--out", "out", "--trials", "2", "--case", "1"]
    ended = agent_eval(*arguments, "--format", "json", *UNREACHED, cwd=unreachable_tools)
    assert ended.code == 4
    error = json.loads(ended.err)["error"]
    assert error["message"] == "suite.json: the agent could not be reached in any of 1 cases."
    assert json.loads(ended.out)["summary"]["error_cases"] == 1
    assert (unreachable_tools / "out" / "manifest.json").exists(), "each error can be read"


def test_stability_and_replay_of_an_agent_that_is_not_reached_say_nothing(unreachable_tools: Path) -> None:
    place = unreachable_tools
    stability = ["stability-check", "--suite", "suite.json", "--runs", "2", "--case", "1"]
    assert "could not be reached" in agent_eval(*stability, *UNREACHED, cwd=place).error["message"]
    arguments = ["run", "--suite", "suite.json", "--out", "out", "--agent", "python:caller:quiet"]
    assert agent_eval(*arguments, "--case", "1", cwd=place).code == 0
    replayed = agent_eval("replay-exec", "--run", "out", *UNREACHED, cwd=place)
    assert (replayed.code, replayed.error["code"]) == (4, "not_evaluable")


def test_waiting_for_a_tool_is_counted_as_a_retry_and_not_as_the_agents_time(unreachable_tools: Path) -> None:
    arguments = ["run", "--suite", "suite.json", "--out", "out", "--case", "1", "--agent", UNREACHED[1]]
    with JsonServer() as server:
        server.answers = [(429, {"Retry-After": "2"}, b""), (200, {}, b'{"response": "done"}')]
        live = [*arguments, "--tools", server.url, "--cassette", "tools.json", "--cassette-mode", "record"]
        began = time.monotonic()
        ended = agent_eval(*live, "--format", "json", cwd=unreachable_tools, environ={"AGENT_EVAL_CLOCK": ""})
        milliseconds = 1_000 * (time.monotonic() - began)
    said = ended.json()
    assert (said["retries"], said["summary"]["passed_cases"]) == (1, 1)
    index = json.loads((unreachable_tools / "out" / "run" / "index.jsonl").read_text())
    assert index["latency_ms"] <= milliseconds - 2_000, "two seconds were waited"


def on_a_terminal(place: Path, *arguments: str) -> str:
    """What a person sees of a command whose three streams are a terminal of 80 columns."""
    argv = [sys.executable, "-m", "agent_eval", *arguments]
    environ = {**environment({"PYTHONPATH": str(REPOSITORY)}), "COLUMNS": "80", "TERM": "xterm"}
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - another program from here on
        os.chdir(place)
        os.execve(argv[0], argv, environ)
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(terminal)
    os.waitpid(pid, 0)
    return seen.decode()


@pytest.mark.parametrize("command", ["run", "run-loop"])
@WHOLE_JOB
def test_a_terminal_shows_a_bar_and_then_what_came_of_it(command: str, place: Path) -> None:
    agent = f"command:{sys.executable} -S -E agent.py program"
    seen = on_a_terminal(place, command, "--suite", "suite.json", "--out", "out", "--agent", agent)
    drawn, _, after = seen.rpartition("\r[")
    assert "[" in drawn
    last, _, rest = after.partition("\r\n")
    assert last.rstrip() == "########################] 8/8, 8 passed, 0 failed, 0 errors, $2.0000" or (
        last.rstrip()
        == "########################] 8 of 8 trials (100 %), 8 passed, 0 failed, 0 errors, $2.0000"
    )
    assert all(len(line) < 80 for line in seen.replace("\r\n", "\r").split("\r"))
    assert "8 of 8 cases passed (100%)." in rest
    assert "Spent: $2.0000." in rest

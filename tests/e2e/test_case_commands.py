"""Set-up and tear-down commands of cases: allowed by the operator alone, around every trial."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import left
from tests.e2e.program import Ended, agent_eval, start
from tests.extent import WHOLE_JOB

COMMAND = """
import json, os, sys, time
task = json.load(sys.stdin)
kind = sys.argv[1]
with open("log", "a") as file: file.write(f"{kind} {task['case_id']}\\n")
if "SECRET_KEY" in os.environ: sys.exit("sees a secret")
if f"{kind}-fails" in task["case_id"]: sys.exit("no database here")
if f"{kind}-hangs" in task["case_id"]: time.sleep(60)
"""
AGENT = """
import json, os, sys, time
task = json.load(sys.stdin)
with open("log", "a") as file: file.write(f"agent {task['case_id']}\\n")
if "agent-crashes" in task["case_id"]: os._exit(3)
if "agent-hangs" in task["case_id"]: time.sleep(60)
print(json.dumps({"assistant_output": "done"}))
"""
FUNCTION = """
def agent(task):
    with open("log", "a") as file: file.write(f"agent {task['case_id']}\\n")
    return "done"
"""
PROGRAM = f"command:{sys.executable} agent.py"


def write_suite(place: Path, *case_ids: str, **fields: Any) -> None:
    commands = {name: f"{sys.executable} command.py {name}" for name in ("setup", "teardown")}
    policy = {"forbidden_tools": ["pay"]}
    cases = [{"case_id": name, "input": "hi", "policy": policy, **commands, **fields} for name in case_ids]
    left.write_suite(place, *cases)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "command.py").write_text(COMMAND)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "functions.py").write_text(FUNCTION)
    return tmp_path


def command(*more: str, agent: str = PROGRAM) -> list[str]:
    return [
        *("run", "--suite", "suite.json", "--out", "out", "--set", "evidence.layout=files"),
        *("--agent", agent, *more),
    ]


def run(place: Path, *more: str, agent: str = PROGRAM, code: int = 0) -> Ended:
    ended = agent_eval(*command(*more, agent=agent), cwd=place, environ={"SECRET_KEY": "hidden"})
    assert ended.code == code, ended.err
    return ended


def log(place: Path) -> list[str]:
    return (place / "log").read_text().splitlines() if (place / "log").exists() else []


def failures(place: Path) -> dict[str, tuple[str, str, str]]:
    """Case id to outcome, kind of failure and reason."""
    found = {}
    for path in (place / "out/cases").glob("*/verdicts.json"):
        row = json.loads(path.read_bytes())
        execution = next((one for one in row["verdicts"] if one["judge_id"] == "execution"), {})
        found[row["case_id"]] = (row["outcome"], execution.get("failure"), execution.get("reason", ""))
    return found


@pytest.mark.parametrize("agent", [PROGRAM, "python:functions:agent"])
def test_every_trial_is_set_up_and_torn_down(place: Path, agent: str) -> None:
    write_suite(place, "a")
    run(place, "--case-commands", "--trials", "2", agent=agent)
    assert log(place) == ["setup a", "agent a", "teardown a"] * 2


def test_commands_are_refused_unless_the_operator_allows_them(place: Path) -> None:
    write_suite(place, "a")
    ended = run(place, code=2)
    assert "case 'a' has a setup or teardown command, which is not allowed to run" in ended.err
    assert "--case-commands" in ended.err
    assert log(place) == []


def test_recorded_traces_and_packs_run_no_commands(place: Path) -> None:
    trace = [{"idx": 0, "actor": "agent", "type": "message", "output": "done"}]
    write_suite(place, "a", trace=trace)
    run(place, "--case-commands", agent="recorded")
    assert agent_eval("run", "--suite", "suite.json", "--out", "judged", cwd=place).code == 0
    again = ("rejudge", "--run", "judged", "--judge", "policy", "--out", "again")
    assert agent_eval(*again, cwd=place).code == 0
    assert log(place) == []
    write_suite(place, "b")
    run(place, "--case-commands", "--fresh")
    (place / "log").unlink()
    again = agent_eval("replay-exec", "--run", "out", cwd=place)
    assert again.code == 2
    assert "those of a pack never run" in again.err
    assert log(place) == []


@WHOLE_JOB
def test_a_command_that_fails_is_no_failure_of_the_agent(place: Path) -> None:
    broken = ("setup-fails", "teardown-fails", "setup-hangs", "teardown-hangs")
    write_suite(place, *broken, "good")
    run(place, "--case-commands", "--set", "limits.case_command_seconds=3", "--parallel", "8")
    found = failures(place)
    assert found["good"][0] == "passed"
    assert {name: row[:2] for name, row in found.items() if name != "good"} == dict.fromkeys(
        broken, ("error", "environment")
    )
    assert "the case's setup command exited with code 1: no database here" in found["setup-fails"][2]
    assert "the case's teardown command did not end within 3 s" in found["teardown-hangs"][2]
    assert "agent setup-fails" not in log(place)
    torn_down = sorted(line for line in log(place) if line.startswith("teardown "))
    assert torn_down == sorted(f"teardown {name}" for name in found)


def test_what_the_agent_did_stays_beside_a_tear_down_that_failed(place: Path) -> None:
    write_suite(place, "teardown-fails", "good")
    run(place, "--case-commands")
    (stored,) = (place / "out/cases").glob("teardown*/trajectory.json")
    outputs = [event.get("output") for event in json.loads(stored.read_bytes())["trace"]]
    assert outputs == [None, "done"]


def test_neither_a_set_up_that_fails_nor_an_agent_that_crashes_is_tried_again(place: Path) -> None:
    write_suite(place, "setup-fails", "agent-crashes", "good")
    run(place, "--case-commands")
    assert log(place).count("setup setup-fails") == 1
    assert log(place).count("agent agent-crashes") == 1


def test_an_agent_that_breaks_its_own_tear_down_is_not_excused(place: Path) -> None:
    """Its answer is wrong, so that a loss to the environment would do it good."""
    fields = {"policy": {"required_tools": ["refund"]}, "expected_output": "refunded"}
    write_suite(place, "teardown-fails", "good", **fields)
    run(place, "--case-commands")
    assert failures(place)["teardown-fails"][:2] == ("failed", None)
    assert log(place).count("agent teardown-fails") == 1


def test_tear_down_runs_after_a_crash_and_a_time_out(place: Path) -> None:
    write_suite(place, "agent-crashes", "agent-hangs", "good")
    run(place, "--case-commands", "--set", "limits.attempt.seconds=3")
    found = failures(place)
    assert {name: row[1] for name, row in found.items()} == {
        "agent-crashes": "agent_error", "agent-hangs": "timeout", "good": None,
    }  # fmt: skip
    assert [line for line in log(place) if line.startswith("teardown")] == [
        *("teardown agent-crashes", "teardown agent-hangs", "teardown good")
    ]


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX only")
def test_tear_down_runs_after_ctrl_c(place: Path) -> None:
    write_suite(place, "agent-hangs")
    more = ("--case-commands", "--set", "limits.attempt.seconds=60")
    running = start(*command(*more), cwd=place)
    left.wait_until(lambda: "agent agent-hangs" in log(place))
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode != 0
    assert log(place) == ["setup agent-hangs", "agent agent-hangs", "teardown agent-hangs"]

"""A run that was paid for is neither repeated nor replaced, unless the user says so."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.left import write_suite
from tests.e2e.program import Process, agent_eval, start, tree
from tests.extent import OTHERS, WHOLE_JOB

CALLED = """
import json, os, sys, time
task = json.load(sys.stdin)
time.sleep(0.02)
number = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(number, (task["case_id"] + "\\n").encode())
json.dump({"assistant_output": "done", "cost_usd": 0.25}, sys.stdout)
"""
CASES = 6
AGENT = ["--agent-command", f"{sys.executable} -S -E agent.py"]
RUN = ["run", "--suite", "suite.json", "--out", "out", *AGENT]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    event = {"idx": 0, "actor": "agent", "type": "message", "output": "done"}
    cases = [{"case_id": str(n), "regex_patterns": ["done"], "trace": [event]} for n in range(CASES)]
    write_suite(tmp_path, *cases)
    (tmp_path / "agent.py").write_text(CALLED)
    return tmp_path


def calls(place: Path) -> int:
    return len((place / "calls").read_text().splitlines()) if (place / "calls").exists() else 0


def test_resuming_a_finished_run_runs_nothing_and_exits_with_0(place: Path) -> None:
    first = agent_eval(*RUN, "--format", "json", "--resume", "--run-id", "r", cwd=place).json()
    before = tree(place)
    again = agent_eval(*RUN, "--format", "json", "--resume", cwd=place).json()
    assert (again["already_complete"], again["complete"], again["resumed_cases"]) == (True, True, CASES)
    assert (again["run_id"], again["summary"]) == ("r", first["summary"])
    assert again["cost_usd"] is None, "the pack does not say what the whole run cost"
    assert tree(place) == before
    said = agent_eval(*RUN, "--resume", "--format", "text", cwd=place).out
    assert said.startswith("Already complete: nothing was run.\n")


def test_resuming_a_finished_run_with_other_settings_names_them(place: Path) -> None:
    assert agent_eval(*RUN, cwd=place).code == 0
    error = agent_eval(*RUN, "--resume", "--seed", "7", cwd=place).error
    assert error["details"]["differences"] == ["seed was 0, now 7"]
    assert "--fresh" in error["details"]["remedy"]
    assert calls(place) == CASES


RECORDED = ["run", "--suite", "suite.json", "--out", "out"]


@pytest.mark.parametrize("command", [RUN, RECORDED, ["run-loop", *RUN[1:]]])
@WHOLE_JOB
def test_what_an_agent_was_paid_for_is_replaced_only_with_fresh(command: list[str], place: Path) -> None:
    assert agent_eval(*RUN, cwd=place).code == 0
    before = tree(place)
    refused = agent_eval(*command, cwd=place)
    assert (refused.code, refused.error["details"]["field"]) == (2, "out")
    assert "run of an agent" in refused.error["message"]
    assert "--fresh" in refused.error["details"]["remedy"]
    assert tree(place) == before
    assert agent_eval(*command, "--fresh", cwd=place).code == 0


def test_an_incomplete_pack_without_its_journal_is_kept_as_well(place: Path) -> None:
    assert agent_eval(*RUN, "--max-run-cost", "0.5", cwd=place).code == 4
    (place / "out.journal").unlink()
    for resume in ([], ["--resume"]):
        assert agent_eval(*RUN, *resume, cwd=place).error["details"]["field"] == "out"


def test_rescored_recordings_are_replaced(place: Path) -> None:
    for _ in range(2):
        assert agent_eval(*RECORDED, cwd=place).code == 0


NOWHERE = "http://127.0.0.1:9/"
ASKS = "def agent(task, call_tool):\n    return str(call_tool('lookup', {}))\n"


@pytest.mark.parametrize(
    "unreached",
    [
        ["--agent", "python:asks:agent", "--tools", NOWHERE],
        # Asked again and again, for half a minute.
        pytest.param(["--agent", NOWHERE], marks=OTHERS),
    ],
    ids=["tools", "agent"],
)
def test_a_run_that_reached_no_agent_cost_nothing_and_is_run_again(unreached: list[str], place: Path) -> None:
    (place / "asks.py").write_text(ASKS)
    for _ in range(2):
        ended = agent_eval(*RECORDED, "--format", "json", *unreached, "--case", "1", "--resume", cwd=place)
        assert ended.code == 4
        assert json.loads(ended.out)["already_complete"] is False


def registered(place: Path) -> list[str]:
    assert agent_eval(*RECORDED, cwd=place).code == 0
    done = agent_eval("registry", "baseline-set", "--name", "main", "--run", "out", cwd=place)
    assert done.code == 0, done.err
    return ["--out", "out"]


def test_a_registered_pack_is_replaced_only_with_fresh(place: Path) -> None:
    registered(place)
    assert agent_eval(*RECORDED[:-1], "other", cwd=place).code == 0
    rejudged = ["rejudge", "--run", "other", "--out", "out", "--judge", "regex"]
    shards = [[*RECORDED[:-1], f"s{n}", "--shard", f"{n}/2", "--run-id", "r"] for n in (1, 2)]
    for shard in shards:
        assert agent_eval(*shard, cwd=place).code == 0
    for command in (RECORDED, RUN, rejudged, ["merge", "s1", "s2", "--out", "out"]):
        assert "registered baseline 'main'" in agent_eval(*command, cwd=place).error["message"], command
        assert agent_eval(*command, "--fresh", cwd=place).code == 0


def test_merge_never_writes_over_one_of_its_inputs(place: Path) -> None:
    for n in (1, 2):
        shard = [*RECORDED[:-1], f"s{n}", "--shard", f"{n}/2", "--run-id", "r"]
        assert agent_eval(*shard, cwd=place).code == 0
    (place / "link").symlink_to("s2")
    before = tree(place)
    for out in ("s1", "./s2/", "link", "s1/inner"):
        refused = agent_eval("merge", "s1", "s2", "--out", out, "--fresh", cwd=place)
        assert "one of the packs to merge" in refused.error["message"]
    assert tree(place) == before


def test_fresh_discards_what_an_unfinished_run_left_and_does_not_go_on(place: Path) -> None:
    assert agent_eval(*RUN, "--max-run-cost", "0.5", cwd=place).code == 4
    assert agent_eval(*RUN, "--fresh", "--resume", cwd=place).error["details"]["field"] == "fresh"
    assert (place / "out.journal").exists()
    done = agent_eval(*RUN, "--format", "json", "--fresh", cwd=place).json()
    assert (done["resumed_cases"], calls(place)) == (0, 2 + CASES)


def test_the_command_that_resumes_does_not_begin_anew(place: Path) -> None:
    ended = agent_eval(*RUN, "--fresh", "--max-run-cost", "0.5", "--format", "text", cwd=place)
    hint = ended.err.splitlines()[-1]
    assert "--resume" in hint
    assert "--fresh" not in hint


def begin(place: Path, *more: str) -> Process:
    return start(*RUN, "--run-id", "r", "--resume", "--format", "json", *more, cwd=place, own_group=True)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_in_the_second_after_sealing_nothing_is_run_again(sent: signal.Signals, place: Path) -> None:
    process = begin(place)
    sealed = place / "out" / "manifest.json"
    while not sealed.exists():
        assert process.poll() is None
        time.sleep(0.0005)
    os.kill(process.pid, sent)
    out, err = process.communicate()
    if sent != signal.SIGKILL:
        assert (process.returncode, err) == (0, b""), "the run was finished, and its result says so"
        assert json.loads(out)["complete"] is True
    before = tree(place / "out")
    resumed = begin(place)
    assert json.loads(resumed.communicate()[0])["complete"] is True
    assert (resumed.returncode, calls(place)) == (0, CASES)
    assert tree(place / "out") == before

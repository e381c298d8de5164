"""A run of an agent is killed again and again; what had finished is never lost, never done twice.

The agent is a real program that leaves a line for each run. A trial that is in the journal has been
acknowledged: its case must not be run again.
"""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e import program
from tests.e2e.left import journalled, wait_until, write_suite
from tests.e2e.program import REPOSITORY, Process, environment, tree
from tests.extent import WHOLE_JOB, amount, crossed

CASES = 40
KILLS = amount(8, 30, 200)

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
    write_suite(tmp_path, *cases)
    return tmp_path


def start(place: Path, out: str, *more: str) -> Process:
    words = [
        "run-loop", "--suite", "suite.json", "--out", out,
        "--run-id", "r", "--propose-command", f"{sys.executable} -S -E agent.py log", "--parallel", "3",
        "--max-repairs", "1", "--format", "json", *more,
    ]  # fmt: skip
    return program.start(*words, cwd=place, environ={"GITHUB_SHA": "0" * 40}, own_group=True)


def cases_done(place: Path) -> list[str]:
    return [case_id for case_id, _ in journalled(place)]


def logged(place: Path) -> Counter[str]:
    """How often the agent was asked each thing: a case, or `case:turn`."""
    try:
        return Counter((place / "log").read_text().split())
    except FileNotFoundError:
        return Counter()


@dataclass(frozen=True)
class Killed:
    """A run that is killed again and again: how it starts, how many cases it has, a moment in seconds."""

    start: Callable[..., Process]
    cases: int
    moment: float

    def whole(self, place: Path) -> Counter[str]:
        """Run it to its end once. Returns what the agent was asked."""
        process = self.start(place, "whole")
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        asked = logged(place)
        (place / "log").unlink()
        return asked

    def again_and_again(self, place: Path, fewest: int) -> None:
        """Kill it at least so often; each time it comes to its end, its pack is that of the whole run."""
        chance = random.Random()
        kills = 0
        while kills < fewest:
            kills += self._until_done(place, chance)
            assert tree(place / "out") == tree(place / "whole")
            assert not (place / "out.journal").exists()
            (place / "log").unlink()
            shutil.rmtree(place / "out")

    def _until_done(self, place: Path, chance: random.Random) -> int:
        """Run and kill until a run comes to its end. Returns how often it was killed."""
        kills = 0
        while True:
            before, done = logged(place), cases_done(place)
            assert len(done) == len(set(done))
            process = self.start(place, "out", "--resume")
            self._wait(place, process, len(done), chance)
            if process.poll() is None:
                process.kill()
                kills += 1
            out, err = process.communicate()
            after = logged(place)
            again = [what for what in after if what.split(":")[0] in done and after[what] != before[what]]
            assert again == [], "run again though they had finished"
            if process.returncode == 0:
                assert json.loads(out)["summary"]["total_cases"] == self.cases
                return kills
            assert process.returncode == -signal.SIGKILL, err
            kept = set(cases_done(place)) >= set(done)
            assert kept or (place / "out" / "manifest.json").exists(), "lost"

    def _wait(self, place: Path, process: Process, done: int, chance: random.Random) -> None:
        """Wait until the run has got a little further, or has ended.

        Counted in cases, not in seconds, so that the run gets on however slow the machine is. Some moments
        are before the first case is done, and some after the last one, while the pack is written.
        """
        if done == self.cases and chance.random() < 0.5:
            process.wait()
        wanted = min(done + max(chance.randrange(-self.cases // 10, self.cases // 3), 0), self.cases)
        while len(journalled(place)) < wanted and process.poll() is None:
            time.sleep(0.005)
        with suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0, self.moment))


def test_killed_at_any_moment_a_run_resumes_without_loss_or_repetition(place: Path) -> None:
    killed = Killed(start, CASES, 0.3)
    killed.whole(place)
    killed.again_and_again(place, KILLS)


def paste(place: Path, err: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run the command that a stopped run printed, in a shell, as a person would."""
    command = program.resuming(err.decode())
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd=place,
        env=environment({"GITHUB_SHA": "0" * 40, "PYTHONPATH": str(REPOSITORY)}), capture_output=True,
        timeout=60, check=True,
    )  # fmt: skip


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@WHOLE_JOB
def test_interrupted_it_keeps_trials_and_says_how_on(place: Path, sent: signal.Signals, code: int) -> None:
    process = start(place, "out")
    wait_until(lambda: journalled(place))
    process.send_signal(sent)
    out, told = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"out.journal" in told
    assert b"not complete" in told
    assert b"Traceback" not in told
    done = cases_done(place)
    assert done
    manifest = json.loads((place / "out" / "manifest.json").read_text())
    assert manifest["complete"] is False
    assert manifest["case_count"] == json.loads(out)["summary"]["total_cases"] == len(done)
    refused = start(place, "out")
    _, err = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert "--resume" in json.loads(err)["error"]["details"]["remedy"]
    resumed = paste(place, told)
    assert json.loads(resumed.stdout)["resumed_cases"] == len(done)
    assert json.loads((place / "out" / "manifest.json").read_text())["complete"] is True


def children_of_agent(place: Path) -> list[int]:
    """Processes that run the agent of this test."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if str(place / "marker").encode() in words:
                found.append(int(entry.name))
    return found


@pytest.fixture
def stuck(place: Path) -> Path:
    """One case is done at once; the agent does not come back from any other for an hour."""
    (place / "agent.py").write_text(
        "import json, sys, time\n"
        "if json.load(sys.stdin)['case_id'] != '0':\n    time.sleep(3600)\n"
        "json.dump({'assistant_output': 'x'}, sys.stdout)\n"
    )
    return place


def start_stuck(place: Path, out: str = "out", *more: str) -> subprocess.Popen[bytes]:
    agent = f"{sys.executable} -S -E agent.py {place / 'marker'}"
    return start(place, out, "--propose-command", agent, "--set", "limits.attempt.seconds=3600", *more)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@WHOLE_JOB
def test_interrupted_it_ends_children_that_do_not_end(stuck: Path, sent: signal.Signals) -> None:
    process = start_stuck(stuck)
    wait_until(lambda: journalled(stuck))
    assert children_of_agent(stuck)
    process.send_signal(sent)
    process.communicate(timeout=60)  # and not the hour that the agent would take
    assert process.returncode == 128 + sent
    assert children_of_agent(stuck) == []
    assert cases_done(stuck) == ["0"], "what was cut off counts"
    assert json.loads((stuck / "out" / "manifest.json").read_text())["case_count"] == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@WHOLE_JOB
def test_a_second_signal_stops_it_at_once(stuck: Path, sent: signal.Signals) -> None:
    process = start_stuck(stuck)
    wait_until(lambda: journalled(stuck))
    assert process.stderr is not None
    process.send_signal(sent)
    said = process.stderr.readline() + process.stderr.readline()
    assert b"Interrupt again to stop at once" in said
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + sent
    assert b" --resume\n" in err
    assert b"Traceback" not in err
    assert not (stuck / "out").exists()
    assert children_of_agent(stuck) == []


def test_an_interrupted_run_does_not_take_the_place_of_a_complete_pack(stuck: Path) -> None:
    suite = {"dataset_id": "d", "cases": [{"case_id": "0", "regex_patterns": ["x"]}]}
    whole = (stuck / "suite.json").read_text()
    (stuck / "suite.json").write_text(json.dumps(suite))
    complete = start_stuck(stuck)
    complete.communicate(timeout=60)
    assert complete.returncode == 0
    before = tree(stuck / "out")
    (stuck / "suite.json").write_text(whole)
    process = start_stuck(stuck, "out", "--fresh")
    wait_until(lambda: journalled(stuck))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"was left as it is" in err
    assert program.resuming(err.decode())
    assert tree(stuck / "out") == before


def test_interrupted_before_anything_is_done_there_is_nothing_to_show(stuck: Path) -> None:
    (stuck / "agent.py").write_text("import time\ntime.sleep(3600)\n")
    process = start_stuck(stuck)
    wait_until(lambda: children_of_agent(stuck))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"before any case was done" in err
    assert out == b""
    assert b"--resume" not in err, "there is nothing to resume"
    assert not (stuck / "out").exists()
    assert not (stuck / "out.journal").exists()
    assert children_of_agent(stuck) == []


RECORDED_AGENT = """
import os, time

def agent(task, call_tool):
    answer = call_tool("count", {"case": task["case_id"]})
    if task["case_id"] == "3":
        time.sleep(3600 if os.path.exists("stuck") else 0)
    return {"assistant_output": str(answer)}

def live(tool, arguments):
    with open("calls", "a") as log:
        log.write(arguments["case"] + "\\n")
    return {"token": os.environ["SOME_TOKEN"], "case": arguments["case"]}
"""


@crossed(sent=[signal.SIGKILL, signal.SIGINT], mode=["record", "auto"])
def test_what_was_recorded_survives_with_the_trial(place: Path, sent: signal.Signals, mode: str) -> None:
    (place / "recorded.py").write_text(RECORDED_AGENT)
    write_suite(place, *({"case_id": str(number)} for number in range(6)))
    more = ("--cassette", "tools.json", "--cassette-mode", mode)
    more += ("--tools", "recorded:live", "--agent", "python:recorded:agent")

    def begin(*further: str) -> Process:
        words = ["run-loop", "--suite", "suite.json", "--out", "out", "--run-id", "r"]
        words += ["--set", "limits.attempt.seconds=3600", "--format", "json", *more, *further]
        return program.start(*words, cwd=place, environ={"SOME_TOKEN": "tttttttttttt"}, own_group=True)

    (place / "stuck").touch()
    process = begin()
    wait_until(lambda: len(journalled(place)) >= 3 and len((place / "calls").read_text().split()) >= 4)
    process.send_signal(sent)
    process.communicate(timeout=60)
    assert cases_done(place) == ["0", "1", "2"]
    assert b"tttttttttttt" not in (place / "out.journal").read_bytes()
    (place / "stuck").unlink()
    resumed = begin("--resume")
    out, err = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, err
    assert json.loads(out)["resumed_cases"] == 3
    rows = json.loads((place / "tools.json").read_text())["calls"]
    assert [(row["case_id"], row["response"]["case"]) for row in rows] == [(str(n), str(n)) for n in range(6)]
    assert {row["response"]["token"] for row in rows} == {"[redacted:SOME_TOKEN]"}
    assert Counter((place / "calls").read_text().split()) == {**dict.fromkeys("01245", 1), "3": 2}
    recorded, calls = (place / "tools.json").read_bytes(), (place / "calls").read_bytes()
    again = begin("--resume")
    again.communicate(timeout=60)
    assert again.returncode == 0
    assert (place / "tools.json").read_bytes() == recorded, "recorded over what is complete"
    assert (place / "calls").read_bytes() == calls, "run again though it was complete"


# Conversations: none that had finished is held again, or lost; what broke off is held from its first turn

CONVERSATIONS, TURNS = 24, 4

ALIVE = """
import json, os, sys
log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for line in sys.stdin:
    task = json.loads(line)
    os.write(log, f"{task['case_id']}:{task['turn']}\\n".encode())
    print(json.dumps({"assistant_output": f"answer {task['turn']} to {task['input']}"}), flush=True)
"""


def start_conversations(place: Path, out: str, *more: str) -> Process:
    words = [
        "run-loop", "--suite", "suite.json", "--out", out, "--run-id", "r", "--parallel", "3",
        "--agent-command", f"{sys.executable} -S -E alive.py", "--set", "agent.keep_alive=true",
        "--judge-model", "scripted:script.json", "--max-repairs", "0", "--format", "json", *more,
    ]  # fmt: skip
    return program.start(*words, cwd=place, environ={"GITHUB_SHA": "0" * 40}, own_group=True)


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    (tmp_path / "alive.py").write_text(ALIVE)
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


def test_killed_at_any_moment_no_finished_conversation_is_held_again_or_lost(conversations: Path) -> None:
    killed = Killed(start_conversations, CONVERSATIONS, 0.2)
    expected = {f"{case}:{turn}": 1 for case in range(CONVERSATIONS) for turn in range(1, TURNS + 1)}
    assert killed.whole(conversations) == expected
    killed.again_and_again(conversations, amount(4, 15, 50))

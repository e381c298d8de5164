"""Agents that are Python functions run in a process of their own: what one does to it is its own failure."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e import program
from tests.e2e.left import is_running, journalled, trajectory, wait_until
from tests.e2e.program import Ended, Process, agent_eval, tree
from tests.extent import WHOLE_JOB, crossed

CASES = 12
BAD = "case-5"
HANG = ("hangs", "hangs_beside_others", "never_lets_go", "catches_everything", "on_one_loop")

FUNCTIONS = """
import asyncio, ctypes, os, signal, subprocess, sys, time
from pathlib import Path

HERE = os.getpid()
CALLS = [{"tool": "lookup", "arguments": {"n": 1}}]

def is_bad(task): return task["case_id"] == "case-5"
def log(text):
    with open("log", "a") as file: file.write(text + "\\n")

def plain(task, call_tool):
    found = call_tool("lookup", {"n": 1})
    if task["case_id"] == "case-3": raise ValueError("three")
    bad = task["mode"] == "propose" and int(task["case_id"][5:]) % 4 == 0
    return {"assistant_output": f"found {found}", "tool_calls": [{"tool": "bad"}] if bad else []}

def segfaults(task):
    if is_bad(task): ctypes.string_at(0)
    return "ok"
def exits(task):
    if is_bad(task): os._exit(3)
    return "ok"
def is_killed(task):
    if is_bad(task):
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    return "ok"
def slow_and_exits(task):
    if is_bad(task): os._exit(3)
    time.sleep(0.3)
    log(task["case_id"])
    return "ok"

def crashes_once(task):
    if is_bad(task) and task["mode"] == "propose": os._exit(3)
    return {"assistant_output": "ok", "tool_calls": CALLS}
def crashes_when_repairing(task):
    if is_bad(task) and task["mode"] == "repair": os._exit(3)
    return {"assistant_output": "first", "tool_calls": [{"tool": "bad"}] if is_bad(task) else CALLS}

def hangs(task, call_tool):
    if is_bad(task):
        call_tool("lookup", {"n": 1})
        child = subprocess.Popen(["sleep", "60"])
        log(f"{os.getpid()} {child.pid}")
        while True:
            try: time.sleep(60)
            except Exception: pass
    return "ok"
def never_lets_go(task):
    if is_bad(task):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        ctypes.PyDLL(None).sleep(3600)  # without letting another thread run Python, as a pattern may
    return "ok"
def catches_everything(task):
    while is_bad(task):
        try: time.sleep(60)
        except BaseException: log("caught")
    return "ok"

begun = 0
def together(task):
    global begun
    begun += 1
    until = time.monotonic() + 60
    while begun < 6 and time.monotonic() < until: time.sleep(0.01)
    print(f"printed {os.environ.get('AGENT_EVAL_SIGNING_KEY')}\\n", end="", flush=True)
    return f"{HERE == os.getpid()} {sys.stdin.read()!r} {os.environ['OF_THE_JOB']}"
def hangs_beside_others(task):
    log(task["case_id"])
    time.sleep(60 if is_bad(task) else 0.4)
    return "ok"

def costs(task):
    log(task["case_id"])
    return {"assistant_output": "ok", "cost_usd": 1.0}
def forks(task):
    if os.fork() == 0:
        return "the child comes back as well"
    os.wait()
    return "ok"

clients = []
async def on_one_loop(task, call_tool):
    loop = asyncio.get_running_loop()
    clients.append(loop)
    await asyncio.sleep(0.01)
    if task["case_id"] == "case-4": sys.exit(4)
    if is_bad(task): await asyncio.sleep(60)
    return f"{call_tool('lookup', {'n': 1})} {all(client is loop for client in clients)}"

def logged(task):
    log(task["case_id"])
    time.sleep(0.02)
    return {"assistant_output": "x" * 3000, "tool_calls": CALLS}
def takes_a_second(task):
    Path(f"begun-{os.getpid()}").touch()
    time.sleep(1)
    return "ok"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    metadata = {"tool_responses": {"lookup": "something"}}
    cases = [
        {"case_id": f"case-{number}", "policy": {"forbidden_tools": ["bad"]}, "metadata": metadata}
        for number in range(CASES)
    ]
    rows = [{"dataset_id": "d"}, *cases]
    (tmp_path / "suite.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def run(place: Path, function: str, *more: str, out: str = "out", suite: str = "suite.jsonl") -> Ended:
    return agent_eval(*command(function, *more, out=out, suite=suite), cwd=place)


def command(function: str, *more: str, out: str = "out", suite: str = "suite.jsonl") -> list[str]:
    of_run = ["run", "--suite", suite, "--out", out, "--run-id", "r", "--set", "evidence.layout=files"]
    limit = f"limits.attempt.seconds={2 if function in HANG else 60}"
    return [*of_run, "--format", "json", "--set", limit, "--agent", f"python:functions:{function}", *more]


def errors(place: Path) -> dict[str, tuple[str, str]]:
    """Case id to failure and reason, of each case that the agent did not come to the end of."""
    found = {}
    for path in (place / "out/cases").glob("*/verdicts.json"):
        row = json.loads(path.read_text())
        for verdict in row["verdicts"]:
            if verdict["judge_id"] == "execution" and verdict["outcome"] == "error":
                found[row["case_id"]] = (verdict["failure"], verdict["reason"])
    return found


def log(place: Path) -> list[str]:
    return (place / "log").read_text().splitlines()


def test_the_pack_does_not_depend_on_how_many_run_at_once(place: Path) -> None:
    for number, parallel in enumerate(("1", "3", "7")):
        more = ["--trials", "2", "--max-repairs", "1", "--parallel", parallel]
        assert run(place, "plain", *more, out=f"out-{number}").json()["summary"]["error_cases"] == 1
    first, *others = [tree(place / f"out-{number}") for number in range(3)]
    assert all(other == first for other in others)


@crossed(
    end=[("segfaults", "of SIGSEGV"), ("exits", "with exit code 3"), ("is_killed", "of SIGKILL")],
    parallel=["1", "2", "6"],
)
def test_function_that_ends_its_process_failed(place: Path, end: tuple[str, str], parallel: str) -> None:
    function, how = end
    summary = run(place, function, "--parallel", parallel).json()["summary"]
    assert (summary["total_cases"], summary["error_cases"]) == (CASES, 1)
    assert errors(place) == {BAD: ("agent_error", f"the agent ended its process: it died {how}")}


def test_what_ran_in_the_same_process_as_a_crash_is_run_again(place: Path) -> None:
    assert run(place, "slow_and_exits", "--parallel", "24").json()["complete"]
    assert list(errors(place)) == [BAD]
    assert set(log(place)) == {f"case-{number}" for number in range(CASES)} - {BAD}


def test_a_crash_is_repaired_by_the_next_attempt(place: Path) -> None:
    assert run(place, "crashes_once", "--max-repairs", "1").json()["summary"]["error_cases"] == 0
    first, second = trajectory(place, BAD)["metadata"]["attempt_history"]
    assert (first["failure"], first["mode"]) == ("agent_error", "propose")
    assert (second["response"]["assistant_output"], second["mode"]) == ("ok", "repair")


def test_a_crash_of_a_repair_keeps_the_attempts_before_it(place: Path) -> None:
    run(place, "crashes_when_repairing", "--max-repairs", "1", "--parallel", "2")
    first, second = trajectory(place, BAD)["metadata"]["attempt_history"]
    assert first["response"]["tool_calls"] == [{"tool": "bad", "arguments": {}}]
    assert (second["attempt"], second["failure"]) == (1, "agent_error")
    assert list(errors(place)) == [BAD]


@pytest.mark.parametrize("parallel", ["1", "6"])
@WHOLE_JOB
def test_a_function_that_hangs_is_ended_with_all_that_it_started(place: Path, parallel: str) -> None:
    run(place, "hangs", "--parallel", parallel)
    assert errors(place) == {BAD: ("timeout", "the agent did not end within 2 s")}
    kinds = [(event["actor"], event["type"]) for event in trajectory(place, BAD)["trace"]]
    said = ("agent", "message")
    assert kinds == [("user", "message"), ("agent", "tool_call"), ("tool", "tool_result"), said]
    assert not [pid for pid in log(place)[0].split() if is_running(int(pid))]


@pytest.mark.parametrize(
    ("function", "parallel"), [("never_lets_go", "2"), ("catches_everything", "2"), ("never_lets_go", "6")]
)
@WHOLE_JOB
def test_a_function_that_cannot_be_interrupted_is_killed_and_told_from_those_that_it_holds_up(
    place: Path, function: str, parallel: str
) -> None:
    run(place, function, "--parallel", parallel)
    assert errors(place) == {BAD: ("timeout", "the agent did not end within 2 s")}


def test_calls_share_one_process_with_its_state_and_what_it_prints_is_told_apart(place: Path) -> None:
    env = {"AGENT_EVAL_SIGNING_KEY": "k" * 40, "OF_THE_JOB": "seen"}
    ended = agent_eval(*command("together", "--parallel", "6"), cwd=place, environ=env)
    assert json.loads(ended.out)["summary"]["passed_cases"] == CASES
    assert ended.err.count("printed None") == CASES
    outputs = {trajectory(place, f"case-{number}")["trace"][-1]["output"] for number in range(CASES)}
    assert outputs == {"True '' seen"}


def test_what_runs_beside_a_function_that_hangs_is_not_run_again(place: Path) -> None:
    assert run(place, "hangs_beside_others", "--parallel", "4").json()["complete"]
    assert errors(place) == {BAD: ("timeout", "the agent did not end within 2 s")}
    assert Counter(log(place)) == Counter({f"case-{number}": 1 for number in range(CASES)})


def test_no_trial_begins_once_the_cost_limit_is_reached(place: Path) -> None:
    ended = run(place, "costs", "--max-run-cost", "3")
    assert ended.code == 4
    assert json.loads(ended.out)["cost_usd"] == 3
    assert log(place) == ["case-0", "case-1", "case-2"]


def test_a_process_that_the_function_forks_does_not_run_trials(place: Path) -> None:
    assert run(place, "forks").json()["summary"]["passed_cases"] == CASES
    assert errors(place) == {}
    assert {trajectory(place, f"case-{number}")["trace"][-1]["output"] for number in range(CASES)} == {"ok"}


@pytest.mark.parametrize("parallel", ["1", "6"])
@WHOLE_JOB
def test_async_functions_share_one_event_loop(place: Path, parallel: str) -> None:
    ended = run(place, "on_one_loop", "--parallel", parallel)
    assert ended.code == 0, ended.err
    assert errors(place) == {
        BAD: ("timeout", "the agent did not end within 2 s"),
        "case-4": ("agent_error", "the agent raised SystemExit: 4"),
    }
    assert trajectory(place, "case-7")["trace"][-1]["output"] == "something True"


LOAD = ("run", "--suite", "suite.jsonl", "--out", "out", "--agent", "python:broken:agent")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("raise ImportError('no such thing')", "cannot be loaded: ImportError: no such thing"),
        ("agent = 3", "is not a function"),
    ],
)
def test_an_agent_that_cannot_be_loaded_is_a_wrong_request(place: Path, text: str, problem: str) -> None:
    (place / "broken.py").write_text(text)
    ended = agent_eval(*LOAD, "--parallel", "2", cwd=place)
    assert (ended.code, ended.error["code"]) == (2, "usage_error")
    assert problem in ended.error["message"]
    assert not list(place.glob("out*"))


def test_an_agent_that_ends_the_process_when_it_is_imported_cannot_be_evaluated(place: Path) -> None:
    (place / "broken.py").write_text("import os; os._exit(7)")
    ended = agent_eval(*LOAD, cwd=place)
    assert (ended.code, ended.error["details"]["exit_code"]) == (4, 7)
    assert ended.error["message"] == "the agent's process died with exit code 7 while it loaded the agent"


@pytest.fixture
def start(place: Path) -> Iterator[Callable[..., Process]]:
    """Starts a run in a process group of its own."""
    started: list[Process] = []

    def begin(function: str, *more: str) -> Process:
        started.append(program.start(*command(function, *more), cwd=place, own_group=True, measured=False))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_interrupted_what_was_begun_ends_and_resumed_does_the_rest(
    place: Path, start: Callable[..., Process]
) -> None:
    process = start("takes_a_second", "--parallel", "2")
    wait_until(lambda: list(place.glob("begun-*")), "a trial has begun")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    done = json.loads(out)["summary"]["total_cases"]
    assert 0 < done < CASES
    assert not [path for path in place.glob("begun-*") if is_running(int(path.name.split("-")[1]))]
    resumed = run(place, "takes_a_second", "--parallel", "12", "--resume").json()
    assert (resumed["summary"]["total_cases"], resumed["resumed_cases"]) == (CASES, done)


def test_killed_at_any_moment_nothing_stays_or_is_lost(place: Path, start: Callable[..., Process]) -> None:
    more = ["--parallel", "3", "--trials", "4", "--resume"]
    for finished in (1, 9, 20, 33):
        process = start("logged", *more)
        wait_until(lambda least=finished: len(journalled(place)) >= least, "trials have finished")
        process.kill()
        process.communicate()
    done, before = journalled(place), Counter(log(place))
    assert len(done) == len(set(done)), "a trial is twice in the journal"
    assert start("logged", *more).wait(60) == 0
    again = Counter(log(place)) - before
    kept = Counter(case_id for case_id, _ in done)
    assert again == Counter({f"case-{number}": 4 for number in range(CASES)}) - kept
    assert not (place / "out.journal").exists()

"""`--executor dask` against a real scheduler and workers on this machine: scoring, and trials of an agent."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.e2e.program import Ended, agent_eval, environment, tree
from tests.extent import WHOLE_JOB
from tests.factories import make_case

# Not imported here: it changes how exceptions are pickled in the whole process.
pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="needs the extra dask")

CASES = 600


@dataclass(frozen=True)
class Cluster:
    address: str
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@contextmanager
def a_cluster(place: Path) -> Iterator[Cluster]:
    """A scheduler and two workers, each in an empty directory that no suite is in."""
    file = place / "scheduler.json"
    log = (place / "log").open("wb")

    def start(*command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *command], cwd=place,
            env=environment({"DASK_TEMPORARY_DIRECTORY": str(place)}), stdin=subprocess.DEVNULL, stdout=log,
            stderr=log,
        )  # fmt: skip

    local = ("--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file))
    scheduler = start("scheduler", *local, "--port", "0")
    workers = [start("worker", *local, "--nthreads", "1", "--no-nanny") for _ in range(2)]
    try:
        deadline = time.monotonic() + 60
        while not file.is_file():
            assert scheduler.poll() is None, (place / "log").read_text()
            assert time.monotonic() < deadline, (place / "log").read_text()
            time.sleep(0.1)
        yield Cluster(json.loads(file.read_text())["address"], workers)
    finally:
        # Killed and not asked to end: they would look for each other first.
        for process in (*workers, scheduler):
            process.kill()
        for process in (*workers, scheduler):
            process.wait()
        log.close()


def suite(place: Path, *, name: str = "suite.jsonl", last: str = "") -> Path:
    cases = [
        make_case(
            f"case-{number}",
            "escalate" if number % 5 == 0 else "lookup",
            policy={"forbidden_tools": ["escalate"]},
        )
        for number in range(CASES)
    ]
    lines = [json.dumps({"dataset_id": "many"}), *map(json.dumps, cases), *([last] if last else [])]
    (place / name).write_text("\n".join(lines) + "\n")
    return place / name


def run(place: Path, out: str, *more: str) -> Ended:
    arguments = ["run", "--suite", "suite.jsonl", "--out", out, "--run-id", "r", *more]
    return agent_eval(*arguments, "--format", "json", cwd=place)


def on(cluster: Cluster) -> list[str]:
    return ["--executor", f"dask:{cluster.address}"]


@pytest.mark.parametrize("layout", ["compact", "files"])
def test_cluster_writes_the_same_pack_as_this_machine(tmp_path: Path, cluster: Cluster, layout: str) -> None:
    suite(tmp_path)
    here = run(tmp_path, "here", "--set", f"evidence.layout={layout}").json()
    there = run(tmp_path, "there", "--set", f"evidence.layout={layout}", *on(cluster)).json()
    assert here["summary"] == there["summary"]
    assert here["summary"]["passed_cases"] == CASES * 4 // 5
    assert tree(tmp_path / "here") == tree(tmp_path / "there")


@pytest.mark.parametrize("last", ['{"case_id": "case-3"}', '{"case_id": "x", "regex_patterns": ["("]}', "{"])
@WHOLE_JOB
def test_a_wrong_suite_is_told_as_on_this_machine(tmp_path: Path, cluster: Cluster, last: str) -> None:
    suite(tmp_path, last=last)
    here, there = run(tmp_path, "here"), run(tmp_path, "there", *on(cluster))
    assert (here.code, there.code) == (2, 2)
    assert here.error == there.error
    assert not (tmp_path / "there").exists()


def test_a_judge_that_the_workers_do_not_have_is_not_evaluable(tmp_path: Path, cluster: Cluster) -> None:
    suite(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from agent_eval.judges.base import BaseJudge\n"
        "from agent_eval.judges.builtin.regex import RegexJudge\n\n"
        "class Judge(BaseJudge):\n"
        "    judge_id, Config = 'mine', RegexJudge.Config\n"
        "    def evaluate(self, case, trace):\n"
        "        return self.passed(case, 'fine')\n"
    )
    assert run(tmp_path, "here", "--judge", "mine:Judge").code == 0
    there = run(tmp_path, "there", "--judge", "mine:Judge", *on(cluster))
    assert there.code != 0
    assert "mine" in there.error["message"]


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [("tcp://127.0.0.1:1", 4, "cannot be reached"), ("telnet://x:1", 2, "no address of a Dask scheduler")],
)
@WHOLE_JOB
def test_a_scheduler_that_is_not_there(tmp_path: Path, address: str, code: int, said: str) -> None:
    suite(tmp_path)
    ended = run(tmp_path, "there", "--executor", f"dask:{address}")
    assert ended.code == code
    assert said in ended.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--executor", "dask"], "--executor is `local`, or `dask:`"),
        (["--dask-scheduler", "tcp://x:1"], "--dask-scheduler is gone"),
    ],
)
def test_flags_that_do_not_go_together(tmp_path: Path, flags: list[str], said: str) -> None:
    suite(tmp_path)
    ended = run(tmp_path, "out", *flags)
    assert ended.code == 2
    assert said in ended.error["message"]


AGENT = """
import json, os, sys, time
from pathlib import Path
task = json.load(sys.stdin)
Path(sys.argv[1], f"{task['case_id']} {os.getppid()} {time.time_ns()}").touch()
time.sleep(float(sys.argv[2]))
repaired = task["mode"] == "repair"
print(json.dumps({"assistant_output": "hello", "tool_calls": [] if repaired else [{"tool": "escalate"}]}))
"""


def run_trials(place: Path, out: str, seconds: float, *more: str) -> Ended:
    (place / "agent.py").write_text(AGENT)
    (place / "log").mkdir(exist_ok=True)
    metadata = {"tool_responses": {"escalate": "no"}}
    policy = {"forbidden_tools": ["escalate"]}
    rows = [{"case_id": f"case-{number}", "policy": policy, "metadata": metadata} for number in range(8)]
    (place / "live.jsonl").write_text("\n".join(map(json.dumps, [{"dataset_id": "live"}, *rows])) + "\n")
    program = f"{sys.executable} -S -E {place / 'agent.py'} {place / 'log'} {seconds}"
    of_run = ["run", "--suite", "live.jsonl", "--out", out, "--run-id", "r", "--agent-command", program]
    return agent_eval(*of_run, "--format", "json", *more, cwd=place)


def test_trials_run_on_all_workers_at_once_and_give_the_same_pack(tmp_path: Path, cluster: Cluster) -> None:
    there = run_trials(tmp_path, "there", 0.5, "--max-repairs", "1", *on(cluster))
    assert there.json()["summary"]["passed_cases"] == 8
    begun = [path.name.split() for path in (tmp_path / "log").iterdir()]
    assert len(begun) == 16, "each trial, and its repair"
    assert len({supervisor for _, supervisor, _ in begun}) == 2, "one of each worker"
    assert run_trials(tmp_path, "here", 0.5, "--max-repairs", "1").json()["summary"]["passed_cases"] == 8
    assert tree(tmp_path / "here") == tree(tmp_path / "there")


def test_a_function_runs_on_the_workers(tmp_path: Path, cluster: Cluster) -> None:
    suite(tmp_path)
    ended = run(tmp_path, "there", "--agent", "python:json:dumps", "--case", "case-1", *on(cluster))
    assert ended.json()["summary"]["passed_cases"] == 1


@WHOLE_JOB
def test_a_worker_that_dies_loses_no_trial(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with a_cluster(tmp_path / "cluster") as cluster:

        def kill() -> None:
            while not list((tmp_path / "log").glob("*")):
                time.sleep(0.05)
            cluster.workers[0].kill()

        (tmp_path / "log").mkdir()
        killer = threading.Thread(target=kill)
        killer.start()
        ended = run_trials(tmp_path, "out", 1, "--max-repairs", "1", *on(cluster))
        killer.join()
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["summary"]["passed_cases"] == 8


def test_what_needs_this_machine_is_not_sent_to_a_cluster(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / "tools.py").write_text("def call(tool, arguments): return 1\n")
    ended = run_trials(tmp_path, "out", 0, "--tools", "tools:call", *on(cluster))
    assert ended.code == 2
    assert "stay on this machine" in ended.error["message"]
    assert not list(tmp_path.glob("out*"))

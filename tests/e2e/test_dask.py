"""`run --executor dask` against a real scheduler and workers on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
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
    """A scheduler and two workers, each in an empty directory that no suite is in."""
    place = tmp_path_factory.mktemp("cluster")
    file = place / "scheduler.json"
    log = (place / "log").open("wb")

    def start(*command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *command],
            cwd=place,
            env=environment({"DASK_TEMPORARY_DIRECTORY": str(place)}),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )

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
    return agent_eval(*arguments, cwd=place)


def on(cluster: Cluster) -> list[str]:
    return ["--executor", "dask", "--dask-scheduler", cluster.address]


@pytest.mark.parametrize("layout", ["compact", "files"])
def test_a_cluster_writes_the_pack_that_this_machine_writes(
    tmp_path: Path, cluster: Cluster, layout: str
) -> None:
    suite(tmp_path)
    here = run(tmp_path, "here", "--layout", layout).json()
    there = run(tmp_path, "there", "--layout", layout, *on(cluster)).json()
    assert here["summary"] == there["summary"]
    assert here["summary"]["passed_cases"] == CASES * 4 // 5
    assert tree(tmp_path / "here") == tree(tmp_path / "there")


@pytest.mark.parametrize("last", ['{"case_id": "case-3"}', '{"case_id": "x", "regex_patterns": ["("]}', "{"])
@WHOLE_JOB
def test_what_is_wrong_with_a_suite_is_told_as_on_this_machine(
    tmp_path: Path, cluster: Cluster, last: str
) -> None:
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
    ended = run(tmp_path, "there", "--executor", "dask", "--dask-scheduler", address)
    assert ended.code == code
    assert said in ended.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--executor", "dask"], "--dask-scheduler"),
        (["--dask-scheduler", "tcp://x:1"], "--executor dask"),
        (["--executor", "dask", "--dask-scheduler", "tcp://x:1", "--agent-command", "x"], "recorded traces"),
    ],
)
def test_flags_that_do_not_go_together(tmp_path: Path, flags: list[str], said: str) -> None:
    suite(tmp_path)
    ended = run(tmp_path, "out", *flags)
    assert ended.code == 2
    assert said in ended.error["message"]

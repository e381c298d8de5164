"""A large suite of recorded traces is scored by several processes, which leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.left import is_running
from tests.e2e.program import agent_eval, start, tree
from tests.factories import make_case

CASES = 2_100
RUN = ("run", "suite.jsonl", "--out", "pack", "--run-id", "r")
PROCESSORS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

pytestmark = pytest.mark.skipif(len(PROCESSORS) < 2, reason="needs Linux and two processors")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite that is worth two processes."""
    place = tmp_path_factory.mktemp("large")
    cases = (make_case(f"case-{number}", *["lookup"] * 20) for number in range(CASES))
    lines = ({"dataset_id": "large"}, *cases)
    (place / "suite.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return place


@pytest.fixture
def processors() -> Iterator[Callable[[set[int]], None]]:
    """Sets which processors commands have that begin afterwards."""
    yield lambda usable: os.sched_setaffinity(0, usable)
    os.sched_setaffinity(0, PROCESSORS)


def workers(pid: int) -> set[int]:
    """The processes that score, once both are there."""
    found: list[str] = []
    deadline = time.monotonic() + 30
    while len(found) < 2:
        assert is_running(pid), "nothing was scored by other processes"
        assert time.monotonic() < deadline
        time.sleep(0.005)
        with suppress(FileNotFoundError):
            found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return set(map(int, found))


def test_one_process_and_several_write_one_pack(place: Path, processors: Callable[[set[int]], None]) -> None:
    written = []
    for usable in ({min(PROCESSORS)}, PROCESSORS):
        processors(usable)
        assert agent_eval(*RUN, cwd=place, fresh=True).code == 0
        written.append(tree(place / "pack"))
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("ending", "code", "told"),
    [
        (signal.SIGINT, 130, "Interrupted by Ctrl-C."),
        (signal.SIGTERM, 143, "Ended by SIGTERM."),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_run_that_is_ended_leaves_no_process(
    place: Path, ending: signal.Signals, code: int, told: str
) -> None:
    process = start(*RUN, cwd=place, measured=False)
    scoring = workers(process.pid)
    process.send_signal(ending)
    _, err = process.communicate()
    assert process.returncode == code
    assert told in err.decode()
    deadline = time.monotonic() + 10
    while any(map(is_running, scoring)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_running, scoring))


def test_a_process_that_is_killed_ends_the_run_without_a_pack(place: Path) -> None:
    process = start("run", "suite.jsonl", "--out", "killed", cwd=place, measured=False)
    os.kill(min(workers(process.pid)), signal.SIGKILL)
    _, err = process.communicate()
    error = json.loads(err.splitlines()[-1])["error"]
    assert (process.returncode, error["code"]) == (4, "not_evaluable")
    assert "were not scored: a process that scores was ended" in error["message"]
    assert "memory" in error["details"]["remedy"]
    assert not (place / "killed").exists()


def test_an_error_in_a_late_shard_is_that_of_one_process(place: Path) -> None:
    lines = (place / "suite.jsonl").read_text().splitlines()
    lines[1_900] = "garbage"
    (place / "broken.jsonl").write_text("\n".join(lines))
    error = agent_eval("run", "broken.jsonl", "--out", "broken", cwd=place).error
    assert error["code"] == "validation_error"
    assert "line 1901" in error["message"]
    assert not (place / "broken").exists()

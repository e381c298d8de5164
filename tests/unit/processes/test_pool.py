"""The program's side of a supervisor, against one that misbehaves."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent_eval.errors import FailureKind
from agent_eval.processes.child import ChildLimits, ChildResult, run_child
from agent_eval.processes.pool import SUPERVISORS, SupervisorLink, SupervisorLost, Supervisors
from agent_eval.processes.supervisor import PROCESS_ID
from agent_eval.processes.thread_pool import ThreadPool
from tests.e2e.left import wait_until


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Stands for a supervisor that does nothing."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield process
        process.kill()


@pytest.fixture
def peers(sleeper: subprocess.Popen[bytes]) -> Iterator[tuple[SupervisorLink, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.sendall(PROCESS_ID.pack(sleeper.pid))
    link = SupervisorLink(ours)
    yield link, theirs
    link.close()
    theirs.close()


def test_supervisor_that_does_not_answer_is_killed(
    peers: tuple[SupervisorLink, socket.socket], sleeper: subprocess.Popen[bytes]
) -> None:
    link, _ = peers
    with pytest.raises(SupervisorLost):
        link.answer(timeout=0.01)
    link.destroy()
    assert sleeper.wait() == -9


def test_process_id_of_a_supervisor_that_is_gone_is_left_alone(
    peers: tuple[SupervisorLink, socket.socket], sleeper: subprocess.Popen[bytes]
) -> None:
    link, theirs = peers
    theirs.close()
    with pytest.raises(SupervisorLost):
        link.answer()
    link.destroy()
    assert sleeper.poll() is None


def test_request_to_a_supervisor_that_is_gone_starts_nothing(
    peers: tuple[SupervisorLink, socket.socket], sleeper: subprocess.Popen[bytes]
) -> None:
    link, theirs = peers
    with open(os.devnull, "rb") as null:
        link.start("true", ["true"], {}, "/", [null.fileno()] * 3)
        theirs.close()  # with the request unread, so that the next reading is an error
        with pytest.raises(SupervisorLost):
            link.start("true", ["true"], {}, "/", [null.fileno()] * 3)
    link.kill()
    link.destroy()
    assert sleeper.poll() is None


def test_supervisor_that_dies_before_it_is_born() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(SupervisorLost):
        SupervisorLink(ours)


ENV = {"PATH": os.environ["PATH"]}


@contextmanager
def sleeping(place: Path) -> Iterator[list[ChildResult]]:
    """A child that runs, and where its result will be at the end."""
    ended: list[ChildResult] = []
    command = ["sh", "-c", f"touch {place / 'runs'}; exec sleep 3600"]
    thread = threading.Thread(
        target=lambda: ended.append(run_child(command, env=ENV, limits=ChildLimits(3600)))
    )
    thread.start()
    wait_until((place / "runs").exists)
    yield ended
    thread.join(60)


def test_children_are_ended_on_request_and_others_may_follow(tmp_path: Path) -> None:
    with sleeping(tmp_path) as ended:
        SUPERVISORS.end_children()
    assert [result.failure for result in ended] == [FailureKind.AGENT_ERROR]
    assert run_child(["true"], env=ENV).failure is None


def test_closing_ends_what_runs(tmp_path: Path) -> None:
    with closing(Supervisors()) as supervisors, pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent_eval.processes.child.SUPERVISORS", supervisors)
        with sleeping(tmp_path) as ended:
            supervisors.close()
    assert [result.failure for result in ended] == [FailureKind.AGENT_ERROR]


# Threads: functions that wait are called at the same time, and none keeps the process alive


def test_functions_wait_at_the_same_time_and_results_keep_their_order():
    together = threading.Barrier(3, timeout=30)
    with ThreadPool(3) as pool:
        futures = [pool.submit(lambda number=number: (together.wait(), number)[1]) for number in range(3)]
        assert [future.result() for future in futures] == [0, 1, 2]


def test_no_more_threads_are_started_than_allowed():
    names = set()
    with ThreadPool(2) as pool:
        for future in [pool.submit(lambda: names.add(threading.get_ident())) for _ in range(20)]:
            future.result()
    assert 1 <= len(names) <= 2


def test_an_exception_is_raised_where_the_result_is_asked_for():
    def broken() -> None:
        raise LookupError("missing")

    with ThreadPool(1) as pool:
        future = pool.submit(broken)
        with pytest.raises(LookupError, match="missing"):
            future.result()
        assert pool.submit(lambda: 4).result() == 4


def test_what_has_not_begun_is_dropped():
    begun, may_end, later = threading.Event(), threading.Event(), threading.Event()
    with ThreadPool(1) as pool:
        first = pool.submit(lambda: (begun.set(), may_end.wait(30)))
        pool.submit(later.set)
        assert begun.wait(30)
    may_end.set()
    assert first.result(timeout=30)
    for thread in pool._threads:
        thread.join(30)
    assert not later.is_set()


def test_a_function_that_waits_keeps_no_process_alive():
    code = (
        "from agent_eval.processes.thread_pool import ThreadPool\n"
        "import threading\n"
        "begun = threading.Event()\n"
        "with ThreadPool(1) as pool:\n"
        "    pool.submit(lambda: (begun.set(), threading.Event().wait(600)))\n"
        "    begun.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    assert done.returncode == 0

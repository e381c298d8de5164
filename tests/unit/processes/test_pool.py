"""The program's side of a supervisor, against one that misbehaves."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from agent_eval.errors import FailureKind
from agent_eval.processes.child import ChildLimits, ChildResult, run_child
from agent_eval.processes.pool import SUPERVISORS, SupervisorLink, SupervisorLost, Supervisors
from agent_eval.processes.supervisor import PROCESS_ID


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


def sleeping() -> tuple[threading.Thread, list[ChildResult]]:
    """A thread that waits for a child, and where its result will be."""
    ended: list[ChildResult] = []
    limits = ChildLimits(3600)
    thread = threading.Thread(
        target=lambda: ended.append(run_child(["sleep", "3600"], env=ENV, limits=limits))
    )
    thread.start()
    return thread, ended


def test_children_are_ended_on_request_and_others_may_follow() -> None:
    thread, ended = sleeping()
    deadline = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < deadline:
        SUPERVISORS.end_children()
        thread.join(0.05)
    assert [result.failure for result in ended] == [FailureKind.AGENT_ERROR]
    assert run_child(["true"], env=ENV).failure is None


def test_closing_ends_what_runs() -> None:
    with closing(Supervisors()) as supervisors, pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent_eval.processes.child.SUPERVISORS", supervisors)
        thread, ended = sleeping()
        deadline = time.monotonic() + 60
        while not supervisors._in_use and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        supervisors.close()
        thread.join(30)
    assert [result.failure for result in ended] == [FailureKind.AGENT_ERROR]

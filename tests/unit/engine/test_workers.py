"""Workers: how shards are shared out, and that no process outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent_eval.engine.parallel_scoring import score_claimed
from agent_eval.engine.plan import JudgePlan, ScoringJob
from agent_eval.engine.shard import ShardOutcome
from agent_eval.engine.workers import Claims, Inbox, Outbox, can_fork, claim
from agent_eval.evidence.writer import PackTarget
from tests.unit.engine.conftest import MakeSuite

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def claims() -> Iterator[Claims]:
    claims = Claims(range(50_000))
    yield claims
    claims.close()


@pytest.fixture
def mail() -> Iterator[tuple[Inbox, Outbox]]:
    reader, writer = os.pipe()
    inbox, outbox = Inbox(reader), Outbox(writer)
    yield inbox, outbox
    for end in (reader, writer):
        with suppress(OSError):
            os.close(end)


def test_numbers_are_claimed_once_in_order() -> None:
    claims = Claims([0, 1, 2, 30, 4])
    assert claims.refill() == [0, 1, 2, 30, 4]
    assert claims.waiting() == 5
    assert [claim(claims.reader) for _ in range(7)] == [0, 1, 2, 30, 4, None, None]
    claims.close()


def test_more_numbers_than_the_pipe_holds_follow_as_it_empties(claims: Claims) -> None:
    put, seen = [], []
    while True:
        put += claims.refill()
        number = claim(claims.reader)
        if number is None:
            break
        seen.append(number)
    assert seen == put == list(range(50_000))


def test_no_more_numbers_are_handed_out_than_asked_for(claims: Claims) -> None:
    assert claims.refill(2) == [0, 1]
    assert claims.waiting() == 2
    assert claim(claims.reader) == 0
    assert claims.refill(1) == [2]
    assert claims.refill(0) == []
    assert claims.waiting() == 2


def test_withdrawn_numbers_cannot_be_claimed(claims: Claims) -> None:
    claims.refill(4)
    assert claim(claims.reader) == 0
    assert claims.withdraw() == [1, 2, 3]
    assert claims.refill() == []
    assert claim(claims.reader) is None
    assert claims.withdraw() == []


def test_messages_arrive_whole_and_in_order_however_they_are_cut(mail: tuple[Inbox, Outbox]) -> None:
    inbox, outbox = mail
    sent = [{"number": number, "text": "x" * (number * 5000)} for number in range(100)]

    def send() -> None:
        for message in sent:
            outbox.send(message)
        outbox.close()

    sender = threading.Thread(target=send)
    sender.start()
    received: list[object] = []
    while len(received) < len(sent):
        received += inbox.receive()
    sender.join()
    assert received == sent
    with pytest.raises(EOFError):
        inbox.receive()


def test_process_with_several_threads_is_not_forked() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        done.set()
        thread.join()


def test_fork_is_not_used_where_threads_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not can_fork()


@pytest.fixture
def job(make_suite: MakeSuite, tmp_path: Path) -> ScoringJob:
    root = tmp_path / "root"
    root.mkdir()
    target = PackTarget(root, "compact", "run", "demo")
    target.prepare()
    return ScoringJob(make_suite(600), JudgePlan(("policy",)), target)


def test_worker_sends_the_outcome_of_every_shard_it_claims(
    job: ScoringJob, mail: tuple[Inbox, Outbox]
) -> None:
    claims = Claims(range(3))
    claims.refill()
    score_claimed(job, job.plan.load(), claims.reader, mail[1])
    outcomes = mail[0].receive()
    assert all(isinstance(outcome, ShardOutcome) for outcome in outcomes)
    assert [(outcome.index, len(outcome.ids), outcome.error) for outcome in outcomes] == [
        (0, 250, None),
        (1, 250, None),
        (2, 100, None),
    ]
    claims.close()


def test_worker_stops_when_its_parent_is_gone(
    job: ScoringJob, mail: tuple[Inbox, Outbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = Claims(range(3))
    claims.refill()
    parents = iter([1234, 1234, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents))
    score_claimed(job, job.plan.load(), claims.reader, mail[1])
    assert len(mail[0].receive()) == 1
    assert claim(claims.reader) == 1
    claims.close()


def test_worker_stops_when_its_parent_stops_reading(job: ScoringJob, mail: tuple[Inbox, Outbox]) -> None:
    claims = Claims(range(3))
    claims.refill()
    mail[0].close()
    with pytest.raises(BrokenPipeError):
        score_claimed(job, job.plan.load(), claims.reader, mail[1])
    assert claim(claims.reader) == 1
    claims.close()


SCRIPT = textwrap.dedent(
    """
    import os, sys
    from pathlib import Path
    from agent_eval.contracts import RunConfig
    from agent_eval.engine import JudgePlan, parallel_scoring, score_suite
    from agent_eval.suites import open_suite
    from tests.unit.engine import plugins

    suite, out, kind, fork = sys.argv[1:]
    if fork == "spawn":
        parallel_scoring.can_fork = lambda: False
    os.environ["AGENT_EVAL_TEST_PARENT"] = str(os.getpid())
    config = RunConfig(run_id="r", dataset_id="d", started_at="2026-01-01T00:00:00Z", judges=["policy"])
    watched = getattr(plugins, kind).of(open_suite(Path(suite)))
    score_suite(watched, JudgePlan(("policy",)), config, Path(out), workers=3)
    """
)


def start(make_suite: MakeSuite, tmp_path: Path, marks: Path, kind: str, how: str) -> subprocess.Popen[str]:
    """A process that scores, in a process group of its own, once all of its workers are at it."""
    suite = make_suite(6 * 250)
    (tmp_path / "packs").mkdir()
    arguments = [str(suite.path), str(tmp_path / "packs/pack"), kind, how]
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        cwd=PROJECT,
        # What is killed leaves broken coverage data behind.
        env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")},
    )
    wait_until(lambda: len(list(marks.iterdir())) == 3, "three processes judge")
    return process


def wait_until(condition: object, what: str) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_interrupt_ends_every_process_and_leaves_nothing(
    make_suite: MakeSuite, tmp_path: Path, marks: Path, how: str
) -> None:
    process = start(make_suite, tmp_path, marks, "Endless", how)
    # As a terminal does on Ctrl-C: to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert said.count("Traceback") == 1
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert not [mark for mark in marks.iterdir() if is_running(int(mark.name))]
    assert list((tmp_path / "packs").iterdir()) == []


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_end_when_their_parent_is_killed(
    make_suite: MakeSuite, tmp_path: Path, marks: Path, how: str
) -> None:
    process = start(make_suite, tmp_path, marks, "Slow", how)
    process.kill()
    process.communicate(timeout=60)
    wait_until(
        lambda: not [mark for mark in marks.iterdir() if is_running(int(mark.name))], "all workers are gone"
    )
    assert not (tmp_path / "packs/pack").exists()

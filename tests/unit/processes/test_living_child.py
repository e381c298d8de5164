"""Programs that are asked several times: one line in, one line out, within limits, and no survivors."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.processes.child import ChildLimits, ChildNotStarted
from agent_eval.processes.living_child import ConversingChild
from tests.e2e.left import is_running, wait_until

ENV = {"PATH": os.environ["PATH"]}
started: list[ConversingChild] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    while started:
        started.pop().close()


def child(code: str, **options: str) -> ConversingChild:
    program = "import sys, os, time\nline = sys.stdin.readline\n" + code
    started.append(ConversingChild([sys.executable, "-c", program], env=ENV, **options))
    return started[-1]


def test_one_process_answers_every_line() -> None:
    talker = child("while text := line(): print(os.getpid(), text.strip(), flush=True)")
    first, second = talker.ask(b"hello"), talker.ask(b"bye")
    assert (first.failure, second.failure) == (None, None)
    assert first.stdout.split()[0] == second.stdout.split()[0]
    assert (first.stdout.split()[1], second.stdout.split()[1]) == (b"hello", b"bye")


def test_lines_larger_than_a_pipe_go_both_ways() -> None:
    talker = child("while text := line(): print(text.strip() * 2, flush=True)")
    assert len(talker.ask(b"x" * 300_000).stdout) == 600_000


def test_standard_error_belongs_to_the_turn_that_wrote_it() -> None:
    code = "while text := line(): print(text.strip(), file=sys.stderr, flush=True); print('ok', flush=True)"
    talker = child(code)
    written = b"".join(talker.ask(word).stderr for word in (b"one", b"two", b"three"))
    assert written.startswith(b"one\ntwo")


@pytest.mark.parametrize(
    ("code", "limits", "failure", "words"),
    [
        ("line(); sys.exit(3)", {}, FailureKind.AGENT_ERROR, "exited with code 3 without an answer"),
        ("line(); os.kill(os.getpid(), 9)", {}, FailureKind.AGENT_ERROR, "was ended by SIGKILL"),
        ("pass", {}, FailureKind.AGENT_ERROR, "ended without an answer"),
        ("line(); os.close(1); time.sleep(60)", {}, FailureKind.AGENT_ERROR, "without an answer"),
        ("line(); time.sleep(60)", {"seconds": 0.3}, FailureKind.TIMEOUT, "did not end within 0.3 s"),
        ("line(); print('x' * 9000)", {"stdout_bytes": 100}, FailureKind.OUTPUT_LIMIT, "more than 100 bytes"),
        ("line(); print('x' * 9000, file=sys.stderr, flush=True); time.sleep(60)", {"stderr_bytes": 100},
         FailureKind.OUTPUT_LIMIT, "more than 100 bytes to standard error"),
    ],
)  # fmt: skip
def test_a_turn_without_an_answer_ends_the_program(
    code: str, limits: dict[str, float], failure: FailureKind, words: str
) -> None:
    talker = child(code)
    result = talker.ask(b"{}", ChildLimits(**limits))  # type: ignore[arg-type]
    assert result.failure is failure
    assert words in result.problem
    again = talker.ask(b"{}")
    assert (again.failure, again.problem) == (FailureKind.AGENT_ERROR, "has ended before this turn")


def test_an_answer_before_the_end_counts_and_the_next_turn_fails() -> None:
    talker = child("line(); print('last', flush=True)")
    assert talker.ask(b"{}").stdout == b"last"
    assert talker.ask(b"{}").failure is FailureKind.AGENT_ERROR


def test_a_second_line_in_a_turn_is_refused_in_the_next() -> None:
    talker = child("while text := line(): print('one\\ntwo', flush=True)")
    assert talker.ask(b"{}").stdout == b"one"
    refused = talker.ask(b"{}")
    assert (refused.failure, refused.problem) == (
        FailureKind.PARSE_ERROR,
        "wrote more than one line in a turn",
    )


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_closing_ends_the_program_with_everything_that_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess\nline()\n"
        "detached = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "print(os.getpid(), detached.pid, flush=True)\nline()"
    )
    talker = child(code, cwd=str(tmp_path))
    pids = [int(pid) for pid in talker.ask(b"{}").stdout.split()]
    assert all(map(is_running, pids))
    talker.close()
    wait_until(lambda: not any(map(is_running, pids)), "they have ended")
    talker.close()


def test_a_program_that_does_not_exist_is_refused() -> None:
    missing = ConversingChild(["no-such-program"], env=ENV)
    with pytest.raises(ChildNotStarted):
        missing.ask(b"{}")
    with pytest.raises(InvalidInput):
        ConversingChild([], env=ENV)

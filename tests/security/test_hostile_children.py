"""Children that do what they can to outlive their run, to block it or to fill its memory.

Every one of them carries a mark in its arguments, by which survivors are found in /proc.
"""

import os
import resource
import secrets
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_eval.errors import FailureKind
from agent_eval.processes.child import ChildLimits, ChildResult, allowed_environment, run_child
from tests.e2e.left import wait_until
from tests.extent import WHOLE_JOB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="orphans can be inherited on Linux only")

MIB = 1 << 20
FOREVER = "time.sleep(3600)"
SLEEPER = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)', mark]{})"


def marked_processes(mark: str) -> list[int]:
    """Living processes whose arguments name the mark; zombies have no arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in arguments:
                found.append(int(entry.name))
    return found


@pytest.fixture
def mark() -> Iterator[str]:
    """A word that the children of this test carry."""
    word = f"mark-{secrets.token_hex(8)}"
    yield word
    for pid in marked_processes(word):
        os.kill(pid, 9)


def run(
    code: str, mark: str, *, seconds: float = 30.0, stdin: bytes = b"{}", cap: int = 8 * MIB
) -> ChildResult:
    """Run Python code that knows its mark."""
    head = "import os, signal, subprocess, sys, time\nmark = sys.argv[1]\n"
    return run_child(
        [sys.executable, "-c", head + textwrap.dedent(code), mark],
        stdin=stdin,
        env=allowed_environment(os.environ),
        limits=ChildLimits(seconds=seconds, stdout_bytes=cap, stderr_bytes=cap),
    )


def peak_memory() -> int:
    """Bytes this process has used at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


HANGING = {
    "it hangs with a grandchild": f"{SLEEPER.format('')}; {FOREVER}",
    "its grandchild detaches itself": f"""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                {FOREVER}
            os._exit(0)
        {FOREVER}
    """,
    "it starts a hundred others": f"for _ in range(100): {SLEEPER.format('')}\n{FOREVER}",
    "it changes its id and session all the time": f"""
        if os.fork() == 0:
            while True:
                if os.fork():
                    os._exit(0)
                os.setsid()
        {FOREVER}
    """,
    "it never reads its input": FOREVER,
    "it ignores every signal it can": f"""
        for number in signal.valid_signals() - {{signal.SIGKILL, signal.SIGSTOP}}:
            signal.signal(number, signal.SIG_IGN)
        {FOREVER}
    """,
    "it stops its supervisor": f"{SLEEPER.format('')}; os.kill(os.getppid(), signal.SIGSTOP); {FOREVER}",
}


@pytest.mark.parametrize("what", HANGING)
def test_child_that_does_not_end_times_out_and_leaves_no_process(mark: str, what: str) -> None:
    seconds = 1.0 if "hundred" in what else 0.5
    stdin = b"x" * (16 * MIB) if "input" in what else b"{}"
    result = run(HANGING[what], mark, seconds=seconds, stdin=stdin)
    assert (result.failure, result.exit_code, result.survivors) == (FailureKind.TIMEOUT, -9, 0)
    assert result.problem == f"did not end within {seconds:g} s"
    assert marked_processes(mark) == []


@pytest.mark.parametrize(
    ("code", "stdin"),
    [
        (f"{SLEEPER.format(', start_new_session=True')}; print('done')", b"{}"),
        (f"{SLEEPER.format('')}; print('done')", b"{}"),
        ("print('done')", b"x" * (16 * MIB)),
    ],
    ids=["a detached grandchild is left", "a grandchild holds its output", "it does not read its input"],
)
def test_child_that_ends_has_ended_whatever_it_leaves(mark: str, code: str, stdin: bytes) -> None:
    result = run(code, mark, seconds=60.0, stdin=stdin)
    assert (result.failure, result.stdout) == (None, b"done\n")
    assert marked_processes(mark) == []


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_flood_of_a_gibibyte_is_stopped_at_its_cap(mark: str, stream: str) -> None:
    run("pass", mark)  # what is needed once is not counted
    before = peak_memory()
    result = run(f"for _ in range(1024): sys.{stream}.buffer.write(b'x' * (1 << 20))", mark)
    assert result.failure is FailureKind.OUTPUT_LIMIT
    assert "wrote more than 8388608 bytes to standard" in result.problem
    assert len(getattr(result, stream)) == 8 * MIB
    assert peak_memory() - before < 64 * MIB
    assert marked_processes(mark) == []


def test_child_that_writes_before_it_reads_is_not_blocked(mark: str) -> None:
    code = """
        sys.stdout.buffer.write(b'o' * (4 << 20))
        sys.stderr.buffer.write(b'e' * (4 << 20))
        sys.stdout.flush()
        print(len(sys.stdin.buffer.read()))
    """
    result = run(code, mark, stdin=b"x" * (4 * MIB))
    assert result.failure is None
    assert result.stdout == b"o" * (4 * MIB) + b"4194304\n"
    assert result.stderr == b"e" * (4 * MIB)


def test_child_that_kills_its_supervisor_is_ended_by_the_nursery(mark: str) -> None:
    code = f"{SLEEPER.format(', start_new_session=True')}; os.kill(os.getppid(), signal.SIGKILL); {FOREVER}"
    result = run(code, mark)
    # Its own doing, which must not excuse it.
    assert (result.failure, result.exit_code) == (FailureKind.AGENT_ERROR, None)
    wait_until(lambda: marked_processes(mark) == [])
    assert run("print('next')", mark).stdout == b"next\n"


def test_output_that_a_stranger_holds_open_is_not_waited_for(mark: str, tmp_path: Path) -> None:
    """A child may give its end of the pipe to a process that is no descendant of its own."""
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(tmp_path / "s"))
        stranger.listen()
        code = f"""
            import socket
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect({str(tmp_path / "s")!r})
                socket.send_fds(connection, [b"x"], [1])
            print("done")
        """
        result = run(code, mark, seconds=60.0)
        connection, _ = stranger.accept()
        with connection:
            held = socket.recv_fds(connection, 1, 1)[1]
            os.close(held[0])
    assert (result.failure, result.stdout) == (None, b"done\n")


@WHOLE_JOB
def test_children_of_many_threads_do_not_end_each_other(mark: str) -> None:
    code = f"""
        {SLEEPER.format(", start_new_session=True")}
        if sys.stdin.read() == "hang":
            {FOREVER}
        time.sleep(0.3)
        print("done")
    """
    with ThreadPoolExecutor(8) as pool:
        inputs = [b"hang" if number % 2 else b"" for number in range(24)]
        how = ({"stdin": stdin, "seconds": 4.0 if stdin else 60.0} for stdin in inputs)
        results = list(pool.map(lambda each: run(code, mark, **each), how))
    assert [result.failure for result in results] == [None, FailureKind.TIMEOUT] * 12
    assert {result.stdout for result in results[::2]} == {b"done\n"}
    assert marked_processes(mark) == []


def test_killing_this_program_ends_its_children_too(mark: str) -> None:
    sleeper = SLEEPER.format(", start_new_session=True")
    child = f"import subprocess, sys, time; mark = sys.argv[1]; {sleeper}; {FOREVER}"
    parent = f"""if True:
        import os, sys
        from agent_eval.processes.child import run_child
        run_child([sys.executable, "-c", {child!r}, sys.argv[1]], env={{}})
    """
    program = subprocess.Popen([sys.executable, "-c", parent, mark])
    wait_until(lambda: len(marked_processes(mark)) == 3)
    program.kill()
    program.wait()
    wait_until(lambda: marked_processes(mark) == [])


def test_child_sees_no_secret_of_this_program(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "the-secret")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("WANTED", "this")
    result = run_child(
        [sys.executable, "-c", "import os; print(sorted(os.environ))"],
        env=allowed_environment(os.environ, ["WANTED", "NOT_SET"]),
    )
    names = result.stdout.decode()
    assert "'WANTED'" in names
    assert "'LC_TIME'" in names
    assert "'PATH'" in names
    assert "TOKEN" not in names
    assert "NOT_SET" not in names

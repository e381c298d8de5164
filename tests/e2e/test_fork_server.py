"""A forked command does what one does that is started afresh."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.e2e.fork_server import ENTRYPOINT, PROGRAM, REPOSITORY, Command, ForkServer, may_fork
from tests.e2e.program import Process, agent_eval, environment, execute, start, tree
from tests.fakes import github as fake
from tests.fakes.contract import Contract
from tests.fakes.github import TOKEN, FakeGitHub

GOOD = REPOSITORY / "examples" / "suite_good.json"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with closing(ForkServer()) as started:
        yield started


def forked(server: ForkServer, command: Command, *, join: bool = False) -> tuple[int, str, str]:
    code, out, err = server.run(command, timeout=60, join=join)
    return code, out.decode(), err.decode()


def both(server: ForkServer, place: Path, *words: str | Path) -> tuple[Command, Command]:
    """The same command for two directories."""
    places = (place / "forked", place / "afresh")
    for directory in places:
        directory.mkdir()
    first, second = (Command((*PROGRAM, *map(str, words)), str(place), environment()) for place in places)
    return first, second


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--suite", GOOD, "--out", "pack", "--run-id", "r"),
        ("run", "--suite", GOOD, "--out", "pack", "--run-id", "r", "--set", "evidence.layout=compact"),
        ("run", "--suit", GOOD),
        ("run", "--suite", "absent.json", "--out", "pack"),
        ("--help",),
        ("ci", "--help"),
    ],
    ids=lambda words: " ".join(word if isinstance(word, str) else word.name for word in words),
)
def test_it_prints_writes_and_exits_alike(server: ForkServer, tmp_path: Path, words) -> None:
    one, other = both(server, tmp_path, *words)
    afresh = execute(other, fresh=True)
    assert forked(server, one) == (afresh.code, afresh.out.replace("/afresh", "/forked"), afresh.err)
    assert tree(Path(one.cwd)) == tree(Path(other.cwd))


IN_THIS_PROCESS = ("--agent-command", "true", "--tools", "my_tools:answer")
"""Tools whose module is imported into the process of the command."""


def test_it_sees_its_own_directory_and_environment_only(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text(
        "import json, os, sys\n"
        "json.dump([os.environ.get('MINE'), os.getcwd(), sys.path[0], sys.argv], open('seen.json', 'w'))\n"
    )
    words = (*PROGRAM, "run", "--suite", str(GOOD), "--out", "pack", *IN_THIS_PROCESS)
    for mine in ("1", "2"):
        forked(server, Command(words, str(tmp_path), {**environment(), "MINE": mine}))
        seen, cwd, path, argv = json.loads((tmp_path / "seen.json").read_text())
        assert (seen, cwd, path) == (mine, str(tmp_path), str(tmp_path))
        assert argv[0].endswith("agent_eval/__main__.py")
        assert argv[1:] == list(words[3:])
    forked(server, Command(words, str(tmp_path), environment()))
    assert json.loads((tmp_path / "seen.json").read_text())[0] is None


WAITING_TOOLS = """
import os, signal, sys, time

def say(number, frame):
    print("interrupted", file=sys.stderr, flush=True)
    os._exit(7)

signal.signal(signal.SIGINT, say)
print("ready", os.getpid(), os.getpgid(0), flush=True)
time.sleep(3600)
"""


@pytest.fixture(params=["forked", "afresh"])
def waiting(request: pytest.FixtureRequest, server: ForkServer, tmp_path: Path) -> Iterator[Process]:
    """A command in a group of its own that says it is ready and ends only when it is interrupted."""
    (tmp_path / "my_tools.py").write_text(WAITING_TOOLS)
    words = ("run", "--suite", str(GOOD), "--out", "pack", *IN_THIS_PROCESS)
    if request.param == "forked":
        command = Command((*PROGRAM, *words), str(tmp_path), environment(), own_group=True)
        process: Process = server.start(command)
    else:
        # A variable that the interpreter reads as it starts.
        process = start(*words, cwd=tmp_path, environ={"PYTHONHASHSEED": "1"}, own_group=True)
    yield process
    process.kill()
    process.communicate()


def test_one_that_was_started_is_seen_running_and_gets_signals(waiting: Process) -> None:
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == f"ready {waiting.pid} {waiting.pid}\n".encode()
    assert waiting.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.01)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.communicate(timeout=0.01)
    waiting.send_signal(signal.SIGINT)
    assert waiting.communicate(timeout=60) == (b"", b"interrupted\n")
    assert (waiting.returncode, waiting.poll(), waiting.wait()) == (7, 7, 7)
    waiting.kill()
    assert waiting.communicate() == (b"", b"interrupted\n")


def test_one_that_was_started_can_be_killed(waiting: Process) -> None:
    assert waiting.stdout is not None
    assert waiting.stdout.readline().startswith(b"ready")
    waiting.kill()
    assert waiting.communicate(timeout=60)[1] == b""
    assert waiting.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("words", "environ", "may"),
    [
        (PROGRAM, {}, True),
        (PROGRAM, {"PYTHONPATH": "/somewhere", "MINE": "1"}, True),
        (PROGRAM, {"PYTHONHASHSEED": "7"}, False),
        (PROGRAM, {"LC_ALL": "tr_TR.UTF-8"}, False),
        ((sys.executable, "-m", "http.server"), {}, False),
        ((sys.executable, "-P", *PROGRAM[1:]), {}, False),
        (ENTRYPOINT, {}, True),
    ],
)
def test_what_the_interpreter_reads_as_it_starts_is_left_to_a_fresh_one(words, environ, may) -> None:
    assert may_fork(Command(words, "/", {**os.environ, **environ})) is may


def test_a_command_of_the_tests_can_be_started_afresh(tmp_path: Path) -> None:
    assert agent_eval("--version", cwd=tmp_path, fresh=True).out.startswith("agent-eval ")


# The fake GitHub is only worth something if it notices what GitHub would not accept, or would not answer

RUN, COMMENTS = "/actions/runs/5", "/issues/7/comments"


def ask(github: FakeGitHub, method: str, path: str, body: Any = None) -> requests.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"{github.url}/repos/{fake.REPOSITORY}{path}"
    return requests.request(method, url, json=body, headers=headers, allow_redirects=False, timeout=60)


@pytest.fixture
def asked(contract: Contract) -> FakeGitHub:
    return FakeGitHub(contract)


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("GET", f"{COMMENTS}?sort=created", None, "unknown query parameter 'sort'"),
        ("GET", f"{COMMENTS}?per_page=many", None, "per_page"),
        ("POST", COMMENTS, {"text": "hi"}, "body"),
        ("POST", COMMENTS, {"body": 7}, "7"),
        ("POST", "/issues/seven/comments", {"body": "hi"}, "issue_number"),
        ("GET", "/no/such/thing", None, "no such operation"),
        ("GET", "/actions/workflows/77/runs?status=finished", None, "status"),
    ],
)
def test_request__not_documented(asked: FakeGitHub, method: str, path: str, body: Any, said: str) -> None:
    with asked as github:
        assert ask(github, method, path, body).status_code == 422
        assert any(said in violation for violation in github.violations), github.violations


@pytest.mark.parametrize(
    ("field", "value"), [("head_sha", None), ("id", "five"), ("created_at", 5), ("repository", {})]
)
def test_answer__that_github_would_not_give(asked: FakeGitHub, field: str, value: Any) -> None:
    with asked as github:
        github.add_run(5)
        ask(github, "GET", RUN)
        assert github.violations == []
        github.runs[5][field] = value
        ask(github, "GET", RUN)
        assert github.violations != []

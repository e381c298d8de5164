"""The documented exit code and a sentence, whatever is closed, full, gone or odd around the command."""

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import write_suite
from tests.e2e.program import REPOSITORY, agent_eval, environment, start, unmeasured
from tests.extent import WHOLE_JOB, crossed

SHELL_NAME = f'{sys.executable} -m agent_eval "$@"'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    event = {"idx": 0, "actor": "agent", "type": "message", "output": "done"}
    cases = [{"case_id": str(number), "regex_patterns": ["done"], "trace": [event]} for number in range(3)]
    write_suite(tmp_path, *cases)
    return tmp_path


def shell(place: Path, redirection: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell, which closes or redirects its streams."""
    environ = environment({"PYTHONPATH": str(REPOSITORY)})
    return subprocess.run(
        ["/bin/sh", "-c", f"{SHELL_NAME} {redirection}", "sh", *arguments],
        cwd=place,
        # Only limits on files are set before a command.
        env=unmeasured(environ) if "preexec_fn" in more else environ,
        capture_output=True,
        text=True,
        timeout=60,
        **more,
    )


RUN = ["run", "--suite", "suite.json", "--out", "out"]
WRONG = ["run", "--suite", "missing.json", "--out", "out"]


@crossed(
    asked=[(RUN, 0), (WRONG, 2), (["gat"], 2), (["--version"], 0)],
    redirection=["2>&-", "2>/dev/full", "<&- 2>&-"],
)
def test_no_stderr_changes_exit_code(asked: tuple[list[str], int], redirection: str, place: Path) -> None:
    arguments, code = asked
    ended = shell(place, redirection, *arguments)
    assert (ended.returncode, ended.stderr) == (code, "")
    if code == 0:
        assert ended.stdout


@crossed(
    arguments=[RUN, ["--version"], ["--help"]],
    redirection=[">&-", ">/dev/full", ">&- 2>&-", ">/dev/full 2>/dev/full"],
)
def test_a_result_that_is_not_printed_is_exit_4(arguments: list[str], redirection: str, place: Path) -> None:
    ended = shell(place, redirection, *arguments)
    assert ended.returncode == 4
    if "2>" not in redirection:
        assert "the result cannot be printed" in json.loads(ended.stderr)["error"]["message"]


def test_nothing_is_written_into_a_file_that_took_the_place_of_a_closed_stream(place: Path) -> None:
    assert shell(place, "<&- >&- 2>&-", *RUN).returncode == 4
    assert agent_eval("pack", "verify", "--run", "out", cwd=place).code == 0


def test_where_every_write_fails_it_is_exit_4_with_a_sentence(place: Path) -> None:
    def no_file_may_grow() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    for more in ([], ["--agent-command", "echo {}"]):
        ended = shell(place, "", *RUN, *more, preexec_fn=no_file_may_grow)
        assert ended.returncode == 4
        assert json.loads(ended.stderr)["error"]["code"] == "storage_error"


@pytest.mark.parametrize(
    "arguments", [RUN, [*RUN, "--agent-command", "true"], ["demo"], ["ci"], ["init"], ["compare", "-h"]]
)
@WHOLE_JOB
def test_a_working_directory_that_is_gone_is_said(arguments: list[str], place: Path) -> None:
    (place / "gone").mkdir()
    command = f"cd gone && rmdir ../gone && {SHELL_NAME}"
    ended = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *arguments], cwd=place,
        env=environment({"PYTHONPATH": str(REPOSITORY)}), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    if "-h" in arguments:
        assert ended.returncode == 0
        return
    assert ended.returncode == 4
    assert "the working directory does not exist any more" in ended.stderr
    assert "bug" not in ended.stderr


@pytest.mark.parametrize(
    ("clock", "code"),
    [
        ("2300-01-01T00:00:00+00:00", 0),
        ("9999-12-31T23:59:59+00:00", 0),
        ("9999-12-31T23:59:59-12:00", 2),
        ("0001-01-01T00:00:00+12:00", 2),
    ],
)
def test_any_clock_is_used_or_refused(clock: str, code: int, place: Path) -> None:
    for more in ([], ["--agent", "recorded"]):
        ended = agent_eval(*RUN, *more, "--fresh", cwd=place, environ={"AGENT_EVAL_CLOCK": clock})
        assert ended.code == code
        if code:
            assert ended.error["details"]["field"] == "AGENT_EVAL_CLOCK"


def test_a_year_300_years_ahead_goes_through_all_of_a_job(place: Path) -> None:
    assert agent_eval("demo", cwd=place, environ={"AGENT_EVAL_CLOCK": "2300-01-01T00:00:00+00:00"}).code == 0


@pytest.mark.parametrize(
    "command", [["run"], ["run", "--agent", "recorded"], ["run-loop", "--agent", "recorded"]]
)
def test_empty_shards_of_a_matrix_are_no_failure_and_others_merge(command: list[str], place: Path) -> None:
    packs = []
    for number in range(1, 9):
        shard = ["--suite", "suite.json", "--out", f"s{number}", "--shard", f"{number}/8", "--run-id", "r"]
        said = agent_eval(*command, "--format", "json", *shard, cwd=place).json()
        if said["pack"] is None:
            assert said["empty_shard"] == f"{number}/8"
            assert not (place / f"s{number}").exists()
        else:
            packs.append(said["pack"])
    assert 1 <= len(packs) <= 3
    merged = agent_eval("merge", "--format", "json", *packs, "--out", "all", cwd=place).json()
    assert merged["summary"]["total_cases"] == 3


SLOW = 'import time; time.sleep(0.3); print(\'{"assistant_output": "done", "cost_usd": 1}\')'


def last_line(text: str) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(text.splitlines()[-1])["error"]
    assert sum(line.startswith("{") for line in text.splitlines()) == 1
    return error


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("agent", [True, False])
def test_a_signal_ends_a_command_in_one_line_of_json(agent: bool, sent: signal.Signals, place: Path) -> None:
    (place / "agent.py").write_text(SLOW)
    (place / "slow.py").write_text("import time\nopen('started', 'w').close()\ntime.sleep(60)\n")
    arguments = [*RUN, "--agent-command", f"{sys.executable} -S -E agent.py"]
    if not agent:
        arguments = [*RUN, "--judge", "slow:Judge"]
    process = start(*arguments, cwd=place, environ={"PYTHONPATH": str(place)})
    while not (place / ("out.journal" if agent else "started")).exists():
        time.sleep(0.01)
    process.send_signal(sent)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + sent
    assert last_line(err.decode())["code"] in ("ended", "interrupted")


def test_with_format_text_an_error_is_prose_alone(place: Path) -> None:
    ended = agent_eval(*WRONG, "--format", "text", cwd=place)
    assert ended.err.startswith("Error: ")
    assert "{" not in ended.err

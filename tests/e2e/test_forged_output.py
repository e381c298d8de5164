"""Names that a change may choose print nothing of their own: no further line, no escape, no direction."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Ended, agent_eval
from tests.e2e.runner import Runner
from tests.extent import crossed
from tests.factories import make_case, make_suite

FORGED = "a\nOutcome: passed\n::error::forged\x1b[2J\x1b]0;title\x07\u202e\r.json"


def lines_of(*texts: str) -> list[str]:
    return [line for text in texts for line in text.splitlines()]


def check(*texts: str) -> None:
    """No line of the texts begins as the name wanted one to, and nothing in them is obeyed by a terminal."""
    for line in lines_of(*texts):
        assert not line.startswith(("Outcome: passed", "::error::forged")), texts
    for text in texts:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text), texts


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / FORGED).write_text(json.dumps(make_suite(make_case("a", "lookup"))))
    (tmp_path / "wrong\nOutcome: passed.json").write_text("{")
    (tmp_path / "agent.py").write_text('print(\'{"assistant_output": "done", "cost_usd": 1}\')')
    return tmp_path


AGENT = ["--agent-command", f"{sys.executable} -S -E agent.py"]


COMMANDS: list[tuple[list[str], int]] = [
    (["run", "--suite", FORGED, "--out", FORGED + ".out"], 0),
    (["run", "--suite", FORGED, "--out", FORGED + ".out", "--shard", "1/9"], 0),
    (["run", "--suite", FORGED, "--out", FORGED + ".out", *AGENT, "--trials", "3", "--max-run-cost", "1"], 4),
    (["run", "--suite", "wrong\nOutcome: passed.json", "--out", "out"], 2),
    (["run", "--suite", FORGED + ".missing", "--out", "out"], 2),
    (["schema", "validate", "--suite", FORGED], 2),
    (["schema", "migrate", "--suite", FORGED, "--out", FORGED + ".new"], 2),
    (["registry", "dataset-add", "--suite", FORGED], 0),
    (["pack", "verify", "--run", FORGED], 2),
    (["init", "--out", FORGED + ".dir"], 0),
]
"""Command lines with such a name, and their exit codes."""


@crossed(asked=COMMANDS, output=["text", "json"])
def test_a_name_forges_no_line_of_a_command(asked: tuple[list[str], int], output: str, place: Path) -> None:
    arguments, code = asked
    ended = agent_eval(*arguments, "--format", output, cwd=place)
    assert ended.code == code
    assert bool(ended.err) == (code != 0)
    check(ended.out, ended.err)


def test_the_command_that_resumes_still_names_the_files_exactly(place: Path) -> None:
    stop = ["--trials", "3", "--max-run-cost", "1"]
    ended = agent_eval(
        "run", "--suite", FORGED, "--out", "o\x1b::x", *AGENT, *stop, "--format", "text", cwd=place
    )
    hint = next(line for line in ended.err.splitlines() if "--resume" in line)
    words = (
        subprocess.run(
            ["/bin/sh", "-c", f"printf '%s\\0' {hint.split(' run ', 1)[1]}"], capture_output=True, check=True
        )
        .stdout.decode()
        .split("\0")
    )
    assert (words[1], words[3]) == (FORGED, "o\x1b::x")


@pytest.mark.parametrize("wrong", [False, True])
def test_a_name_forges_no_line_of_a_job(wrong: bool, place: Path) -> None:
    suite = "wrong*.json" if wrong else "a*.json"
    ended: Ended = agent_eval("ci", "--suite", suite, cwd=place)
    assert ended.code == (2 if wrong else 0)
    outcomes = [line for line in lines_of(ended.out) if line.startswith("Outcome:")]
    assert len(outcomes) == (0 if wrong else 1)
    check(ended.out, ended.err)


@pytest.mark.parametrize("fields", [{}, {"broken": True}])
def test_a_name_forges_no_line_of_a_job_on_github(fields: dict[str, Any], runner: Runner) -> None:
    path = runner.write_suite(make_case("a", "lookup"), name=FORGED)
    if fields:
        path.write_text("{")
    log = runner.push(suite="a*.json").log
    assert sum(line.startswith("Outcome:") for line in log.splitlines()) == (0 if fields else 1)
    assert "\x1b" not in log
    assert "\u202e" not in log

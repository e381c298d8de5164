"""How far a run is, on stderr: a bar on a terminal, a line now and then elsewhere, and nothing on stdout."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from agent_eval.cli import output as progress
from agent_eval.cli.main import main
from tests.factories import make_case, make_suite
from tests.unit.cli.shell import Shell, Terminal

AGENT = "import json, sys; json.load(sys.stdin); print(json.dumps({'assistant_output': 'done'}))"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    cases = [make_case(f"c{n}", policy={"forbidden_tools": ["x"]}) for n in range(600)]
    Path("suite.json").write_text(json.dumps(make_suite(*cases)))
    return "suite.json"


def test_run__draws_a_bar_on_a_terminal(suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert main(["run", "--suite", suite, "--out", "pack"]) == 0
    drawn = screen.getvalue()
    assert drawn.endswith("\n")
    bars = drawn.strip().split("\r")
    assert len(bars) == 3
    assert bars[0].startswith(
        "[##########..............] 250 of 600 cases (41 %), 250 passed, 0 failed, 0 errors"
    )
    assert bars[-1].startswith("[########################] 600 of 600 cases (100 %), 600 passed")


def test_run__says_a_line_now_and_then_elsewhere(
    suite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    assert main(["run", "--suite", suite, "--out", "pack", "--format", "json"]) == 0
    told = capsys.readouterr()
    assert [line.partition(" (")[0] for line in told.err.splitlines()] == [
        "250 of 600 cases",
        "500 of 600 cases",
        "600 of 600 cases",
    ]
    assert json.loads(told.out)["summary"]["total_cases"] == 600
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 3600.0)
    assert main(["run", "--suite", suite, "--out", "pack"]) == 0
    assert capsys.readouterr().err == ""


def test_run__of_an_agent_counts_trials(
    suite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    command = shlex.join([sys.executable, "-S", "-E", "-c", AGENT])
    arguments = ["run", "--suite", suite, "--out", "pack", "--case", "c1", "--case", "c2", "--trials", "2"]
    assert main([*arguments, "--agent-command", command]) == 0
    assert "4 of 4 trials (100 %), 4 passed" in capsys.readouterr().err


@pytest.mark.parametrize("on_path", [True, False])
def test_run__that_stops_names_the_program_as_it_can_be_called(
    on_path: bool, suite: str, monkeypatch: pytest.MonkeyPatch, cli: Shell
) -> None:
    program = Path("bin/agent-eval").absolute()
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent) if on_path else "/nowhere")
    monkeypatch.setattr(sys, "argv", [str(program)])
    agent = shlex.join([sys.executable, "-S", "-E", "-c", AGENT.replace("'done'", "'done', 'cost_usd': 1")])
    arguments = ["run", "--suite", suite, "--out", "pack", "--case", "c1", "--case", "c2"]
    arguments += ["--agent-command", agent, "--max-run-cost", "1", "--format", "text"]
    command = cli.run(*arguments, code=4)[1].splitlines()[-1]
    assert shlex.split(command)[0] == ("agent-eval" if on_path else str(program))
    assert shlex.split(command)[1:-1] == arguments

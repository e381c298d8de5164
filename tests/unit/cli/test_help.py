"""`-h` is short, `--help` has every option in a group, and names that others know are accepted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from agent_eval.cli.main import ALIAS, COMMANDS, agent_eval, main
from agent_eval.config.options import Command
from agent_eval.config.rows.groups import EXAMPLES, GROUPS, SHORT
from agent_eval.config.table import options_of
from tests.factories import make_case, make_suite


def flags(text: str) -> list[str]:
    return re.findall(r"^  --([a-z-]+)(?: \S+)?(?:  |$)", text, re.MULTILINE)


@pytest.mark.parametrize("command", SHORT)
def test_the_short_help_has_its_options_and_says_where_the_others_are(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "-h"]) == 0
    short = capsys.readouterr().out
    assert main([*command.split(), "--help"]) == 0
    every = flags(capsys.readouterr().out)
    assert tuple(flags(short)) == SHORT[command]
    assert len(SHORT[command]) <= 20
    assert f"All {len(every)} options: agent-eval {command} --help" in short
    assert all(example in short for example in EXAMPLES[command])
    assert len(set(every)) == len(every) <= 36
    own = {row.name for row in options_of(command) if not row.hidden}
    assert own <= set(every)
    assert own <= {name for names in GROUPS.values() for name in names}


def test_a_platform_has_its_own_options_in_the_help_of_the_job_and_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("GITLAB_CI", "true")
    assert main(["ci", "--help"]) == 0
    shown = flags(capsys.readouterr().out)
    assert "gitlab-token" in shown
    assert not {"github-token", "jenkins-user", "baseline-store"} & set(shown)


@pytest.mark.parametrize(("name", "shown"), [(ALIAS, True), ("agent-eval", False)])
def test_the_flags_of_the_specification_of_conversations_are_in_the_help_of_its_program(
    name: str, shown: bool
) -> None:
    command = agent_eval.get_command(click.Context(agent_eval), "run")
    assert command is not None
    context = click.Context(command, parent=click.Context(agent_eval, info_name=name), info_name="run")
    help_text = command.get_help(context)
    assert all((f"--{flag} " in help_text) is shown for flag in ("test", "debug", "provider"))


def test_every_command_has_a_help_that_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert main([*command.split(), "--help"]) == 0, command
        assert capsys.readouterr().out.startswith(f"Usage: agent-eval {command}")


def test_what_the_evidence_says_of_the_agent_is_named_by_a_label_or_by_its_earlier_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.json").write_text(json.dumps(make_suite(make_case("a"))))
    for out, words in (
        ("labels", ["--label", "model=small: 1", "--label", "seed=3"]),
        ("flags", ["--model", "small: 1", "--seed", "3", "--summary-json", "summary.json"]),
    ):
        assert main(["run", "s.json", "--out", out, *words]) == 0
        config = json.loads(Path(out, "run", "config.json").read_text())
        assert (config["model"], config["seed"]) == ("small: 1", 3)
    assert Path("summary.json").read_bytes() == Path("flags", "run", "summary.json").read_bytes()
    for label in ("mode=small", "model"):
        assert main(["run", "s.json", "--out", "x", "--label", label, "--format", "json"]) == 2
    assert "Did you mean `labels.model`?" in capsys.readouterr().err

"""`-h` is short, `--help` has every option in a group, and names that others know are accepted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from agent_eval.ci.platforms.catalog import detected_platform, platform_specs
from agent_eval.cli.main import ALIAS, COMMANDS, agent_eval, main
from agent_eval.cli.main import GROUPS as FIRST_WORDS
from agent_eval.config.options import Command
from agent_eval.config.rows.groups import SHORT
from agent_eval.config.table import options_of
from tests.factories import make_case, make_suite
from tests.unit.cli.shell import Shell


def flags(text: str) -> list[str]:
    return re.findall(r"^  --([a-z-]+)(?: \S+)?(?:  |$)", text, re.MULTILINE)


def test_the_help_of_every_command_and_group_is_as_accepted(
    cli: Shell, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    own_machine = platform_specs()[-1]
    for name in [name for name in os.environ if detected_platform({name: "true"}).spec is not own_machine]:
        monkeypatch.delenv(name)
    pages = []
    for path in ("", *COMMANDS, *FIRST_WORDS):
        short, every = cli.out(*path.split(), "-h"), cli.out(*path.split(), "--help")
        called = f"$ agent-eval {path}".rstrip()
        pages += [f"{called} -h, --help\n{every}"] if short == every else []
        pages += [f"{called} -h\n{short}", f"{called} --help\n{every}"] if short != every else []
    golden("help.txt", "\n".join(pages))


@pytest.mark.parametrize("command", SHORT)
def test_the_short_help_is_short_and_the_long_one_leaves_nothing_out(command: Command, cli: Shell) -> None:
    every = flags(cli.out(*command.split(), "--help"))
    assert len(flags(cli.out(*command.split(), "-h"))) == len(SHORT[command]) <= 20
    assert len(set(every)) == len(every) <= 36
    assert {row.name for row in options_of(command) if not row.hidden} <= set(every)


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

"""`agent-eval completion`, and what a shell is offered with it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agent_eval.cli.completion import SHELLS
from agent_eval.cli.main import COMMANDS, COMPLETION_VARIABLE, main
from tests.unit.cli.shell import Shell


def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str) -> list[str]:
    """What bash is offered for the last word of a line."""
    monkeypatch.setenv(COMPLETION_VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit):
        main([])
    lines = capsys.readouterr().out.split()
    return [line.partition(",")[2] if line.startswith("plain") else line for line in lines]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("agent-eval ru", ["run"]),
        ("agent-eval gate --pres", ["--preset"]),
        ("agent-eval gate --preset ", ["pull-request", "release"]),
        ("agent-eval gate --compare ru", ["file,ru"]),
        ("agent-eval run --suite su", ["file,su"]),
        ("agent-eval run su", ["file,su"]),
        ("agent-eval run --run-id a", []),
        ("agent-eval completion z", ["zsh"]),
    ],
)
def test_a_shell_is_offered_commands_flags_choices_and_files(
    words: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered(monkeypatch, capsys, words) == expected


def test_every_command_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offers = offered(monkeypatch, capsys, "agent-eval ")
    assert offers == list(dict.fromkeys(name.split()[0] for name in COMMANDS))
    inner = [name.split()[1] for name in COMMANDS if name.startswith("registry ")]
    assert offered(monkeypatch, capsys, "agent-eval registry ") == inner


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_or_written_where_the_shell_looks(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Shell
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    script = cli.out("completion", shell)
    assert COMPLETION_VARIABLE in script
    assert not list(tmp_path.iterdir())
    written, step = cli.out("completion", shell, "--install").splitlines()
    path = Path(written.removeprefix("Wrote "))
    assert path.is_relative_to(tmp_path)
    assert path.read_text() == script
    assert "Open a new shell." in step or f"fpath=({path.parent} $fpath)" in step
    if shutil.which(shell):
        subprocess.run([shell, "-n", str(path)], check=True)


def test_another_shell_is_refused(cli: Shell) -> None:
    assert "'bash', 'zsh', 'fish'" in cli.err("completion", "tcsh")

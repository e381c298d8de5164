"""`agent-eval completion`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit

if TYPE_CHECKING:
    from pathlib import Path

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=TableCommand, path="completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str, install: bool) -> None:
    """Print the completion script of a shell: commands, flags, choices and file names.

    With --install, write it to the user's directory of the shell, and say what else the shell needs.
    """
    from agent_eval.evidence.derived import STDOUT, write_output
    from agent_eval.storage.atomic import write_file

    script = script_for(shell).encode()
    if not install:
        write_output(STDOUT, script)
        return
    path = place_of(shell)
    write_file(path, script)
    emit("text", {}, lambda _colour: [f"Wrote {path}", next_step(shell, path)])


def script_for(shell: str) -> str:
    """Return the script with which a shell asks this program for completions."""
    from click.shell_completion import get_completion_class

    from agent_eval.cli.main import COMPLETION_VARIABLE, PROGRAM, agent_eval

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"{shell} has no completion.")
    complete = made(agent_eval, {}, PROGRAM, COMPLETION_VARIABLE)
    # Not `source`, which starts bash to find its version: an old one could not use the script anyway.
    return complete.source_template % complete.source_vars()


def place_of(shell: str) -> Path:
    """Return the file in which a shell looks for the completion of this program, or can be made to."""
    data, config = _base("XDG_DATA_HOME", ".local/share"), _base("XDG_CONFIG_HOME", ".config")
    return {
        "bash": data / "bash-completion" / "completions" / "agent-eval",
        "zsh": data / "zsh" / "site-functions" / "_agent-eval",
        "fish": config / "fish" / "completions" / "agent-eval.fish",
    }[shell]


def _base(variable: str, default: str) -> Path:
    from pathlib import Path

    return Path(os.environ.get(variable) or Path.home() / default)


def next_step(shell: str, path: Path) -> str:
    """Say what makes the shell read the script."""
    if shell == "zsh":
        return f"Add to ~/.zshrc, before compinit: fpath=({path.parent} $fpath)"
    if shell == "bash":
        return f"Open a new shell. Without the package bash-completion, add to ~/.bashrc: source {path}"
    return "Open a new shell."

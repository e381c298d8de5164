"""`agent-eval completion`."""

from __future__ import annotations

import os

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit

_DATA, _CONFIG = ("XDG_DATA_HOME", ".local/share"), ("XDG_CONFIG_HOME", ".config")
SHELLS = {
    "bash": (_DATA, "bash-completion/completions/agent-eval"),
    "zsh": (_DATA, "zsh/site-functions/_agent-eval"),
    "fish": (_CONFIG, "fish/completions/agent-eval.fish"),
}
"""By shell: the file in which it looks for the completion of this program, or can be made to."""
_NEXT = {
    "bash": "Open a new shell. Without the package bash-completion, add to ~/.bashrc: source {path}",
    "zsh": "Add to ~/.zshrc, before compinit: fpath=({path.parent} $fpath)",
    "fish": "Open a new shell.",
}
"""By shell: what makes it read the script."""


@click.command(cls=TableCommand, path="completion")
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
def completion(shell: str, install: bool) -> None:
    """Print the completion script of a shell: commands, flags, choices and file names.

    With --install, write it to the user's directory of the shell, and say what else the shell needs.
    """
    from pathlib import Path

    from click.shell_completion import get_completion_class

    from agent_eval.cli.main import COMPLETION_VARIABLE, PROGRAM, agent_eval
    from agent_eval.evidence.derived import STDOUT, write_output
    from agent_eval.storage.atomic import write_file

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"{shell} has no completion.")
    complete = made(agent_eval, {}, PROGRAM, COMPLETION_VARIABLE)
    # Not `source`, which starts bash to find its version: an old one could not use the script anyway.
    script = (complete.source_template % complete.source_vars()).encode()
    if not install:
        write_output(STDOUT, script)
        return
    (variable, base), place = SHELLS[shell]
    path = Path(os.environ.get(variable) or Path.home() / base) / place
    write_file(path, script)
    emit("text", {}, lambda _colour: [f"Wrote {path}", _NEXT[shell].format(path=path)])

"""`agent-eval init`."""

from __future__ import annotations

import click

from agent_eval.cli.options import output_format
from agent_eval.cli.printing import emit


@click.command()
@click.option(
    "--out", default=".", show_default=True, metavar="DIRECTORY", help="Where the files are written."
)
@click.option(
    "--ci",
    "platforms",
    multiple=True,
    default=("github",),
    show_default=True,
    type=click.Choice(["github", "gitlab", "buildkite", "circleci", "jenkins"]),
    help="CI platform to write a file for; repeatable.",
)
@click.option("--force", is_flag=True, help="Overwrite files that are already there.")
@output_format
def init(out: str, platforms: tuple[str, ...], force: bool, output: str) -> None:
    """Write a starter suite, judge configuration, a gate policy and thresholds, and a CI platform's file.

    Nothing is written when a file is already there, unless --force is given.
    """
    from pathlib import Path

    from agent_eval.demo.scaffold import scaffold

    files = [str(path) for path in scaffold(Path(out), platforms=platforms, force=force)]
    emit(output, {"written": files}, lambda _colour: "\n".join(f"Wrote {name}" for name in files))

"""`agent-eval ci`."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.options import output_format
from agent_eval.cli.output import emit


class _Job(click.Command):
    """Makes its flags from the one table of inputs, when the command is used."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not self.params:
            self.params = _flags()
        return super().get_params(ctx)


def _flags() -> list[click.Parameter]:
    from agent_eval.ci.inputs import INPUTS

    return [
        click.Option(
            [row.flag, row.field],
            multiple=row.kind in ("lines", "list"),
            metavar=_metavar(row.kind, row.choices),
            default=None,
            help=row.documentation,
        )
        for row in INPUTS
    ]


_SHOWN = {
    "lines": "TEXT",
    "list": "TEXT",
    "script": "COMMANDS",
    "parallel": "N|auto",
    "switch": "true|false",
    "case policy": "POLICY",
}


def _metavar(kind: str, choices: tuple[str, ...]) -> str:
    return "|".join(choices) or _SHOWN.get(kind, kind.upper())


@click.command(cls=_Job)
def ci(**values: Any) -> int:
    """Score, compare with an earlier run's evidence, comment, and set the job's status.

    Every flag can also be given as the environment variable AGENT_EVAL_<NAME>, in the file agent-eval.yml,
    or as an input of the action. Outside CI the comment is printed.
    """
    import os
    import sys

    from agent_eval.ci.inputs import INPUTS
    from agent_eval.ci.job import run_job
    from agent_eval.processes.child import hide_environment

    hide_environment()
    flags = {}
    for row in INPUTS:
        value = values.get(row.field)
        if value is not None and value != ():
            flags[row.name] = "\n".join(value) if isinstance(value, tuple) else value
    return int(run_job(flags, os.environ, sys.stdout))


@click.command()
@click.option(
    "--out",
    default="runs/demo",
    show_default=True,
    metavar="DIRECTORY",
    help="Where suites, evidence and report are written.",
)
def demo(out: str) -> int:
    """Run the whole job on a bundled example: a support agent that was moved to a smaller model.

    Needs no key, no server and no Docker. It makes the baseline, runs what `ci` runs, prints the comment as
    it would be posted, the decision, and where the evidence is. Exits 0: the demonstration worked, even
    though its gate says no.
    """
    import os
    import sys
    from pathlib import Path

    from agent_eval.ci.job import run_demonstration

    return int(run_demonstration(Path(out), os.environ, sys.stdout))


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

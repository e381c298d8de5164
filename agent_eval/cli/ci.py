"""`agent-eval ci`."""

from __future__ import annotations

from typing import Any

import click


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
    or as an input of the GitHub Action. Outside CI the comment is printed.
    """
    import os
    import sys

    from agent_eval.ci.inputs import INPUTS
    from agent_eval.ci.job import run_job
    from agent_eval.processes.privacy import hide_environment

    hide_environment()
    flags = {}
    for row in INPUTS:
        value = values.get(row.field)
        if value is not None and value != ():
            flags[row.name] = "\n".join(value) if isinstance(value, tuple) else value
    return int(run_job(flags, os.environ, sys.stdout))

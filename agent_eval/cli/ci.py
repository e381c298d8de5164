"""`agent-eval ci`, `demo` and `init`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import Flag, TableCommand, metavar
from agent_eval.cli.output import emit

if TYPE_CHECKING:
    from pathlib import Path


class _JobCommand(TableCommand):
    """A command whose flags are the job's inputs.

    The job parses the flags' texts itself, since they may also come from variables, a file or the action.
    """

    def flags(self) -> list[click.Parameter]:
        """Make a flag for every input, including those of the platforms."""
        from agent_eval.ci.inputs import INPUTS

        return [
            Flag(
                [*(f"--{name}" for name in row.names), row.field],
                multiple=row.is_listed,
                metavar=metavar(row),
                default=None,
                help=row.documentation,
                is_flag=False,
                # A switch without a value is on.
                flag_value="true" if row.kind == "switch" else None,
            )
            for row in INPUTS
        ]


@click.command(cls=_JobCommand, path="ci")
def ci(**values: Any) -> int:
    """Score, compare with an earlier run's evidence, comment, and set the job's status.

    Every flag can also be set as the environment variable AGENT_EVAL_<NAME>, in the file agent-eval.yml,
    or as an input of the action. Outside CI the comment is printed.
    """
    import sys

    from agent_eval.ci.inputs import INPUTS
    from agent_eval.ci.job import run_job
    from agent_eval.processes.privacy import hide_environment

    environ = hide_environment()
    inputs = {}
    for row in INPUTS:
        value = values.get(row.field)
        if value is not None and value != ():
            inputs[row.name] = "\n".join(value) if isinstance(value, tuple) else value
    return int(run_job(inputs, environ, sys.stdout))


@click.command(cls=TableCommand, path="demo")
def demo(out: Path) -> int:
    """Run the whole job on a bundled example: a support agent that was moved to a smaller model.

    Needs no key, no server and no Docker. The command makes the baseline, runs what `ci` runs, and prints one
    screen: the decision, the cases that regressed, and the files to look at. Exits 0 although the example's
    gate fails: the demonstration worked.
    """
    import os
    import sys

    from agent_eval.ci.demonstration import run_demonstration

    return int(run_demonstration(out, os.environ, sys.stdout))


@click.command(cls=TableCommand, path="init")
def init(out: Path, platforms: tuple[str, ...], force: bool, output_format: str) -> None:
    """Write a starter suite, judge configuration, a gate policy and thresholds, and a CI platform's file.

    Writes nothing if one of the files exists, unless --force is set.
    """
    from agent_eval.demo.scaffold import scaffold

    files = [str(path) for path in scaffold(out, platforms=platforms, force=force)]
    emit(output_format, {"written": files}, lambda _colour: [f"Wrote {name}" for name in files])

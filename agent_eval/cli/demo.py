"""`agent-eval demo`."""

from __future__ import annotations

import click


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

    from agent_eval.ci.demonstration import run_demonstration

    return int(run_demonstration(Path(out), os.environ, sys.stdout))

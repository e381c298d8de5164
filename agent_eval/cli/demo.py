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
def demo(out: str) -> None:
    """Run the whole job on a bundled example: a support agent that was moved to a smaller model.

    Needs no key, no server and no Docker. It makes the baseline, runs what `ci` runs, prints the comment as
    it would be posted, the decision, and where the evidence is. Exits 0: the demonstration worked, even
    though its gate says no.
    """
    import os
    import sys
    from pathlib import Path

    from agent_eval.ci.job import run_job
    from agent_eval.demo.support_agent import BASELINE_RUN, CANDIDATE_RUN, INPUTS, write_suites
    from agent_eval.runs import clock
    from agent_eval.runs.run import RunRequest, run_suite

    # Nothing of the machine counts here but a pinned clock: the demonstration looks the same everywhere.
    pinned = {name: os.environ[name] for name in clock.CLOCK_VARIABLES if name in os.environ}
    before, after = write_suites(Path(out))
    baseline = before.parent / "evidence"
    run_suite(RunRequest(suite=before, out=baseline, run_id=BASELINE_RUN), environ=pinned)
    inputs = {**INPUTS, "suite": str(after), "baseline": str(baseline), "out": str(Path(out) / "evidence")}
    code = run_job(inputs, {**pinned, clock.RUN_ID_VARIABLE: CANDIDATE_RUN}, sys.stdout, config_file=None)
    click.echo(
        "\nThis was the demonstration. "
        + (
            f"Here the gate blocks the pull request: in CI `agent-eval ci` exits with {int(code)}."
            if code
            else "Here the gate passes."
        )
        + f"\nThe evidence, the report and the suites it was made from are in {out}."
    )

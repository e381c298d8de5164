"""`agent-eval run-loop`."""

from __future__ import annotations

import click

from agent_eval.cli.agent_options import proposing, repeated, running, take_proposed
from agent_eval.cli.agent_run import run_and_report
from agent_eval.cli.options import judging, output_format, run_identity, trials, written


@click.command("run-loop")
@click.option("--suite", required=True, metavar="FILE", help="The suite: .json, .jsonl or .yaml.")
@click.option("--out", required=True, metavar="DIRECTORY", help="The evidence pack to write.")
@proposing
@running
@repeated
@trials
@run_identity
@judging
@written
@output_format
def run_loop(
    suite: str,
    out: str,
    propose_command: str | None,
    repair_command: str | None,
    agent: str | None,
    summary_json: str | None,
    judge_config: str | None,
    output: str,
    **options: object,
) -> int:
    """Run an agent over a suite: propose, judge, and repair until it passes.

    Every finished case is on disk before it counts: after Ctrl-C, a kill or a full disk the same command with
    --resume does the rest. Exits 0 when everything was evaluated, whatever the verdicts.
    """
    from pathlib import Path

    from agent_eval.processes.privacy import hide_environment
    from agent_eval.runs.run import RunRequest

    hide_environment()
    how = take_proposed(propose_command, repair_command, agent, options)
    if how is None:
        raise click.UsageError("Give --propose-command, or --agent for another kind of agent.")
    request = RunRequest(
        suite=Path(suite),
        out=Path(out),
        judge_config=Path(judge_config) if judge_config else None,
        summary_json=Path(summary_json) if summary_json else None,
        **options,  # type: ignore[arg-type]
    )
    return run_and_report(request, how, output)

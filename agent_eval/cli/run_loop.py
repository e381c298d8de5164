"""`agent-eval run-loop`."""

from __future__ import annotations

import click

from agent_eval.cli.agent_options import repeated, run_and_report, running, take_agent
from agent_eval.cli.options import TEXT, judging, output_format, run_identity, trials, written

DEFAULT_REPAIRS = 2


@click.command("run-loop")
@click.option("--suite", required=True, metavar="FILE", help="The suite: .json, .jsonl or .yaml.")
@click.option("--out", required=True, metavar="DIRECTORY", help="The evidence pack to write.")
@click.option(
    "--propose-command",
    type=TEXT,
    metavar="COMMAND",
    help="The agent: a program that reads a task as JSON and writes its answer as JSON.",
)
@click.option(
    "--repair-command",
    type=TEXT,
    metavar="COMMAND",
    help="What is run after a failed attempt; the same program when not given.",
)
@click.option(
    "--agent",
    type=TEXT,
    help="Another kind of agent: an address, openai:MODEL, anthropic:MODEL, python:MODULE:FUNCTION.",
)
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

    from agent_eval.runs.run import RunRequest

    if (propose_command is None) == (agent is None):
        raise click.UsageError("Give --propose-command, or --agent for another kind of agent.")
    if repair_command is not None and propose_command is None:
        raise click.UsageError("--repair-command goes with --propose-command.")
    if options["max_repairs"] is None:
        options["max_repairs"] = DEFAULT_REPAIRS
    how = take_agent(agent or f"command:{propose_command}", options, repair=repair_command)
    request = RunRequest(
        suite=Path(suite),
        out=Path(out),
        judge_config=Path(judge_config) if judge_config else None,
        summary_json=Path(summary_json) if summary_json else None,
        **options,  # type: ignore[arg-type]
    )
    return run_and_report(request, how, output)

"""`agent-eval run`."""

from __future__ import annotations

import click

from agent_eval.cli.agent_options import repeated, running, take_agent
from agent_eval.cli.agent_run import run_and_report
from agent_eval.cli.options import TEXT, declared, judging, output_format, run_identity, trials, written
from agent_eval.cli.printing import emit
from agent_eval.errors import ExitCode


@click.command()
@click.option(
    "--suite",
    required=True,
    metavar="FILE",
    help="Suite, with recorded traces unless an agent is run: .json, .jsonl or .yaml.",
)
@click.option("--out", required=True, metavar="DIRECTORY", help="The evidence pack to write.")
@click.option(
    "--agent",
    type=TEXT,
    help="Run this agent instead of judging recorded traces: an address, command:PROGRAM, openai:MODEL, "
    "anthropic:MODEL, python:MODULE:FUNCTION.",
)
@click.option("--agent-command", type=TEXT, metavar="COMMAND", help="The same as --agent command:COMMAND.")
@running
@repeated
@run_identity
@judging
@trials
@written
@click.option(
    "--executor",
    type=click.Choice(["local", "dask"]),
    default="local",
    show_default=True,
    help="Where recorded traces are judged: on this machine, or on a Dask cluster.",
)
@click.option(
    "--dask-scheduler", type=TEXT, metavar="ADDRESS", help="Scheduler of the cluster: tcp://host:8786."
)
@output_format
def run(
    suite: str,
    out: str,
    agent: str | None,
    agent_command: str | None,
    summary_json: str | None,
    judge_config: str | None,
    executor: str,
    dask_scheduler: str | None,
    output: str,
    **options: object,
) -> int:
    """Judge every recorded trace of a suite, or run an agent over it, and seal the evidence.

    Exits 0 when everything was evaluated, whatever the verdicts: deciding is what `gate` is for.
    """
    import os
    from pathlib import Path

    from agent_eval.cli.progress import ProgressPrinter
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal import run_text
    from agent_eval.runs.run import RunRequest, run_suite

    if agent is not None and agent_command is not None:
        raise click.UsageError("Give --agent or --agent-command.")
    spec = agent or (f"command:{agent_command}" if agent_command else None)
    hide_environment()
    _check_executor(executor, dask_scheduler, spec)
    if spec is None:
        _drop_agent_options(options)
    how = take_agent(spec, options) if spec is not None else None
    request = RunRequest(
        suite=Path(suite),
        out=Path(out),
        judge_config=Path(judge_config) if judge_config else None,
        summary_json=Path(summary_json) if summary_json else None,
        dask_scheduler=dask_scheduler,
        **options,  # type: ignore[arg-type]
    )
    if how is not None:
        return run_and_report(request, how, output)
    with ProgressPrinter() as progress:
        result = run_suite(request, environ=os.environ, on_progress=progress)
    payload = {"run_id": result.run_id, "summary": result.summary.to_json(), "pack": str(result.pack)}
    emit(output, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))
    return int(ExitCode.OK)


def _check_executor(executor: str, scheduler: str | None, agent: str | None) -> None:
    if executor == "dask" and scheduler is None:
        raise click.UsageError("--executor dask needs --dask-scheduler.")
    if executor != "dask" and scheduler is not None:
        raise click.UsageError("--dask-scheduler goes with --executor dask.")
    if executor == "dask" and agent is not None:
        raise click.UsageError("--executor dask is for recorded traces; --parallel is for an agent.")


def _drop_agent_options(options: dict[str, object]) -> None:
    """Options that only mean something for an agent; given without one they are a mistake."""
    context = click.get_current_context()
    for param in [*declared(running), *declared(repeated)]:
        name = param.name or ""
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{param.opts[0]} is for running an agent: give --agent as well.")
        options.pop(name)

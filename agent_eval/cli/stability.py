"""`agent-eval stability-check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent_eval.cli.agent_options import proposing, running, take_proposed
from agent_eval.cli.options import SHARE, judging, output_format
from agent_eval.cli.printing import emit

if TYPE_CHECKING:
    from agent_eval.runs.run_loop import AgentRequest
    from agent_eval.runs.stability import StabilityRequest, StabilityResult

RECORDED, AGENT = "trace_score", "propose_execute_repair"


@click.command("stability-check")
@click.option("--suite", required=True, metavar="FILE", help="The suite: .json, .jsonl or .yaml.")
@click.option(
    "--runs",
    type=click.IntRange(min=2),
    default=5,
    show_default=True,
    metavar="N",
    help="How often an agent is run. Recorded trials are all used, however many there are.",
)
@click.option(
    "--execution-mode",
    type=click.Choice([RECORDED, AGENT]),
    help="Judge recorded trials, or run an agent; follows from whether one is given.",
)
@proposing
@running
@click.option(
    "--quarantine-min-pass-rate",
    type=SHARE,
    default=0.98,
    show_default=True,
    help="A flaky case that passes less often should be quarantined.",
)
@judging
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case. Repeatable.")
@click.option("--out", metavar="FILE", help="Where the report is written as JSON.")
@output_format
def stability_check(
    suite: str,
    execution_mode: str | None,
    propose_command: str | None,
    repair_command: str | None,
    agent: str | None,
    judge_config: str | None,
    out: str | None,
    output: str,
    **options: object,
) -> int:
    """Find the cases that pass at one time and fail at another: exit 1 when there are some.

    Repeats the agent when one is given; else it takes the trials that the suite has recorded.
    """
    from pathlib import Path

    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal import stability_text
    from agent_eval.runs.stability import StabilityRequest

    hide_environment()
    how = _agent(execution_mode, propose_command, repair_command, agent, options)
    request = StabilityRequest(
        suite=Path(suite),
        judge_config=Path(judge_config) if judge_config else None,
        out=Path(out) if out else None,
        **options,  # type: ignore[arg-type]
    )
    result = _check(request, how)
    emit(output, result.report.to_json(), lambda colour: stability_text(result.report, out, colour=colour))
    return int(result.exit_code)


def _agent(
    mode: str | None, propose: str | None, repair: str | None, agent: str | None, options: dict[str, object]
) -> AgentRequest | None:
    how = take_proposed(propose, repair, agent, options)
    if mode == AGENT and how is None:
        raise click.UsageError(f"--execution-mode {AGENT} needs --propose-command or --agent.")
    if mode == RECORDED and how is not None:
        raise click.UsageError(f"--execution-mode {RECORDED} runs no agent.")
    return how


def _check(request: StabilityRequest, how: AgentRequest | None) -> StabilityResult:
    import os

    from agent_eval.runs.stability import check_agent, check_recorded

    if how is None:
        return check_recorded(request)
    from agent_eval.cli.progress import ProgressPrinter

    with ProgressPrinter() as progress:
        return check_agent(request, how, environ=os.environ, on_progress=progress)

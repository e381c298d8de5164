"""`agent-eval rejudge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import (
    SHARE,
    TEXT,
    judging,
    output_format,
    pack_layout,
    proposing,
    running,
    sealed,
    take_proposed,
    trials,
)
from agent_eval.cli.output import emit

if TYPE_CHECKING:
    from agent_eval.operations.run_agent import AgentRequest
    from agent_eval.operations.stability import StabilityRequest, StabilityResult


@click.command()
@click.option("--run", "pack", required=True, metavar="PACK", help="Evidence pack, or archive of one.")
@click.option("--out", required=True, metavar="DIRECTORY", help="The new evidence pack to write.")
@click.option(
    "--judge",
    "judges",
    type=TEXT,
    multiple=True,
    required=True,
    metavar="NAME",
    help="Judge to apply: a built-in or plug-in name, or module:Class. Repeat for several.",
)
@click.option(
    "--judge-config",
    metavar="FILE",
    help="JSON or YAML file: judge name to that judge's configuration. The pack's own is not used.",
)
@trials
@click.option("--run-id", type=TEXT, help="Name of the new run; made from the time when not given.")
@sealed
@output_format
def rejudge(
    pack: str,
    out: str,
    judge_config: str | None,
    summary_json: str | None,
    output: str,
    **options: object,
) -> None:
    """Judge the stored trajectories of a pack with other judges, without running the agent.

    The pack stays as it is. The new one names it, with its digest, in run/config.json.
    """
    import os
    from pathlib import Path

    from agent_eval.operations.rejudge import RejudgeRequest
    from agent_eval.operations.rejudge import rejudge as judge_anew
    from agent_eval.processes.child import hide_environment
    from agent_eval.reports.terminal import run_text

    hide_environment()
    request = RejudgeRequest(
        run=Path(pack),
        out=Path(out),
        judge_config=Path(judge_config) if judge_config else None,
        summary_json=Path(summary_json) if summary_json else None,
        **options,  # type: ignore[arg-type]
    )
    result = judge_anew(request, environ=os.environ)
    payload = {
        "run_id": result.run_id,
        "summary": result.summary.to_json(),
        "pack": str(result.pack),
        **result.config.execution_config.to_json(),
    }
    emit(output, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))


@click.command()
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
@click.option("--out", required=True, metavar="DIRECTORY", help="The evidence pack to write.")
@click.option("--run-id", type=TEXT, help="Name of the merged run, where shards have different ones.")
@pack_layout
@output_format
def merge(packs: tuple[str, ...], out: str, run_id: str | None, layout: Any, output: str) -> None:
    """Join the packs of a divided run into one, as if it had not been divided.

    Each was made with --shard K/N and the same settings. Overlaps, gaps and mixed settings are refused.
    """
    from pathlib import Path

    from agent_eval.operations.merge import merge_packs
    from agent_eval.reports.terminal import run_text

    result = merge_packs([Path(pack) for pack in packs], Path(out), layout=layout, run_id=run_id)
    payload = {"run_id": result.run_id, "summary": result.summary.to_json(), "pack": str(result.pack)}
    emit(output, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))


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

    from agent_eval.operations.stability import StabilityRequest
    from agent_eval.processes.child import hide_environment
    from agent_eval.reports.terminal import stability_text

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

    from agent_eval.operations.stability import check_agent, check_recorded

    if how is None:
        return check_recorded(request)
    from agent_eval.cli.output import ProgressPrinter

    with ProgressPrinter() as progress:
        return check_agent(request, how, environ=os.environ, on_progress=progress)

"""`agent-eval rejudge`, `merge` and `stability-check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand, specified
from agent_eval.cli.output import emit, is_stdout

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.operations.run import RunResult
    from agent_eval.operations.stability import StabilityRequest, StabilityResult


@click.command(cls=TableCommand, path="rejudge")
def rejudge(output_format: str, **values: Any) -> None:
    """Judge the stored trajectories of a pack with other judges, without running the agent.

    The pack stays as it is. The new pack names it, with its digest, in run/config.json. Exits 4 when no case
    could be judged.
    """
    import os

    from agent_eval.operations.rejudge import RejudgeRequest
    from agent_eval.operations.rejudge import rejudge as rejudge_pack
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal import run_text

    hide_environment()
    request = RejudgeRequest(**specified(values))
    result = rejudge_pack(request, environ=os.environ)
    payload = {
        "run_id": result.run_id,
        "summary": result.summary.to_json(),
        "pack": str(result.pack),
        **result.config.execution_config.to_json(),
    }
    emit(output_format, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))
    _refuse_unjudged(result)


@click.command(cls=TableCommand, path="merge")
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
def merge(packs: tuple[str, ...], out: Path, run_id: str | None, output_format: str, **how: Any) -> None:
    """Join the packs of a divided run into one, as if it had not been divided.

    Each pack must have been made with --shard K/N and the same settings. Overlaps, gaps and different
    settings are refused. Exits 4 when no case could be judged.
    """
    from pathlib import Path

    from agent_eval.config.spec import Output
    from agent_eval.operations.merge import merge_packs
    from agent_eval.reports.terminal import run_text

    output = Output(pack=out, layout=how["layout"], fresh=how["fresh"], registry=how["registry_path"])
    result = merge_packs([Path(pack) for pack in packs], output, run_id=run_id)
    payload = {"run_id": result.run_id, "summary": result.summary.to_json(), "pack": str(result.pack)}
    emit(output_format, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))
    _refuse_unjudged(result)


def _refuse_unjudged(result: RunResult) -> None:
    from agent_eval.operations.unjudged import CHECK_THE_RUN, refuse_unjudged

    refuse_unjudged(result.pack, result.summary, name=str(result.pack), remedy=CHECK_THE_RUN)


RECORDED, AGENT = "trace_score", "propose_execute_repair"


@click.command("stability-check", cls=TableCommand, path="stability-check")
def stability_check(execution_mode: str | None, output_format: str, **values: Any) -> int:
    """Find flaky cases, which pass in some trials and fail in others: exit 1 when there are some.

    Runs the agent several times if one is named, and otherwise judges the trials that the suite has recorded.
    """
    from agent_eval.cli.conversations import allowed_keys
    from agent_eval.operations.stability import StabilityRequest
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal import stability_text
    from agent_eval.suites.paths import is_of_conversations

    hide_environment()
    allowed_keys(values.get("agent__key_variables") or ())
    request = StabilityRequest(**specified(values, agent_is_known=is_of_conversations(values["suite"])))
    if execution_mode == AGENT and request.agent is None:
        raise click.UsageError(f"--execution-mode {AGENT} needs --agent-command or --agent.")
    if execution_mode == RECORDED and request.agent is not None:
        raise click.UsageError(f"--execution-mode {RECORDED} runs no agent.")
    result = _check(request)
    out = str(request.out) if request.out is not None else None
    if not is_stdout(request.out):
        emit(
            output_format,
            result.report.to_json(),
            lambda colour: stability_text(result.report, out, colour=colour),
        )
    return int(result.exit_code)


def _check(request: StabilityRequest) -> StabilityResult:
    import os

    from agent_eval.operations.stability import check_agent, check_recorded

    if request.agent is None:
        return check_recorded(request, environ=os.environ)
    from agent_eval.cli.output import ProgressPrinter

    with ProgressPrinter() as progress:
        return check_agent(request, environ=os.environ, on_progress=progress)

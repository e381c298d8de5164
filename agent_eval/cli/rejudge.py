"""`agent-eval rejudge`."""

from __future__ import annotations

import click

from agent_eval.cli.options import TEXT, output_format, sealed, trials
from agent_eval.cli.printing import emit


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

    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal import run_text
    from agent_eval.runs.rejudge import RejudgeRequest
    from agent_eval.runs.rejudge import rejudge as judge_anew

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
        **result.config.execution_config,
    }
    emit(output, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))

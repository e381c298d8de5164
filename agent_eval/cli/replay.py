"""`agent-eval replay-exec`."""

from __future__ import annotations

import click

from agent_eval.cli.options import (
    TEXT,
    agent_settings,
    connecting,
    judging,
    output_format,
    parallel,
    proposed,
    proposing,
)
from agent_eval.cli.output import emit


@click.command("replay-exec")
@click.option("--run", "pack", required=True, metavar="PACK", help="Evidence pack of a run of an agent.")
@click.option(
    "--out", metavar="FILE", help="The report; compare/replay_exec_report.json in the pack when not given."
)
@proposing
@click.option(
    "--trust-pack",
    type=TEXT,
    metavar="SHA256",
    help="Run what the pack names, if this is the digest of its manifest.json. A pack made here needs none.",
)
@connecting
@click.option("--tools", metavar="TOOLS", help="Live tools: an address, or module:function.")
@click.option("--replay", metavar="FILE", help="Answer tool calls from this file of recorded answers.")
@parallel
@judging
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case. Repeatable.")
@click.option(
    "--ignore-environment",
    is_flag=True,
    help="Differences of interpreter, machine and packages are told and do not count.",
)
@output_format
def replay_exec(
    pack: str,
    out: str | None,
    propose_command: str | None,
    repair_command: str | None,
    agent: str | None,
    trust_pack: str | None,
    judge_config: str | None,
    replay: str | None,
    tools: str | None,
    output: str,
    **options: object,
) -> int:
    """Run the agent of a pack again: exit 0 only when it does the same and is judged the same.

    The agent is the one that the pack names, where it was made here, or the one that is given.
    Compared are every event of every trial but for times and ids, the agent's answer in every attempt, and
    every judge's outcome. What a pack from elsewhere names as its agent is not run unless you say so.
    """
    import os
    from pathlib import Path

    from agent_eval.cli.output import ProgressPrinter
    from agent_eval.operations.replay import ReplayExecRequest
    from agent_eval.operations.replay import replay_exec as run_again
    from agent_eval.processes.child import hide_environment
    from agent_eval.reports.terminal import replay_exec_text

    hide_environment()
    request = ReplayExecRequest(
        run=Path(pack),
        out=Path(out) if out else None,
        agent=proposed(propose_command, repair_command, agent),
        options=agent_settings(options, repair=repair_command),
        trusted_digest=trust_pack,
        judge_config=Path(judge_config) if judge_config else None,
        tool_server=tools,
        cassette=Path(replay) if replay else None,
        **options,  # type: ignore[arg-type]
    )
    with ProgressPrinter() as progress:
        result = run_again(request, environ=os.environ, on_progress=progress)
    path = str(result.path) if result.path else None
    emit(output, result.report.to_json(), lambda colour: replay_exec_text(result.report, path, colour=colour))
    return int(result.exit_code)

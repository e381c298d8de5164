"""`agent-eval replay-exec`."""

from __future__ import annotations

import click

from agent_eval.cli.agent_options import Parallel, agent_settings, connecting
from agent_eval.cli.options import TEXT, judging, output_format
from agent_eval.cli.printing import emit


@click.command("replay-exec")
@click.option("--run", "pack", required=True, metavar="PACK", help="Evidence pack of a run of an agent.")
@click.option(
    "--out", metavar="FILE", help="The report; compare/replay_exec_report.json in the pack when not given."
)
@click.option(
    "--propose-command", type=TEXT, metavar="COMMAND", help="Run this program, whatever the pack names."
)
@click.option("--repair-command", type=TEXT, metavar="COMMAND", help="Run this after a failed attempt.")
@click.option("--agent", type=TEXT, help="Run this agent, whatever the pack names; as for `run`.")
@click.option(
    "--trust-pack",
    type=TEXT,
    metavar="SHA256",
    help="Run what the pack names, if this is the digest of its manifest.json. A pack made here needs none.",
)
@connecting
@click.option("--tools", metavar="TOOLS", help="Live tools: an address, or module:function.")
@click.option("--replay", metavar="FILE", help="Answer tool calls from this file of recorded answers.")
@click.option(
    "--parallel",
    type=Parallel(),
    default="1",
    show_default=True,
    metavar="N|auto",
    help="Cases at once; auto adapts to what a hosted model takes.",
)
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

    Compared are every event of every trial but for times and ids, the agent's answer in every attempt, and
    every judge's outcome. What a pack from elsewhere names as its agent is not run unless you say so.
    """
    import os
    from pathlib import Path

    from agent_eval.cli.progress import ProgressPrinter
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.replay_text import replay_exec_text
    from agent_eval.runs.replay_exec import ReplayExecRequest
    from agent_eval.runs.replay_exec import replay_exec as run_again

    if propose_command is not None and agent is not None:
        raise click.UsageError("Give --propose-command or --agent.")
    hide_environment()
    request = ReplayExecRequest(
        run=Path(pack),
        out=Path(out) if out else None,
        agent=f"command:{propose_command}" if propose_command else agent,
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

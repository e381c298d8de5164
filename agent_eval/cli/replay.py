"""`agent-eval replay-exec`."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.options import TableCommand, specified
from agent_eval.cli.output import emit


@click.command("replay-exec", cls=TableCommand, path="replay-exec")
def replay_exec(output_format: str, **values: Any) -> int:
    """Run the agent of a pack again: exit 0 only when it does the same and is judged the same.

    The agent is the one that the pack names, where it was made here, or the one that is given.
    Compared are every event of every trial but for times and ids, the agent's answer in every attempt, and
    every judge's outcome. What a pack from elsewhere names as its agent is not run unless you say so.
    """
    import os

    from agent_eval.cli.output import ProgressPrinter
    from agent_eval.operations.replay import ReplayExecRequest
    from agent_eval.operations.replay import replay_exec as run_again
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal import replay_exec_text

    hide_environment()
    request = ReplayExecRequest(**specified(values, agent_is_known=True))
    with ProgressPrinter() as progress:
        result = run_again(request, environ=os.environ, on_progress=progress)
    path = str(result.path) if result.path else None
    emit(
        output_format,
        result.report.to_json(),
        lambda colour: replay_exec_text(result.report, path, colour=colour),
    )
    return int(result.exit_code)

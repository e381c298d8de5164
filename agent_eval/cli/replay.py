"""`agent-eval replay` and `replay-exec`."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.options import TableCommand, specified
from agent_eval.cli.output import emit, is_stdout


@click.command(cls=TableCommand, path="replay")
def replay(public_key: tuple[str, ...], output_format: str, **values: Any) -> int:
    """Judge a pack again: exit 0 only when verdicts, summary and environment are the same, else 1.

    Runs no agent. Of the judges that the pack names, only built-in ones that start no program run, unless
    --trust-pack-commands says otherwise; or name judges of your own with --judge and --judge-config.
    """
    import os
    from pathlib import Path

    from agent_eval.attestations.keys import read_public_key
    from agent_eval.operations.replay_pack import ReplayRequest
    from agent_eval.operations.replay_pack import replay as judge_again
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal_replay import replay_text

    hide_environment()
    keys = tuple(read_public_key(Path(file)) for file in public_key)
    request = ReplayRequest(**specified(values), public_keys=keys)
    result = judge_again(request, environ=os.environ)
    path = str(result.path) if result.path else None
    if not is_stdout(request.out):
        emit(
            output_format,
            result.report.to_json(),
            lambda colour: replay_text(result.report, path, colour=colour),
        )
    return int(result.exit_code)


@click.command("replay-exec", cls=TableCommand, path="replay-exec")
def replay_exec(output_format: str, **values: Any) -> int:
    """Run the agent of a pack again: exit 0 only when it does the same and is judged the same.

    Runs the agent that the options name, or else the one that the pack names. The latter is run only if the
    pack was made on this machine or --trust-pack names its digest. Compares every event of every trial except
    for times and ids, the agent's answer in every attempt, and every judge's outcome.
    """
    import os

    from agent_eval.cli.output import ProgressPrinter
    from agent_eval.operations.replay import ReplayExecRequest
    from agent_eval.operations.replay import replay_exec as run_again
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal_replay import replay_exec_text

    hide_environment()
    request = ReplayExecRequest(**specified(values, agent_is_known=True))
    with ProgressPrinter() as progress:
        result = run_again(request, environ=os.environ, on_progress=progress)
    path = str(result.path) if result.path else None
    if not is_stdout(request.out):
        emit(
            output_format,
            result.report.to_json(),
            lambda colour: replay_exec_text(result.report, path, colour=colour),
        )
    return int(result.exit_code)

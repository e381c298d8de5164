"""Running an agent for a person who watches: progress, how to go on, what came of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent_eval.cli.printing import emit
from agent_eval.errors import ExitCode, NotEvaluable

if TYPE_CHECKING:
    from agent_eval.runs.run import RunRequest
    from agent_eval.runs.run_loop import AgentRequest, RunLoopResult

RESUME = "--resume"


def run_and_report(request: RunRequest, how: AgentRequest, output: str) -> int:
    """Run an agent with progress on stderr, print what came of it, and give the exit code.

    Raises:
        AgentEvalError: As `run_agent`, and where the agent was never reached.
    """
    from agent_eval.cli.interrupts import Interrupts
    from agent_eval.cli.progress import ProgressPrinter
    from agent_eval.runs.own_packs import remember_pack
    from agent_eval.runs.run_loop import RunInterrupted, run_agent

    interrupts = Interrupts()
    try:
        with interrupts, ProgressPrinter() as progress:
            result = run_agent(request, how, environ=os.environ, on_progress=progress, stop=interrupts.reason)
    except RunInterrupted as ended:
        click.echo(f"Stopped: {ended.message}. {_how_to_go_on(request.out)}".rstrip(), err=True)
        return int(interrupts.exit_code or ended.exit_code)
    except NotEvaluable as error:
        _add_how_to_go_on(error, request.out)
        raise
    except (KeyboardInterrupt, SystemExit):
        if hint := _how_to_go_on(request.out):
            click.echo(hint, err=True)
        raise
    remember_pack(result.pack, os.environ)
    if result.stopped:
        click.echo(_stopped(result, how), err=True)
    _print(result, output)
    if result.stopped:
        return int(interrupts.exit_code or ExitCode.NOT_EVALUABLE)
    _refuse_unreachable(result, request)
    return int(ExitCode.OK)


def _print(result: RunLoopResult, output: str) -> None:
    from agent_eval.reports.agent_run import agent_run_text

    standing = result.standing
    payload = {
        "run_id": result.run_id,
        "summary": result.summary.to_json(),
        "pack": str(result.pack),
        "complete": not result.stopped,
        "resumed_cases": standing.resumed,
        "retries": standing.retries,
        "cost_usd": standing.cost_usd,
        "cases_with_unknown_cost": standing.unknown_cost,
    }
    emit(
        output,
        payload,
        lambda colour: agent_run_text(result.summary, str(result.pack), standing, colour=colour),
    )


def _refuse_unreachable(result: RunLoopResult, request: RunRequest) -> None:
    from agent_eval.runs.reachability import may_be_unreachable, refuse_unreachable

    if may_be_unreachable(result.summary):
        from agent_eval.evidence.pack import open_pack

        refuse_unreachable(open_pack(result.pack), request.suite)


def _stopped(result: RunLoopResult, how: AgentRequest) -> str:
    standing, most = result.standing, how.run.cost_usd
    hint = _how_to_go_on(result.pack, raise_cost=most is not None and standing.cost_usd >= most)
    return (
        f"Stopped: {result.stopped}. {standing.done:,} of {standing.total:,} trials were run, "
        f"and the pack says that it is not complete. {hint}"
    )


def _add_how_to_go_on(error: NotEvaluable, out: Path) -> None:
    """A full disk, or a key that is refused in the middle: what was paid for is kept."""
    from agent_eval.storage.journal import JournalInUse

    hint = "" if isinstance(error, JournalInUse) else _how_to_go_on(out)
    if hint:
        error.details["remedy"] = " ".join(f"{error.remedy} {hint}".split("\n  ")).strip()


def _how_to_go_on(out: Path, *, raise_cost: bool = False) -> str:
    """Where what was done is kept, and the command that does the rest; empty where nothing is kept."""
    from agent_eval.runs.resume import journal_path

    journal = journal_path(out)
    if not journal.exists():
        return ""
    before = "To go on, raise --max-run-cost in" if raise_cost else "To go on:"
    return f"What has finished is in {journal}. {before}\n  {_command()}"


def _command() -> str:
    """This process's command line with `--resume`, for a shell in the same directory."""
    from agent_eval.runs.secrets import redactor_for
    from agent_eval.text.shell import shell_word

    arguments: tuple[str, ...] = click.get_current_context().obj or ()
    words = [*_program(), *arguments, *(() if RESUME in arguments else (RESUME,))]
    command = " ".join(map(shell_word, words))
    if redactor_for(os.environ).finds(command.encode("utf-8", "surrogateescape")):
        return f"the same command with {RESUME}"  # a log is no place for a secret
    return command


def _program() -> list[str]:
    """How this program is called from here."""
    import shutil

    from agent_eval.cli.main import PROGRAM

    called = sys.argv[0]
    if Path(called).name == "__main__.py":
        return [sys.executable, "-m", "agent_eval"]
    found = shutil.which(PROGRAM)
    return [called if Path(called).name == PROGRAM and found != called else PROGRAM]

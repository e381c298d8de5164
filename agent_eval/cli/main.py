"""The program `agent-eval`: its table of commands, and the exit code of the process.

This module imports only click and `agent_eval.errors`. A command's own module is imported when the command
is used, so that `agent-eval --help` and a mistyped flag are answered at once.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple

import click

from agent_eval import __version__
from agent_eval.cli.errors import (
    BROKEN_PIPE,
    INTERRUPTED,
    OWNS_PROCESS,
    TERMINATED,
    Ended,
    Terminated,
    report,
    report_end,
)
from agent_eval.cli.output import abandon, open_closed_streams, replace_unprintable
from agent_eval.errors import ExitCode, StorageError

PROGRAM, ALIAS = "agent-eval", "aui-evals"
COMPLETION_VARIABLE = "_AGENT_EVAL_COMPLETE"
"""Set by the shell when it asks click for completions."""


class Entry(NamedTuple):
    """A row of `COMMANDS`: the command (`module:attribute`), and its line in `--help`."""

    target: str
    summary: str


COMMANDS: dict[str, Entry] = {
    "init": Entry("agent_eval.cli.ci:init", "Write a starter suite, configuration and CI pipelines."),
    "run": Entry("agent_eval.cli.run:run", "Judge every case of a suite and seal the evidence."),
    "run-loop": Entry("agent_eval.cli.run:run_loop", "Run an agent over a suite, with repairs."),
    "rejudge": Entry("agent_eval.cli.rejudge:rejudge", "Judge the trajectories of a pack again."),
    "replay": Entry("agent_eval.cli.rejudge:replay", "Judge a pack again: exit 1 when anything differs."),
    "replay-exec": Entry(
        "agent_eval.cli.rejudge:replay_exec", "Run the agent of a pack again: exit 1 when it differs."
    ),
    "merge": Entry("agent_eval.cli.rejudge:merge", "Join the packs of a divided run into one."),
    "compare": Entry("agent_eval.cli.compare:compare", "Compare a candidate run with a baseline run."),
    "gate": Entry("agent_eval.cli.compare:gate", "Decide on a comparison, by thresholds or by policy."),
    "stability-check": Entry(
        "agent_eval.cli.rejudge:stability_check", "Find flaky cases: exit 1 when there are some."
    ),
    "judge-agreement": Entry(
        "agent_eval.cli.rejudge:judge_agreement", "Measure an LLM judge against what people found."
    ),
    "report": Entry("agent_eval.cli.compare:report", "Write a report of a comparison or run for people."),
    "show": Entry("agent_eval.cli.examine:show", "Show what an agent did on a case, and its verdicts."),
    "bless": Entry("agent_eval.cli.registry:bless", "Accept an intended change as the baseline."),
    "drift": Entry("agent_eval.cli.history:drift", "Hold main against a release: exit 1 if it lost quality."),
    "history": Entry("agent_eval.cli.history:history", "Show the trend and the flaky cases of main's runs."),
    "inspect": Entry("agent_eval.cli.examine:inspect_command", "Tell what a file is, and what it holds."),
    "diff": Entry("agent_eval.cli.examine:diff", "Show what differs between two runs, event by event."),
    "gate-health": Entry("agent_eval.cli.history:gate_health", "Say which judges and cases earn their cost."),
    "view": Entry("agent_eval.cli.compare:view", "Open a comparison or a pack in the browser."),
    "export-junit": Entry("agent_eval.cli.export:export_junit", "Write a run as JUnit XML."),
    "export-csv": Entry("agent_eval.cli.export:export_csv", "Write a run as CSV, a row a verdict."),
    "export-otel": Entry("agent_eval.cli.export:export_otel", "Write a run as OpenTelemetry, or send it."),
    "ci": Entry("agent_eval.cli.ci:ci", "Do all of it in CI: score, compare, comment, decide."),
    "demo": Entry("agent_eval.cli.ci:demo", "Run the whole job on a bundled example."),
    "demo-agent": Entry("agent_eval.cli.ci:demo_agent", "Serve the agents of the bundled suites."),
    "keygen": Entry("agent_eval.cli.packs:keygen", "Make a key pair to sign evidence with."),
    "attest": Entry("agent_eval.cli.packs:attest", "State in signed form how a run and its gate ended."),
    "verify-attestation": Entry(
        "agent_eval.cli.packs:verify_attestation", "Check who vouches for a pack: exit 1 when it fails."
    ),
    "verify": Entry("agent_eval.cli.packs:verify", "Say what of a pack is sealed, signed and still replays."),
    "validate": Entry("agent_eval.cli.suites:validate", "Check a suite, and list all its faults."),
    "import-trace": Entry(
        "agent_eval.cli.imports:import_trace", "Import a provider's exports as a suite with traces."
    ),
    "import-framework": Entry(
        "agent_eval.cli.imports:import_framework", "Import what a framework recorded as a suite."
    ),
    "import-transcript": Entry(
        "agent_eval.cli.imports:import_transcript", "Import telemetry, sessions, benchmark logs."
    ),
    "plan": Entry("agent_eval.cli.suites:plan", "Show what a run of conversations would do and cost."),
    "list-suites": Entry("agent_eval.cli.suites:list_suites", "List the bundled conversations."),
    "schema": Entry("agent_eval.cli.suites:schema", "Validate suites and migrate old ones."),
    "adapter-conformance": Entry(
        "agent_eval.cli.imports:adapter_conformance", "Import fixtures of every format: exit 1 on a loss."
    ),
    "contracts-check": Entry(
        "agent_eval.cli.imports:contracts_check", "Read old suites and exports: exit 1 when one changed."
    ),
    "benchmark-generate": Entry(
        "agent_eval.cli.imports:benchmark_generate",
        "Generate a suite of plausible cases, with known faults.",
    ),
    "pack": Entry("agent_eval.cli.packs:pack", "Verify evidence packs and convert their layout."),
    "completion": Entry("agent_eval.cli.completion:completion", "Print or install completion for a shell."),
    "registry": Entry("agent_eval.cli.registry:registry", "Keep baselines, approvals and waivers by name."),
}
"""Every command, in the order of `--help`. A new command needs a module and a line here."""


class LazyGroup(click.Group):
    """A group of commands that imports a command's module only when the command is used."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None if there is no such name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        __import__(module)
        command = getattr(sys.modules[module], attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.target} is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command as click does; the error for an unknown one suggests the nearest name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(_no_such_command(args[0]), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


def _no_such_command(name: str) -> str:
    import difflib

    nearest = difflib.get_close_matches(name, COMMANDS, n=1)
    return f"No such command {name!r}." + (f" Did you mean {nearest[0]!r}?" if nearest else "")


def _show_version(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    if is_set and not ctx.resilient_parsing:
        click.echo(f"{ctx.info_name} {__version__}")
        ctx.exit()


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 passed or done, 1 the gate said no, 2 wrong request or invalid input, "
    "3 inconclusive where that blocks, 4 could not be evaluated. `agent-eval help COMMAND` explains one.",
)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def agent_eval() -> None:
    """Judge LLM agents' trajectories, compare with a baseline, gate the release."""


def main(arguments: Sequence[str], *, owns_process: bool = False) -> int:
    """Run one command.

    `arguments` is the command line without the program's name. With `owns_process`, the process ends with the
    command, so that its signal handlers may stay. Returns the exit code; errors have been printed on stderr.
    """
    try:
        outcome = _invoke(list(arguments), owns_process)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of stdout has closed it, so text that is still buffered cannot be written.
        abandon(sys.stdout)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        report_end(Ended("Interrupted by Ctrl-C."), arguments)
        return INTERRUPTED
    except click.Abort:
        report_end(Ended("Interrupted at a question. Nothing was written."), arguments)
        return INTERRUPTED
    except Terminated:
        report_end(Ended("Ended by SIGTERM."), arguments)
        return TERMINATED
    except OSError as error:
        # Writing files raises StorageError, so the error is of stdout, whose disk is full or broken.
        if error.errno not in UNWRITABLE or error.filename is not None:
            return report(error, arguments)
        abandon(sys.stdout)
        return report(unwritable_stdout(error), arguments)
    except Exception as error:
        return report(error, arguments)
    return outcome if isinstance(outcome, int) else int(ExitCode.OK)


def _invoke(arguments: list[str], owns_process: bool) -> object:
    """Run the command. Returns its result or its exit code."""
    arguments = _as_options(arguments)
    if COMPLETION_VARIABLE in os.environ:
        agent_eval.main(args=arguments, prog_name=PROGRAM)
    # Click's own `main` exits with 1 when the reader of stdout has closed it; here 1 means a failed gate.
    try:
        # Commands that can be resumed print the command line that does so.
        with agent_eval.make_context(_called(owns_process), arguments, obj=tuple(arguments)) as context:
            context.meta[OWNS_PROCESS] = owns_process
            return agent_eval.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code


def _called(owns_process: bool) -> str:
    """Return the name by which this program was called, for its help."""
    return ALIAS if owns_process and os.path.basename(sys.argv[0]) == ALIAS else PROGRAM


def _as_options(arguments: list[str]) -> list[str]:
    """Write `help COMMAND` and `version`, which users of other programs type, as options."""
    if arguments == ["version"]:
        return ["--version"]
    return [*arguments[1:], "--help"] if arguments[:1] == ["help"] else arguments


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    # Raised in the main thread, so that its `finally` blocks remove half-written directories.
    raise Terminated(TERMINATED)


def entry() -> None:
    """Run the command of `sys.argv`, and exit with its code. The console script calls this."""
    signal.signal(signal.SIGTERM, _terminate)
    open_closed_streams()
    replace_unprintable()
    code = main(sys.argv[1:], owns_process=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the exit code is decided
    sys.exit(code)


UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF})
"""Error numbers of writing to a full or broken disk, or to a closed stream."""


def unwritable_stdout(error: OSError) -> StorageError:
    """Make the error for a result that could not be printed."""
    return StorageError(
        f"the result cannot be printed: {error.strerror}",
        remedy="Free space where standard output goes, or send it elsewhere.",
    )

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
from typing import Any, NamedTuple

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
from agent_eval.config.gone import gone_command
from agent_eval.errors import ExitCode, StorageError

PROGRAM, ALIAS = "agent-eval", "aui-evals"
COMPLETION_VARIABLE = "_AGENT_EVAL_COMPLETE"
"""Set by the shell when it asks click for completions."""


class Entry(NamedTuple):
    """A row of `COMMANDS`: the command (`module:attribute`), its line in the list, and its group there.

    Without a group it is not listed.
    """

    target: str
    summary: str
    group: str = ""


_CLI = "agent_eval.cli."
COMMANDS: dict[str, Entry] = {
    "init": Entry(f"{_CLI}ci:init", "write agent-eval.yml, a suite of two cases and one CI file", "Start"),
    "demo": Entry(f"{_CLI}ci:demo", "watch the whole job on a bundled example", "Start"),
    "run": Entry(f"{_CLI}run:run", "run a suite, judge each case", "Start"),
    "show": Entry(f"{_CLI}examine:show", "what the agent did on a case; what a file is", "Start"),
    "view": Entry(f"{_CLI}compare:view", "the report in your browser", "Start"),
    "compare": Entry(f"{_CLI}compare:compare", "this run with a baseline", "Compare"),
    "gate": Entry(f"{_CLI}compare:gate", "decide: exit 0, 1, 3", "Compare"),
    "diff": Entry(f"{_CLI}examine:diff", "two runs of a case, event by event", "Compare"),
    "report markdown": Entry(f"{_CLI}compare:markdown", "a comparison or a run as Markdown"),
    "report html": Entry(f"{_CLI}compare:html", "a comparison or a run as one HTML file"),
    "bless": Entry(f"{_CLI}registry:bless", "accept an intended change as the baseline", "Compare"),
    "ci": Entry(f"{_CLI}ci:ci", "run, compare, decide, comment", "CI"),
    "merge": Entry(f"{_CLI}rejudge:merge", "join the shards of a run", "CI"),
    "history show": Entry(f"{_CLI}history:show", "main's trend and flaky cases"),
    "history drift": Entry(f"{_CLI}history:drift", "main against a release"),
    "history health": Entry(f"{_CLI}history:health", "which judges and cases earn their cost"),
    "validate": Entry(f"{_CLI}suites:validate", "check suites, and list all their faults", "Suites"),
    "plan": Entry(f"{_CLI}suites:plan", "what a run of conversations would do and cost", "Suites"),
    "import": Entry(f"{_CLI}imports:import_files", "recordings of other tools as a suite", "Suites"),
    "generate": Entry(f"{_CLI}imports:generate", "a suite of plausible cases", "Suites"),
    "rejudge": Entry(f"{_CLI}rejudge:rejudge", "judge stored trajectories with other judges", "Judges"),
    "replay": Entry(f"{_CLI}rejudge:replay", "judge again, or run the agent again, and compare", "Judges"),
    "stability-check": Entry(f"{_CLI}rejudge:stability_check", "run n times, list the flaky cases", "Judges"),
    "judge-agreement": Entry(
        f"{_CLI}rejudge:judge_agreement", "an LLM judge against people's labels", "Judges"
    ),
    "verify": Entry(f"{_CLI}packs:verify", "whole? signed? by whom? does it still replay?", "Evidence"),
    "attest": Entry(f"{_CLI}packs:attest", "sign a result", "Evidence"),
    "keygen": Entry(f"{_CLI}packs:keygen", "make a key pair to sign with", "Evidence"),
    "export junit": Entry(f"{_CLI}export:junit", "a run as JUnit XML"),
    "export csv": Entry(f"{_CLI}export:csv", "a run as CSV, a row a verdict"),
    "export otel": Entry(f"{_CLI}export:otel", "a run as OpenTelemetry spans"),
    "registry list": Entry(f"{_CLI}registry:list_entries", "what is registered, and what holds"),
    "registry log": Entry(f"{_CLI}registry:log", "changes, the newest first"),
    "registry verify": Entry(f"{_CLI}registry:verify", "the log's chain and all pinned digests"),
    "registry dataset-add": Entry(f"{_CLI}registry:dataset_add", "register a suite"),
    "registry baseline-set": Entry(f"{_CLI}registry:baseline_set", "register a run as a baseline"),
    "registry baseline-promote": Entry(f"{_CLI}registry:baseline_promote", "the same, with an approval"),
    "registry waiver-add": Entry(f"{_CLI}registry:waiver_add", "accept a known regression"),
    "registry waiver-revoke": Entry(f"{_CLI}registry:waiver_revoke", "end a waiver now"),
    "completion": Entry(f"{_CLI}completion:completion", "completion for a shell"),
    "list-suites": Entry(f"{_CLI}suites:list_suites", "the bundled suites of conversations"),
    "schema show": Entry(f"{_CLI}suites:schema_show", "the JSON Schema of suites"),
    "schema migrate": Entry(f"{_CLI}suites:migrate", "a suite in another schema version"),
    "dev demo-agent": Entry(f"{_CLI}ci:demo_agent", "serve the agents of the bundled suites"),
    "dev adapter-conformance": Entry(f"{_CLI}imports:adapter_conformance", "import fixtures of every format"),
    "dev contracts-check": Entry(f"{_CLI}imports:contracts_check", "read old suites and exports"),
    "dev compact": Entry(f"{_CLI}packs:compact", "a pack with its cases in shards"),
    "dev expand": Entry(f"{_CLI}packs:expand", "a pack with a folder for each case"),
}
"""Every command, in the order of the list. A new command needs a function and a line here."""

GROUPS: dict[str, Entry] = {
    "report": Entry("diff", "write a report: markdown | html", "Compare"),
    "history": Entry("merge", "main's trend and flaky cases; drift | health", "CI"),
    "export": Entry("keygen", "a run for other tools: junit | csv | otel", "Evidence"),
    "registry": Entry("export", "baselines, approvals and waivers by name", "Evidence"),
    "schema": Entry("", "migrate a suite; show its JSON Schema"),
    "dev": Entry("", "for those who work on agent-eval itself"),
}
"""The first words of commands with two; in place of the target, after which command each is listed."""

ALIASES: dict[str, tuple[str, ...]] = {
    "run-loop": ("run", "--max-repairs", "2"),
    "replay-exec": ("replay", "--run-agent"),
    "inspect": ("show",),
    "drift": ("history", "drift"),
    "gate-health": ("history", "health"),
    "export-junit": ("export", "junit"),
    "export-csv": ("export", "csv"),
    "export-otel": ("export", "otel"),
    "import-trace": ("import", "--family", "provider"),
    "import-framework": ("import", "--family", "framework"),
    "import-transcript": ("import", "--family", "transcript"),
    "benchmark-generate": ("generate",),
    "verify-attestation": ("verify", "--require", "origin"),
    "pack verify": ("verify",),
    "pack compact": ("dev", "compact"),
    "pack expand": ("dev", "expand"),
    "demo-agent": ("dev", "demo-agent"),
    "adapter-conformance": ("dev", "adapter-conformance"),
    "contracts-check": ("dev", "contracts-check"),
    "schema validate": ("validate",),
    "registry dataset-list": ("registry", "list", "--only", "datasets"),
    "registry baseline-list": ("registry", "list", "--only", "baselines"),
    "registry baseline-show": ("registry", "list", "--only", "baseline"),
    "registry approval-list": ("registry", "list", "--only", "approvals"),
    "registry waiver-list": ("registry", "list", "--only", "waivers", "--all"),
    "registry audit-log": ("registry", "log"),
}
"""Names that are accepted for ever and listed nowhere: by the words typed, command and fixed arguments."""


def unaliased(words: Sequence[str]) -> list[str]:
    """Write a command line with the names that the table of commands has.

    `history WHERE` is `history show WHERE`.
    """
    for number in (2, 1):
        meant = ALIASES.get(" ".join(words[:number]))
        if meant is not None:
            return [*meant, *words[number:]]
    second = f"history {' '.join(words[1:2])}"
    if words[:1] == ["history"] and second not in COMMANDS and gone_command(second) is None:
        return ["history", "show", *words[1:]]
    return list(words)


class CommandGroup(click.Group):
    """Commands of the table that begin with some words. A command's module is imported when it is used."""

    def get_help_option_names(self, _ctx: click.Context) -> list[str]:
        """Return `-h` and `--help` for any context, since click keeps the option that it makes first."""
        return ["-h", "--help"]

    def __init__(self, *arguments: Any, prefix: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._prefix = prefix

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        inner = (name.removeprefix(self._prefix) for name in COMMANDS if name.startswith(self._prefix))
        return list(dict.fromkeys(name.split()[0] for name in inner))

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None if there is no such name."""
        path = self._prefix + cmd_name
        if path in GROUPS:
            text, usage = GROUPS[path].summary, {"options_metavar": "", "subcommand_metavar": "COMMAND ..."}
            return CommandGroup(cmd_name, prefix=f"{path} ", help=f"{text[0].upper()}{text[1:]}.", **usage)
        entry = COMMANDS.get(path)
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
        name, known = self._prefix + args[0], self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            import difflib

            nearest = difflib.get_close_matches(args[0], known, n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            raise gone_command(name) or click.UsageError(f"No such command {args[0]!r}.{hint}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them; a group has no options of its own."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, COMMANDS[self._prefix + name].summary) for name in self.list_commands(ctx)]
            )


def _show_version(ctx: click.Context, _param: click.Parameter, is_set: bool) -> None:
    if is_set and not ctx.resilient_parsing:
        click.echo(f"{ctx.info_name} {__version__}")
        ctx.exit()


class Front(CommandGroup):
    """The program itself: its help is the list of commands by group."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list; that of the four commands of `aui-evals` where it is called so."""
        name, listed = ctx.info_name, [(name, entry) for name, entry in COMMANDS.items() if entry.group]
        for group, entry in GROUPS.items():
            names = [name for name, _ in listed]
            if entry.group:
                listed.insert(names.index(entry.target) + 1, (group, entry))
        if name == ALIAS:
            of_suites = ("list-suites", "validate", "plan", "run")
            listed = [(name, COMMANDS[name]._replace(group="Commands")) for name in of_suites]
        formatter.write(f"Usage: {name} COMMAND ...\n\n{self.help}\n\n")
        before = ""
        for command, entry in listed:
            heading = "" if entry.group == before else entry.group
            formatter.write(f"{heading:<13} {command:<16} {entry.summary}\n".rstrip(" "))
            before = entry.group
        formatter.write(_AFTER_THE_LIST.format(name=name))


_AFTER_THE_LIST = """
Examples      {name} init --agent "python agent.py"
              {name} run                     # what agent-eval.yml says
              {name} ci                      # the same job as in CI, on your machine

More          {name} COMMAND -h (short), --help (all) · docs/index.md · completion, dev, schema
Exit codes    0 done or passed · 1 the gate says no · 2 wrong request · 3 not settled · 4 not evaluated
"""


@click.command(cls=Front, context_settings={"max_content_width": 100})
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
    """Find out on every pull request whether your LLM agent got worse."""


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
        problem = f"the result cannot be printed: {error.strerror}"
        remedy = "Free space where standard output goes, or send it elsewhere."
        return report(StorageError(problem, remedy=remedy), arguments)
    except Exception as error:
        return report(error, arguments)
    return outcome if isinstance(outcome, int) else int(ExitCode.OK)


def _invoke(arguments: list[str], owns_process: bool) -> object:
    """Run the command. Returns its result or its exit code."""
    # `help COMMAND`, `version` and no word at all, which people type, are options.
    if arguments[:1] in ([], ["help"]):
        arguments = [*arguments[1:], "--help"]
    arguments = unaliased(["--version"] if arguments == ["version"] else arguments)
    if COMPLETION_VARIABLE in os.environ:
        agent_eval.main(args=arguments, prog_name=PROGRAM)
    program = ALIAS if owns_process and os.path.basename(sys.argv[0]) == ALIAS else PROGRAM
    # Click's own `main` exits with 1 when the reader of stdout has closed it; here 1 means a failed gate.
    try:
        # Commands that can be resumed print the command line that does so.
        with agent_eval.make_context(program, arguments, obj=tuple(arguments)) as context:
            context.meta[OWNS_PROCESS] = owns_process
            return agent_eval.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code


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

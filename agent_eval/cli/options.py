"""Flags of the commands, made from the table of options. No flag is declared anywhere else."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent_eval.config.options import Command, Option

STATED = "agent_eval.stated"
"""Key of the context's `meta`: the options that `--set` states, which count as given by the user."""


class TableCommand(click.Command):
    """A command whose flags are its rows of the table of options, made when the command is used.

    Its function gets the value of every option under `parameter(option)`. An option without a value and a
    default is None, or an empty tuple if it may be repeated.
    """

    def __init__(self, *arguments: Any, path: Command, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.path: Command = path
        self._has_flags = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Make the flags on the first call, and return all parameters."""
        if not self._has_flags:
            self._has_flags = True
            self.params = [*self.params, *self.flags()]
        return super().get_params(ctx)

    def get_help_option_names(self, _ctx: click.Context) -> list[str]:
        """Return `-h` and `--help` for any context, since click keeps the option that it makes first."""
        return [SHORT_HELP, "--help"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; an error of an option without its value names the command too, which click leaves out."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Give the function what flags say, and what `agent-eval.yml` says in place of those not given."""
        if "set_values" in ctx.params and self.path != "ci":
            from agent_eval.cli.project import fill_in

            ctx.meta[STATED] = fill_in(self.path, ctx, parameter)
        return super().invoke(ctx)

    def flags(self) -> list[click.Parameter]:
        """Make the flags."""
        from agent_eval.config.table import options_of

        flags: list[click.Parameter] = []
        for option in options_of(self.path):
            # One letter has one dash.
            names = [f"-{name}" if len(name) == 1 else f"--{name}" for name in option.names]
            flags.append(Flag([*names, parameter(option)], detail=option.detail, **_declaration(option)))
        return flags

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help: with `-h` the options that most people need, with `--help` all, both in groups."""
        from agent_eval.config.rows.groups import EXAMPLES, GROUPS, OF_THE_PLATFORM, SHORT

        flags = {row.opts[0].lstrip("-"): row for row in self.get_params(ctx) if isinstance(row, Flag)}
        records = {name: record for name, row in flags.items() if (record := row.get_help_record(ctx))}
        short = SHORT.get(self.path, ()) if SHORT_HELP in (ctx.find_root().obj or ()) else ()
        self.format_usage(ctx, formatter)
        if short:
            formatter.write(f"\n{self.get_short_help_str(200)}\n")
        else:
            self.format_help_text(ctx, formatter)
        groups = {**GROUPS, OF_THE_PLATFORM: self.of_platform()}
        if self.path not in SHORT:
            groups = {"Options": tuple(records)}
        count = sum(name in records for members in groups.values() for name in members)
        for heading, members in ({"Options": short} if short else groups).items():
            if rows := [records[name] for name in members if name in records]:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        if self.path in EXAMPLES:
            formatter.write("\nExamples:\n" + "".join(f"  {line}\n" for line in EXAMPLES[self.path]))
        if short:
            formatter.write(f"\nAll {count} options: {ctx.command_path} --help\n")

    def of_platform(self) -> tuple[str, ...]:
        """Name the options that only this job's CI platform has."""
        return ()


def parameter(option: Option) -> str:
    """Return the parameter that gets the value: `goes_to`, with two underscores for a dot."""
    return option.goes_to.replace(".", "__")


SHORT_HELP = "-h"

SHOWN_AS_ALIAS = frozenset({"test", "loops", "debug", "provider"})
"""Options that the help of `aui-evals` shows, by which name its specification has them."""


class Flag(click.Option):
    """A flag that accepts several names; help and error messages have only the first.

    `detail` is what the reference says beside the help.
    """

    def __init__(self, *arguments: Any, detail: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.detail = detail

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Show only the first name, and of a hidden one nothing unless `aui-evals` has it."""
        from agent_eval.cli.main import ALIAS

        names_of_alias = SHOWN_AS_ALIAS if ctx.find_root().info_name == ALIAS else ()
        if self.hidden and self.opts[0].lstrip("-") not in names_of_alias:
            return None
        return super(Flag, self._by_first_name()).get_help_record(ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Name only the first name."""
        return super(Flag, self._by_first_name()).get_error_hint(ctx)

    def _by_first_name(self) -> Flag:
        flag = copy(self)
        flag.opts, flag.hidden = self.opts[:1], False
        return flag


_FILES = frozenset({"FILE", "PACK", "DIRECTORY", "FILE|PACK"})


class _OptionType(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """Parses an option by its row of the table; an invalid value is a usage error that names the flag."""

    def __init__(self, option: Option) -> None:
        self._option = option
        self.name = option.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the value; None for an empty path that is optional."""
        if not isinstance(value, str):
            return value
        if not value.strip():
            if self._option.kind == "path" and not (self._option.required or self._option.default):
                return None
            self.fail("it is empty.", param, ctx)
        if self._option.kind == "lines":
            return (value,)
        from agent_eval.config.values import WrongValue, parse

        try:
            return parse(self._option, value)
        except WrongValue as wrong:
            text = repr(value) if wrong.may_be_shown else "the value"
            self.fail(f"{text} is not {wrong.wanted}.", param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - as click calls it
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[click.shell_completion.CompletionItem]:
        """Let the shell complete the names of files."""
        from click.shell_completion import CompletionItem

        names_file = metavar(self._option) in _FILES
        return [CompletionItem(incomplete, type="file")] if names_file else []


def _declaration(option: Option) -> dict[str, Any]:
    repeatable = " Repeatable." if option.is_listed and "epeat" not in option.help else ""
    declaration: dict[str, Any] = {
        "help": option.help + repeatable,
        "required": option.required,
        "hidden": option.hidden,
    }
    if option.kind == "switch":
        return {**declaration, "is_flag": True}
    if option.default:
        default = (option.default,) if option.is_listed else option.default
        declaration |= {"default": default, "show_default": True}
    if option.choices:
        return {**declaration, "type": click.Choice(option.choices), "multiple": option.is_listed}
    declaration |= {"type": _OptionType(option), "metavar": metavar(option)}
    if option.is_listed:
        # Each occurrence of the flag adds one value, or several that commas separate.
        declaration |= {"multiple": True, "callback": lambda _context, _param, values: sum(values, ())}
    return declaration


_METAVARS = {
    "switch": "true|false",
    "amount": "NUMBER",
    "count": "N",
    "integer": "N",
    "seed": "INTEGER",
    "path": "FILE",
    "lines": "TEXT",
    "list": "TEXT",
}


def metavar(option: Option) -> str:
    """Name the value of an option as help shows it."""
    own = option.metavar or "|".join(option.choices) or option.unit.upper()
    return own or _METAVARS.get(option.kind, option.kind.upper())


def specified(values: Mapping[str, Any], *, agent_is_known: bool = False) -> dict[str, Any]:
    """Build the fields of a specification from the parameters of the running command.

    With `agent_is_known`, no option needs to name the agent, and the options of an agent are allowed.
    Otherwise there is no field `agent` if none is named.

    Raises:
        UsageError: Options of the agent contradict each other, or are set without an agent.
    """
    from agent_eval.config.assembly import assemble, check_agent, refuse_without_agent
    from agent_eval.config.table import options_of

    context = click.get_current_context()
    if not isinstance(context.command, TableCommand):
        raise TypeError(f"{context.command_path} has no options of the table")
    typed = click.core.ParameterSource.COMMANDLINE  # not those that have their default
    options = options_of(context.command.path)
    named = [option for option in options if context.get_parameter_source(parameter(option)) is typed]
    named += context.meta.get(STATED, ())
    check_agent(named, spell=_flag)
    stated = {name: value for name, value in values.items() if value is not None and value != ()}
    fields = assemble({name.replace("__", "."): value for name, value in stated.items()})
    names_no_agent = "agent" in fields and not fields["agent"].is_named
    if names_no_agent and not agent_is_known:
        refuse_without_agent(named, spell=_flag)
        del fields["agent"]
    return fields


def _flag(option: Option) -> str:
    from agent_eval.config.rows.file import KEYS

    return option.flag if option.commands else f"--set {KEYS[option.name]}"

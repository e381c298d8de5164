"""Flags of the commands, made from the table of options. No flag is declared anywhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agent_eval.config.options import Command, Option


class TableCommand(click.Command):
    """A command whose flags are its rows of the table of options, made when the command is used.

    Its function gets the value of every option under `parameter(option)`. A value that is not given and has
    no default is None, or an empty tuple where there may be several.

    Example:
        >>> @click.command(cls=TableCommand, path="pack verify")
        ... def verify(pack, output_format):
        ...     click.echo(f"Verifying {pack}")
        >>> verify.main(["--run", "runs/candidate"], standalone_mode=False)
        Verifying runs/candidate
    """

    def __init__(self, *arguments: Any, path: Command, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.path: Command = path
        self._has_flags = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Declare the flags first."""
        if not self._has_flags:
            self._has_flags = True
            self.params = [*self.params, *self.flags()]
        return super().get_params(ctx)

    def flags(self) -> list[click.Parameter]:
        """Make the flags."""
        from agent_eval.config.table import options_of

        return [
            Flag([*(f"--{name}" for name in option.names), parameter(option)], **_declaration(option))
            for option in options_of(self.path)
        ]


def parameter(option: Option) -> str:
    """The keyword under which a function gets the value: `goes_to`, with two underscores for a dot."""
    return option.goes_to.replace(".", "__")


class Flag(click.Option):
    """A flag whose other names are accepted, and shown neither in help nor in error messages."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Show the first name alone."""
        with self._one_name():
            return super().get_help_record(ctx)

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Name the first name alone."""
        with self._one_name():
            return super().get_error_hint(ctx)

    @contextmanager
    def _one_name(self) -> Iterator[None]:
        every = self.opts
        self.opts = every[:1]
        try:
            yield
        finally:
            self.opts = every


class _Text(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """Reads what the table says of an option; a wrong value is a usage error that names the flag."""

    def __init__(self, option: Option) -> None:
        self._option = option
        self.name = option.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse the value; None for an empty path that need not be given."""
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
            shown = repr(value) if wrong.may_be_shown else "the value"
            self.fail(f"{shown} is not {wrong.wanted}.", param, ctx)


def _declaration(option: Option) -> dict[str, Any]:
    repeatable = " Repeatable." if option.is_listed and "epeat" not in option.help else ""
    shown: dict[str, Any] = {"help": option.help + repeatable, "required": option.required}
    if option.kind == "switch":
        return {**shown, "is_flag": True}
    if option.default:
        shown |= {"default": (option.default,) if option.is_listed else option.default, "show_default": True}
    if option.choices:
        return {**shown, "type": click.Choice(option.choices), "multiple": option.is_listed}
    shown |= {"type": _Text(option), "metavar": metavar(option)}
    if option.is_listed:
        # Each time that the flag is given adds one value, or several that commas separate.
        shown |= {"multiple": True, "callback": lambda _context, _param, values: sum(values, ())}
    return shown


_METAVARS = {
    "switch": "true|false",
    "amount": "NUMBER",
    "count": "N",
    "integer": "N",
    "seed": "INTEGER",
    "lines": "TEXT",
    "list": "TEXT",
}


def metavar(option: Option) -> str:
    """Name the value of an option as help shows it."""
    known = option.metavar or "|".join(option.choices) or option.unit.upper()
    return known or _METAVARS.get(option.kind, option.kind.upper())


def specified(values: Mapping[str, Any], *, agent_is_known: bool = False) -> dict[str, Any]:
    """Build the parts of a specification from what the function of the running command got.

    Args:
        values: By parameter.
        agent_is_known: Whether options of the agent are fine without naming it.

    Returns:
        The fields of the specification. Unless the agent is known, there is no `agent` where none is named.

    Raises:
        UsageError: Options of the agent contradict each other, or are given without an agent.
    """
    from agent_eval.config.assembly import assemble, check_agent, refuse_without_agent

    given = list(_given(click.get_current_context()))
    check_agent(given, spell=_flag)
    fields = assemble(
        {
            name.replace("__", "."): value
            for name, value in values.items()
            if value is not None and value != ()
        }
    )
    names_no_agent = "agent" in fields and not fields["agent"].is_named
    if names_no_agent and not agent_is_known:
        refuse_without_agent(given, spell=_flag)
        del fields["agent"]
    return fields


def _given(context: click.Context) -> Iterator[Option]:
    """The options that the command line names, without those that hold by default."""
    from agent_eval.config.table import options_of

    if not isinstance(context.command, TableCommand):
        raise TypeError(f"{context.command_path} has no options of the table")
    for option in options_of(context.command.path):
        if context.get_parameter_source(parameter(option)) is click.core.ParameterSource.COMMANDLINE:
            yield option


def _flag(option: Option) -> str:
    return option.flag

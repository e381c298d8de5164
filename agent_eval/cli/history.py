"""`agent-eval history`: what the last runs of the base branch counted."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.config.gone import gone_command

if TYPE_CHECKING:
    from pathlib import Path


class HistoryGroup(click.Group):
    """The group of `history`, in which the name of no command is that of `show`.

    Example:
        >>> HistoryGroup("history").resolve_command(click.Context(history), ["runs/1"])[2]
        ['runs/1']
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take an option before the argument, or no word at all, for a call of `show`."""
        of_show = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, ["show", *args] if of_show else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take what is no command for the arguments of `show`."""
        if args and not ctx.resilient_parsing and (gone := gone_command(f"history {args[0]}")) is not None:
            raise gone
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "show", history_show, args

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of `show` as well: a user who leaves its name out looks for them here."""
        super().format_options(ctx, formatter)
        context = click.Context(history_show, parent=ctx, info_name="show")
        rows = [
            record
            for option in history_show.get_params(context)
            if (record := option.get_help_record(context))
        ]
        with formatter.section("Options of `history WHERE`"):
            formatter.write_dl(rows)


@click.group(cls=HistoryGroup, subcommand_metavar="WHERE | COMMAND [ARGS]...")
def history() -> None:
    """Show what the last runs of the base branch counted: `history WHERE`."""


@history.command(name="show", cls=TableCommand, path="history show")
@click.argument("where", type=click.Path(path_type=pathlib.Path))
def history_show(
    where: Path,
    dataset_id: str | None,
    policy: Path | None,
    runs: int,
    recommend: bool,
    output_format: str,
) -> None:
    """Show the trend, the cases over the runs, and which cases are flaky.

    WHERE is the evidence of a run on the base branch: a pack, an archive, or the directory `out` of `ci`.
    """
    from agent_eval.history.board import board, recommendation
    from agent_eval.operations.history import history_json, policy_at, read_history_at, unknown_cases
    from agent_eval.reports.terminal_history import history_text
    from agent_eval.text.escape import clean

    records = read_history_at(where, dataset_id)
    stated = policy_at(policy)
    quarantined = {entry.case for entry in stated.quarantine}
    warnings = unknown_cases(stated, records)
    # In a recommendation, which is YAML, they are comments.
    warning_lines = [f"{'# ' if recommend else ''}warning: {clean(warning)}" for warning in warnings]
    table = board(records, runs=runs, quarantined=quarantined)
    if recommend:
        from agent_eval.reports.recommendation import recommendation_json, recommendation_lines

        recommended = recommendation(table, quarantined)
        emit(
            output_format,
            {**recommendation_json(recommended), "warnings": warnings},
            lambda _colour: [*warning_lines, *recommendation_lines(recommended, table)],
        )
        return
    name = records[0].run.dataset_id
    emit(
        output_format,
        history_json(table, warnings),
        lambda colour: [*history_text(table, name, colour=colour), *warning_lines],
    )

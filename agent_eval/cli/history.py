"""`agent-eval history`: what the last runs of the base branch counted, and a badge of it."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit, is_stdout

if TYPE_CHECKING:
    from pathlib import Path


class HistoryGroup(click.Group):
    """The group of `history`, in which the name of no command is that of `show`.

    Example:
        >>> HistoryGroup("history").resolve_command(click.Context(history), ["runs/1"])[2]
        ['runs/1']
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take no word at all for `show` without its argument, which then says what is missing."""
        return super().parse_args(ctx, args or ["show"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take what is no command for the arguments of `show`."""
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "show", history_show, args


@click.group(cls=HistoryGroup)
def history() -> None:
    """Show what the last runs of the base branch counted: `history WHERE`, or `history badge WHERE`."""


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

    WHERE is the evidence of a run on the base branch (a pack, an archive), or the directory that the option
    `history` of `ci` names.
    """
    from agent_eval.history.board import board
    from agent_eval.operations.history import declared_tiers, history_json, read_history_at
    from agent_eval.reports.terminal_history import history_text

    records = read_history_at(where, dataset_id)
    declared = declared_tiers(policy)
    table = board(records, runs=runs, declared=declared)
    if recommend:
        from agent_eval.history.recommendation import recommendation
        from agent_eval.reports.recommendation import recommendation_json, recommendation_lines

        recommended = recommendation(table, declared)
        emit(
            output_format,
            recommendation_json(recommended),
            lambda _colour: recommendation_lines(recommended, table),
        )
        return
    name = records[0].run.dataset_id
    emit(output_format, history_json(table), lambda colour: history_text(table, name, colour=colour))


@history.command(name="badge", cls=TableCommand, path="history badge")
@click.argument("where", type=click.Path(path_type=pathlib.Path))
def badge(where: Path, dataset_id: str | None, label: str, out: Path, output_format: str) -> None:
    """Draw the newest pass rate as a badge: one SVG that loads nothing.

    It is green, and orange with the word "low" where the run is below what the runs before it make likely.
    """
    from agent_eval.evidence.derived import write_output
    from agent_eval.history.board import board
    from agent_eval.operations.history import read_history_at
    from agent_eval.reports.badge import badge_svg

    svg = badge_svg(board(read_history_at(where, dataset_id)), label)
    write_output(out, svg.encode())
    if not is_stdout(out):
        emit(output_format, {"badge": str(out)}, lambda _colour: [f"Wrote {out}"])

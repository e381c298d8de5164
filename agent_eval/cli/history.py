"""`agent-eval history`, `drift` and `gate-health`: what many runs say."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.config.gone import gone_command
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.gate.health import GateHealth


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
    from agent_eval.operations.history import (
        history_json,
        quarantine_at,
        read_histories_at,
        read_history_at,
    )
    from agent_eval.reports.terminal_history import history_text
    from agent_eval.text.escape import clean

    histories = read_histories_at(where, dataset_id)
    quarantined, warnings = quarantine_at(policy, [row for rows in histories.values() for row in rows])
    # In a recommendation, which is YAML, they are comments.
    warning_lines = [f"{'# ' if recommend else ''}warning: {clean(warning)}" for warning in warnings]
    if recommend:
        from agent_eval.reports.terminal_history import recommendation_json, recommendation_lines

        table = board(read_history_at(where, dataset_id), runs=runs, quarantined=quarantined)
        recommended = recommendation(table, quarantined)
        emit(
            output_format,
            {**recommendation_json(recommended), "warnings": warnings},
            lambda _colour: [*warning_lines, *recommendation_lines(recommended, table)],
        )
        return
    boards = {name: board(rows, runs=runs, quarantined=quarantined) for name, rows in histories.items()}
    described = [history_json(table, warnings) for table in boards.values()]
    emit(
        output_format,
        described[0] if len(described) == 1 else {"datasets": dict(zip(boards, described, strict=True))},
        lambda colour: [
            *(line for name, table in boards.items() for line in history_text(table, name, colour=colour)),
            *warning_lines,
        ],
    )


@click.command(cls=TableCommand, path="drift")
@click.argument("where", type=click.Path(path_type=pathlib.Path))
def drift(where: Path, release: tuple[str, ...], dataset_id: str | None, output_format: str) -> int:
    """Tell whether main lost quality since a release: exit 1 if it did.

    WHERE is the evidence of a run of main. Run it every night: it sees small losses that no single change is
    blamed for, and an agent that falls without a change. It names no change.
    """
    from agent_eval.operations.history import check_drift
    from agent_eval.reports.terminal_history import drift_text

    report = check_drift(where, [pathlib.Path(path) for path in release], dataset_id=dataset_id)
    emit(output_format, report.to_json(), lambda _colour: drift_text(report))
    return int(ExitCode.NO if report.drift.is_worse else ExitCode.OK)


_LISTED = 10


@click.command(cls=TableCommand, path="gate-health")
@click.argument("packs", nargs=-1, required=True, type=click.Path(path_type=pathlib.Path))
def gate_health(packs: tuple[Path, ...], output_format: str) -> None:
    """Tell which judges and cases never failed, never passed or never ran, and what each cost.

    Every PACK is an evidence pack, an archive of one, or the directory that `ci` leaves, and is verified
    first. It says what to retire. Each pack is given once; those of several datasets are told apart.
    """
    from agent_eval.operations.history import read_health
    from agent_eval.text.escape import clean

    by_dataset = read_health(packs)
    described = {name: health.to_json() for name, health in by_dataset.items()}
    emit(
        output_format,
        {"datasets": described} if len(described) > 1 else next(iter(described.values())),
        lambda _colour: [
            line
            for name, health in by_dataset.items()
            for line in (*([f"{clean(name)}:"] if len(by_dataset) > 1 else []), *_health_lines(health))
        ],
    )


def _health_lines(health: GateHealth) -> list[str]:
    runs, cases = count(health.runs, "run"), count(len(health.cases), "case")
    header = f"{'':<24} {'passed':>8} {'failed':>8} {'errors':>8} {'skipped':>8} {'cost':>10}"
    lines = [f"{runs} of {cases}", "", header]
    for name, judge in sorted(health.judges.items(), key=lambda item: (-item[1].failed, item[0])):
        cost = "" if judge.cost_usd is None else f"${judge.cost_usd:,.2f}"
        lines.append(
            f"{name[:24]:<24} {judge.passed:>8,} {judge.failed:>8,} {judge.error:>8,} {judge.skipped:>8,} "
            f"{cost:>10}  {judge.remark.replace('-', ' ')}"
        )
    lines += ["", *_case_lines(health), *_lost_lines(health)]
    suggestions = health.suggestions()
    return lines + (["", "What to do:", *(f"  {line}" for line in suggestions)] if suggestions else [])


def _lost_lines(health: GateHealth) -> list[str]:
    """Say how many trials were lost through no fault of the agent, and to what."""
    lost = health.lost()
    if not lost:
        return []
    by = ", ".join(f"{number:,} to {_LOST_TO.get(fault, fault)}" for fault, number in sorted(lost.items()))
    return [f"{count(lost.total(), 'trial')} lost: {by}"]


_LOST_TO = {"judge": "a judge", "environment": "the environment", "infrastructure": "the infrastructure"}


def _case_lines(health: GateHealth) -> list[str]:
    """Name the cases that say little, by what is remarkable about them, the dearest first."""
    lines = []
    for remark in ("cannot-judge", "never-ran", "never-passed", "never-failed", "too-few", "useful"):
        named = {name: case for name, case in health.cases.items() if case.remark == remark}
        if not named:
            continue
        dearest = sorted(named, key=lambda name: (-(named[name].cost_usd or 0.0), name))
        spent = sum(case.cost_usd or 0.0 for case in named.values())
        cost = f", ${spent:,.2f}" if any(case.cost_usd is not None for case in named.values()) else ""
        names = ", ".join(dearest[:_LISTED]) + (", …" if len(dearest) > _LISTED else "")
        lines.append(f"{count(len(named), 'case')} {remark.replace('-', ' ')}{cost}: {names}")
    return lines

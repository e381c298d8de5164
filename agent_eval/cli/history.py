"""`agent-eval history`, `history drift` and `history health`: what many runs say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from agent_eval.gate.health import GateHealth


@click.command(cls=TableCommand, path="history show")
@click.argument("where", type=click.Path(path_type=Path))
def show(
    where: Path,
    dataset_id: str | None,
    policy: Path | None,
    runs: int,
    recommend: bool,
    output_format: str,
    **own_policy: Any,
) -> None:
    """Show the trend of main's runs, the cases over them, and which are flaky: `history WHERE`.

    WHERE is the evidence of a run on the base branch: a pack, an archive, or the directory `out` of `ci`.
    `history drift` holds main against a release, `history health` says which judges earn their cost.
    """
    from agent_eval.history.board import board, recommendation
    from agent_eval.operations import history
    from agent_eval.reports import terminal_history as words
    from agent_eval.text.escape import clean

    histories = history.read_histories_at(where, dataset_id)
    stated = own_policy.get("own_policy__quarantine") or ()
    every_run = [record for records in histories.values() for record in records]
    quarantined, warnings = history.quarantine_at(policy, every_run, stated)
    # In a recommendation, which is YAML, they are comments.
    warning_lines = [f"{'# ' if recommend else ''}warning: {clean(warning)}" for warning in warnings]
    if recommend:
        table = board(history.read_history_at(where, dataset_id), runs=runs, quarantined=quarantined)
        recommended = recommendation(table, quarantined)
        emit(
            output_format,
            {**words.recommendation_json(recommended), "warnings": warnings},
            lambda _colour: [*warning_lines, *words.recommendation_lines(recommended, table)],
        )
        return
    boards = {name: board(rows, runs=runs, quarantined=quarantined) for name, rows in histories.items()}
    described = [history.history_json(table, warnings) for table in boards.values()]
    emit(
        output_format,
        described[0] if len(described) == 1 else {"datasets": dict(zip(boards, described, strict=True))},
        lambda colour: [
            *(
                line
                for name, table in boards.items()
                for line in words.history_text(table, name, colour=colour)
            ),
            *warning_lines,
        ],
    )


@click.command(cls=TableCommand, path="history drift")
@click.argument("where", type=click.Path(path_type=Path))
def drift(where: Path, release: tuple[str, ...], dataset_id: str | None, output_format: str) -> int:
    """Tell whether main lost quality since a release: exit 1 if it did.

    WHERE is the evidence of a run of main. Run it every night: it sees small losses that no single change is
    blamed for, and an agent that falls without a change. It names no change.
    """
    from agent_eval.operations.history import check_drift
    from agent_eval.reports.terminal_history import drift_text

    report = check_drift(where, [Path(path) for path in release], dataset_id=dataset_id)
    emit(output_format, report.to_json(), lambda _colour: drift_text(report))
    return int(ExitCode.NO if report.is_worse else ExitCode.OK)


_LISTED = 10


@click.command(cls=TableCommand, path="history health")
@click.argument("packs", nargs=-1, required=True, type=click.Path(path_type=Path))
def health(packs: tuple[Path, ...], output_format: str) -> None:
    """Tell which judges and cases never failed, never passed or never ran, and what each cost.

    Every PACK is an evidence pack, an archive of one, or the directory that `ci` leaves, and is verified
    first. Each pack is given once; those of several datasets are told apart.
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


_LOST_TO = {"judge": "a judge", "environment": "the environment", "infrastructure": "the infrastructure"}


def _health_lines(health: GateHealth) -> list[str]:
    """Say what each judge did, which cases say little, the dearest first, and how many trials were lost."""
    runs, cases = count(health.runs, "run"), count(len(health.cases), "case")
    header = f"{'':<24} {'passed':>8} {'failed':>8} {'errors':>8} {'skipped':>8} {'cost':>10}"
    lines = [f"{runs} of {cases}", "", header]
    for name, judge in sorted(health.judges.items(), key=lambda item: (-item[1].failed, item[0])):
        cost = "" if judge.cost_usd is None else f"${judge.cost_usd:,.2f}"
        lines.append(
            f"{name[:24]:<24} {judge.passed:>8,} {judge.failed:>8,} {judge.error:>8,} {judge.skipped:>8,} "
            f"{cost:>10}  {judge.remark.replace('-', ' ')}"
        )
    lines.append("")
    for remark in ("cannot-judge", "never-ran", "never-passed", "never-failed", "too-few", "useful"):
        named = {name: case for name, case in health.cases.items() if case.remark == remark}
        if not named:
            continue
        dearest = sorted(named, key=lambda name: (-(named[name].cost_usd or 0.0), name))
        spent = sum(case.cost_usd or 0.0 for case in named.values())
        cost = f", ${spent:,.2f}" if any(case.cost_usd is not None for case in named.values()) else ""
        names = ", ".join(dearest[:_LISTED]) + (", …" if len(dearest) > _LISTED else "")
        lines.append(f"{count(len(named), 'case')} {remark.replace('-', ' ')}{cost}: {names}")
    if lost := health.lost():  # through no fault of the agent
        by = ", ".join(f"{number:,} to {_LOST_TO.get(each, each)}" for each, number in sorted(lost.items()))
        lines.append(f"{count(lost.total(), 'trial')} lost: {by}")
    return lines

"""`agent-eval show`: what an agent did on a case, and what the judges said of it."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.contracts import CaseResultRow

CASES_LISTED = 50


@click.command(cls=TableCommand, path="show")
@click.argument("pack", type=click.Path(path_type=pathlib.Path))
@click.argument("case_id", metavar="[CASE]", required=False)
def show(pack: Path, case_id: str | None, trial: int | None, output_format: str) -> None:
    """Show the trajectory of a case in a pack, with the verdicts at the events that they rest on.

    Without CASE, lists the cases that did not pass. The pack is verified first.
    """
    from agent_eval.operations.packs import open_to_show
    from agent_eval.reports.trajectory import cases_text, incomplete_text, trajectory_text, trial_row

    opened = open_to_show(pack)
    complete = opened.manifest.complete
    notes = [] if complete else incomplete_text(opened.results(), opened.config.execution_config.trials)
    if case_id is None:
        if trial is not None:
            raise UsageError("--trial belongs to a case", remedy="Name the case after the pack.")
        failing = [row for row in opened.results() if not row["passed"]]
        total = opened.summary.total_cases
        listed = {"complete": complete, "total_cases": total, "failing": [row["case_id"] for row in failing]}
        emit(output_format, listed, lambda _: [*notes, *cases_text(failing, total, most=CASES_LISTED)])
        return
    row = opened.results_by_id().get(case_id)
    number = None if trial is None or row is None else _number_of(trial, row)
    case = opened.trajectory(case_id, number)
    row = opened.results_by_id()[case_id]
    result = dict(row) if number is None else trial_row(row, number)
    trace = [event.to_json() for event in case.trace]
    emit(
        output_format,
        {"case_id": case_id, "complete": complete, "result": result, "trace": trace},
        lambda colour: [*notes, *trajectory_text(case, case.trace, row, trial=number, colour=colour)],
    )


def _number_of(trial: int, row: CaseResultRow) -> int:
    """Return the number from 0 of a trial that a person counts from 1; refuse one that the case has not."""
    trials = len(row.get("trials") or ()) or 1
    if trial > trials:
        from agent_eval.text.numbers import count

        has = count(trials, "trial")
        raise UsageError(
            f"case {row['case_id'][:200]!r} has {has}, and no trial {trial}", remedy=f"Use 1 to {trials}."
        )
    return trial - 1

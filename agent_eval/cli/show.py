"""`agent-eval show`: what an agent did on a case, and what the judges said of it."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit

if TYPE_CHECKING:
    from pathlib import Path

CASES_LISTED = 50


@click.command(cls=TableCommand, path="show")
@click.argument("pack", type=click.Path(path_type=pathlib.Path))
@click.argument("case_id", metavar="[CASE]", required=False)
def show(pack: Path, case_id: str | None, output_format: str) -> None:
    """Show the trajectory of a case in a pack, with the verdicts at the events that they rest on.

    Without CASE, lists the cases that did not pass. The pack is verified first.
    """
    from agent_eval.operations.packs import open_to_show
    from agent_eval.reports.trajectory import cases_text, trajectory_text

    opened = open_to_show(pack)
    if case_id is None:
        failing = [row for row in opened.results() if not row["passed"]]
        total = opened.summary.total_cases
        listed = {"total_cases": total, "failing": [row["case_id"] for row in failing]}
        emit(output_format, listed, lambda _colour: cases_text(failing, total, most=CASES_LISTED))
        return
    case = opened.trajectory(case_id)
    row = opened.results_by_id()[case_id]
    payload = {"case_id": case_id, "result": dict(row), "trace": [event.to_json() for event in case.trace]}
    emit(output_format, payload, lambda colour: trajectory_text(case, case.trace, row, colour=colour))

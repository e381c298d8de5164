"""`agent-eval drift`: whether main lost quality since a release."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=TableCommand, path="drift")
@click.argument("where", type=click.Path(path_type=pathlib.Path))
def drift(where: Path, release: tuple[str, ...], dataset_id: str | None, output_format: str) -> int:
    """Tell whether main lost quality since a release: exit 1 if it did.

    WHERE is the evidence of a run of main. Run it every night: it sees small losses that no single change is
    blamed for, and an agent that falls without a change. It names no change.
    """
    from agent_eval.operations.history import check_drift
    from agent_eval.reports.terminal_drift import drift_text

    report = check_drift(where, [pathlib.Path(path) for path in release], dataset_id=dataset_id)
    emit(output_format, report.to_json(), lambda _colour: drift_text(report))
    return int(ExitCode.NO if report.drift.is_worse else ExitCode.OK)

"""`agent-eval judge-agreement`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit, is_stdout
from agent_eval.errors import ExitCode

if TYPE_CHECKING:
    from pathlib import Path


@click.command("judge-agreement", cls=TableCommand, path="judge-agreement")
def judge_agreement(runs: tuple[str, ...], labels: Path, out: Path | None, output_format: str) -> int:
    """Measure how well an LLM judge agrees with people, criterion by criterion.

    Says how often the judge is right when it fails and when it passes a conversation, which disagreements to
    read, and which conversations to label next. With --out, a later run takes the record as its
    --judge-agreement: advisory criteria count once 30 cases of each verdict have at most 3 errors.
    """
    import pathlib

    from agent_eval.operations.judge_agreement import judge_agreement as measured

    agreement = measured([pathlib.Path(run) for run in runs], labels, out)
    if not is_stdout(out):
        emit(output_format, agreement.record, lambda _colour: agreement.lines)
    return int(ExitCode.OK)

"""`agent-eval export-junit`, `export-csv` and `export-otel`: a pack in formats that other tools read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

_AT_ONCE = 1 << 20
"""Characters that are written at once; a line at a time would take longer to write than to make."""


@click.command(cls=TableCommand, path="export-junit")
def export_junit(pack: Path, out: Path, output_format: str) -> None:
    """Write a run as JUnit XML: a test suite for each case, a test case for each judge.

    Trials and the shard are properties. Inconclusive verdicts are errors, since they are no passes.
    """
    from agent_eval.exporters.junit import junit_lines
    from agent_eval.operations.packs import open_run

    opened = open_run(pack)
    _write(out, junit_lines(opened))
    _report(out, "test suites", opened.manifest.case_count, output_format)


@click.command(cls=TableCommand, path="export-csv")
def export_csv(pack: Path, out: Path, output_format: str) -> None:
    """Write a run as CSV: a row for each verdict of each trial.

    Texts that a spreadsheet could run as a formula begin with an apostrophe.
    """
    from agent_eval.exporters.table import csv_lines
    from agent_eval.operations.packs import open_run

    opened = open_run(pack)
    rows = _write(out, csv_lines(opened)) - 1
    _report(out, "rows", rows, output_format)


def _write(out: Path, lines: Iterable[str]) -> int:
    """Write lines as UTF-8; return their number."""
    from agent_eval.storage.atomic import new_file

    written, waiting, size = 0, [], 0
    with new_file(out) as file:
        for line in lines:
            written += 1
            waiting.append(line)
            size += len(line)
            if size >= _AT_ONCE:
                file.write("".join(waiting).encode("utf-8", "replace"))
                waiting, size = [], 0
        file.write("".join(waiting).encode("utf-8", "replace"))
    return written


def _report(out: Path, what: str, number: int, output_format: str) -> None:
    if str(out) == "/dev/stdout":
        return  # what was written is the output
    payload = {"out": str(out), what.replace(" ", "_"): number}
    emit(output_format, payload, lambda _colour: [f"Wrote {count(number, what[:-1])} to {out}"])

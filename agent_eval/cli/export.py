"""`agent-eval export junit`, `csv` and `otel`: a pack in formats that other tools read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit, is_stdout
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

_STDOUT = "/dev/stdout"


@click.command(cls=TableCommand, path="export junit")
def junit(pack: Path, out: Path, output_format: str) -> None:
    """Write a run as JUnit XML: a test suite for each case, a test case for each judge.

    Trials and the shard are properties. Inconclusive verdicts are errors, since they are no passes.
    """
    from agent_eval.exporters.junit import junit_lines
    from agent_eval.operations.packs import open_to_show

    opened = open_to_show(pack)
    _write(out, junit_lines(opened))
    _report(out, "test suites", opened.manifest.case_count, output_format)


@click.command(cls=TableCommand, path="export csv")
def csv(pack: Path, out: Path, output_format: str) -> None:
    """Write a run as CSV: a row for each verdict of each trial.

    Texts that a spreadsheet could run as a formula begin with an apostrophe.
    """
    from agent_eval.exporters.table import csv_lines
    from agent_eval.operations.packs import open_to_show

    opened = open_to_show(pack)
    rows = _write(out, csv_lines(opened)) - 1
    _report(out, "rows", rows, output_format)


@click.command(cls=TableCommand, path="export otel")
def otel(pack: Path, out: Path, protocol: str, output_format: str) -> None:
    """Write a run as OpenTelemetry spans, with an event for each verdict."""
    from agent_eval.exporters.otel import exported_trials
    from agent_eval.exporters.otlp import otlp_requests
    from agent_eval.operations.packs import open_to_show
    from agent_eval.storage.json import dumps

    opened = open_to_show(pack)

    def lines() -> Iterator[str]:
        for trial in exported_trials(opened):
            rows = trial if protocol == "jsonl" else otlp_requests(opened, trial)
            yield from (dumps(row).decode() + "\n" for row in rows)

    _report(out, "lines", _write(out, lines()), output_format)


def _write(out: Path, lines: Iterable[str]) -> int:
    """Write lines as UTF-8; return their number. A file within the pack is listed in its `derived.json`."""
    import sys
    from itertools import count as numbers
    from pathlib import Path

    from agent_eval.evidence.derived import enclosing_pack, write_output
    from agent_eval.storage.atomic import new_file

    counter = numbers()
    encoded = (line.encode("utf-8", "replace") for line, _ in zip(lines, counter, strict=False))
    is_screen = is_stdout(out) and sys.stdout.isatty()
    if is_screen or enclosing_pack(out) is not None:
        write_output(out, b"".join(encoded))
    else:
        with new_file(Path(_STDOUT) if is_stdout(out) else out) as file:
            file.writelines(encoded)
    return next(counter)


def _report(out: Path, what: str, number: int, output_format: str) -> None:
    if is_stdout(out) or str(out) == _STDOUT:
        return  # what was written is the output
    payload = {"out": str(out), what.replace(" ", "_"): number}
    form = ", each a JSON object," if what == "lines" else ""
    emit(output_format, payload, lambda _colour: [f"Wrote {count(number, what[:-1])}{form} to {out}"])

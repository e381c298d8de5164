"""`agent-eval export-junit`, `export-csv` and `export-otel`: a pack in formats that other tools read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit, is_stdout
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.evidence.reader import Pack
    from agent_eval.exporters.otel import ExportedTrial

_AT_ONCE = 1 << 20
"""Characters that are written at once; a line at a time would take longer to write than to make."""
_STDOUT = "/dev/stdout"


@click.command(cls=TableCommand, path="export-junit")
def export_junit(pack: Path, out: Path, output_format: str) -> None:
    """Write a run as JUnit XML: a test suite for each case, a test case for each judge.

    Trials and the shard are properties. Inconclusive verdicts are errors, since they are no passes.
    """
    from agent_eval.exporters.junit import junit_lines
    from agent_eval.operations.packs import open_to_show

    opened = open_to_show(pack)
    _write(out, junit_lines(opened))
    _report(out, "test suites", opened.manifest.case_count, output_format)


@click.command(cls=TableCommand, path="export-csv")
def export_csv(pack: Path, out: Path, output_format: str) -> None:
    """Write a run as CSV: a row for each verdict of each trial.

    Texts that a spreadsheet could run as a formula begin with an apostrophe.
    """
    from agent_eval.exporters.table import csv_lines
    from agent_eval.operations.packs import open_to_show

    opened = open_to_show(pack)
    rows = _write(out, csv_lines(opened)) - 1
    _report(out, "rows", rows, output_format)


@click.command(cls=TableCommand, path="export-otel")
def export_otel(
    pack: Path,
    out: Path | None,
    protocol: str,
    endpoint: str | None,
    headers: tuple[tuple[str, str], ...],
    plain_http: bool | None,
    output_format: str,
) -> None:
    """Write a run as OpenTelemetry spans, with an event for each verdict; or send it to a collector.

    More than six parameters: click passes each option by its name.
    """
    from agent_eval.exporters.otel import exported_trials
    from agent_eval.operations.packs import open_to_show

    if protocol == "otlp-http":
        if endpoint is None or out is not None:
            raise click.UsageError("--protocol otlp-http needs --endpoint, and writes no --out.")
        _send(pack, endpoint, headers, bool(plain_http), output_format)
        return
    if out is None or endpoint or headers or plain_http:
        raise click.UsageError(
            "--out names the file to write; --endpoint, --header and --plain-http need --protocol otlp-http."
        )
    opened = open_to_show(pack)
    lines = (line for trial in exported_trials(opened) for line in _otel_lines(opened, trial, protocol))
    _report(out, "lines", _write(out, lines), output_format)


def _otel_lines(opened: Pack, trial: ExportedTrial, protocol: str) -> list[str]:
    from agent_eval.exporters.otlp import json_rows, logs_of, traces_of
    from agent_eval.storage.json import dumps

    if protocol == "jsonl":
        rows = list(json_rows(trial))
    else:
        rows = [traces_of(opened, trial.spans), logs_of(opened, trial.evaluations)]
    return [dumps(row).decode() + "\n" for row in rows]


def _send(
    path: Path,
    endpoint: str,
    headers: tuple[tuple[str, str], ...],
    plain_http: bool,
    output_format: str,
) -> None:
    """Send a run to a collector; the values of headers are in the environment variables that these name."""
    import os
    from contextlib import closing

    from agent_eval.exporters.otlp import collector, send
    from agent_eval.operations.packs import open_to_show

    missing = sorted(variable for _, variable in headers if variable not in os.environ)
    if missing:
        raise click.UsageError(f"--header names variables that are not set: {', '.join(missing)}")
    secrets = {name: os.environ[variable] for name, variable in headers}
    opened = open_to_show(path)
    with closing(collector(endpoint, secret_headers=secrets, plain_http=plain_http)) as session:
        sent = send(opened, session)
    payload = {"spans": sent.spans, "evaluations": sent.evaluations, "warning": sent.warning or None}
    lines = [f"Sent {count(sent.spans, 'span')} and {count(sent.evaluations, 'verdict')}"]
    emit(output_format, payload, lambda _colour: lines + ([sent.warning] if sent.warning else []))


def _write(out: Path, lines: Iterable[str]) -> int:
    """Write lines as UTF-8; return their number. A file within the pack is listed in its `derived.json`."""
    import sys
    from pathlib import Path

    from agent_eval.evidence.derived import enclosing_pack, write_output
    from agent_eval.storage.atomic import new_file

    number = 0

    def blocks() -> Iterator[bytes]:
        nonlocal number
        waiting, size = [], 0
        for line in lines:
            number += 1
            waiting.append(line)
            size += len(line)
            if size >= _AT_ONCE:
                yield "".join(waiting).encode("utf-8", "replace")
                waiting, size = [], 0
        yield "".join(waiting).encode("utf-8", "replace")

    is_screen = is_stdout(out) and sys.stdout.isatty()
    if is_stdout(out) and not is_screen:
        out = Path(_STDOUT)  # block by block, as into a file
    if is_screen or enclosing_pack(out) is not None:
        write_output(out, b"".join(blocks()))
        return number
    with new_file(out) as file:
        file.writelines(blocks())
    return number


def _report(out: Path, what: str, number: int, output_format: str) -> None:
    if is_stdout(out) or str(out) == _STDOUT:
        return  # what was written is the output
    payload = {"out": str(out), what.replace(" ", "_"): number}
    emit(output_format, payload, lambda _colour: [f"Wrote {count(number, what[:-1])} to {out}"])

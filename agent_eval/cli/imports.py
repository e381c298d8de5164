"""What the commands that import have in common: read the options, import, print what was imported."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

from agent_eval.cli.output import emit
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from agent_eval.importers.catalog import Family
    from agent_eval.importers.diagnostics import Diagnostic
    from agent_eval.operations.import_traces import Imported

_SHOWN = 10
"""Diagnostics that prose shows."""


def run_import(family: Family, name: str, options: dict[str, Any]) -> None:
    """Import as the options say, and print what was imported.

    Args:
        family: Which formats to choose from.
        name: Name of the format, or `auto`.
        options: The parameters of the options that every such command has (`config.rows.suites`).
    """
    from agent_eval.operations.import_traces import ImportRequest, import_traces

    output_format = options.pop("output_format")
    inputs = tuple(pathlib.Path(name) for name in options.pop("inputs"))
    imported = import_traces(ImportRequest(inputs=inputs, family=family, format=name, **options))
    emit(output_format, imported.to_json(), lambda _colour: _text(imported))


def _text(imported: Imported) -> list[str]:
    totals, diagnostics = imported.totals, imported.diagnostics
    lines = [
        f"Wrote {imported.out}: {count(totals.cases, 'case')}, {count(totals.events, 'event')}, "
        f"{count(totals.tool_calls, 'tool call')}, {count(totals.tool_results, 'result')}, "
        f"{count(totals.errors, 'error')}."
    ]
    lines += [
        f"  {recognised.format} ({recognised.variant}): {count(recognised.records, 'record')}, "
        f"confidence {recognised.confidence:.0%}"
        for recognised in imported.recognised
    ]
    lines += [_diagnostic_text(entry) for entry in diagnostics.entries[:_SHOWN]]
    more = sum(diagnostics.counts.values()) - _SHOWN
    if more > 0:
        lines.append(f"  … and {count(more, 'more diagnostic')}; --diagnostics-out writes them")
    return lines


def _diagnostic_text(entry: Diagnostic) -> str:
    field = f": {entry.field}" if entry.field else ""
    return f"  {entry.severity}: {entry.record}{field}: {entry.reason}"

"""Import what a test writes down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_eval.contracts import Case
from agent_eval.importers.diagnostics import Diagnostic
from agent_eval.operations.import_traces import ImportRequest, import_traces
from agent_eval.suites.reader import load_suite


def imported(home: Path, *records: Any, provider: str = "auto") -> tuple[list[Case], list[Diagnostic]]:
    """Import records, given as JSON or as the text of an event stream."""
    source, out = home / "export.jsonl", home / "suite.jsonl"
    if isinstance(records[0], str):
        source = home / "export.sse"
        source.write_text(records[0])
    else:
        source.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = import_traces(ImportRequest((source,), out, "provider", provider))
    return load_suite(out).cases, result.diagnostics.entries


def summary(case: Case) -> list[Any]:
    """Type and content of every event."""
    return [(event.type, event.input if event.type == "tool_call" else event.content) for event in case.trace]


def stream(*events: Any) -> str:
    """Write an event stream."""
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)

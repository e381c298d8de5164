"""Real runs survive import, export as OpenTelemetry, and import again: every call, result and error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from tests.shared_data import shared_path
from tests.unit.importers.importing import FRAMEWORK, TRANSCRIPT, Result, imported

FILES = (
    (TRANSCRIPT, "datasets/tau-bench-gpt-4o-airline.jsonl.gz"),
    (TRANSCRIPT, "formats/claude_code/coverage-test-fix.jsonl"),
    (TRANSCRIPT, "formats/otel_spans/claude_adot_spans.json"),
    (FRAMEWORK, "formats/langgraph/run_tree_langsmith_shape.json"),
    (FRAMEWORK, "formats/openai_agents/trace_handoff_tools_guardrail.json"),
    (FRAMEWORK, "formats/crewai/event_bus_events.jsonl"),
)


def facts(result: Result) -> list[list[Any]]:
    names = ("type", "tool", "call_id", "input", "output", "error")
    return [
        [[event.get(name) for name in names] for event in trace if event["type"].startswith("tool_")]
        for trace in result.traces
    ]


@pytest.mark.parametrize(("family", "name"), FILES)
def test_every_call_result_and_error_survives(family: Any, name: str, tmp_path: Path) -> None:
    first = imported(family, shared_path(f"data/{name}"), tmp_path)
    pack, spans = str(tmp_path / "pack"), str(tmp_path / "spans.jsonl")
    run = ["run", "--suite", str(tmp_path / "suite.jsonl"), "--judge", "loop_guard", "--out", pack]
    assert main(run) == 0
    assert main(["export-otel", "--run", pack, "--out", spans, "--protocol", "otlp-json"]) == 0
    again = imported(TRANSCRIPT, Path(spans), tmp_path / "again", name="otel", strict=True)
    assert facts(again) == facts(first)
    assert len(first.of("tool_call")) > 0

"""`agent-eval import-transcript`: telemetry, sessions of coding agents and logs of benchmarks as suites."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.imports import run_import
from agent_eval.cli.options import TableCommand


@click.command(cls=TableCommand, path="import-transcript")
def import_transcript(source: str, **options: Any) -> None:
    """Import telemetry, sessions of coding agents and logs of benchmarks as a suite.

    Reads OpenTelemetry, OpenInference and MLflow traces, Claude Code, Codex and SWE-agent sessions, logs of
    Inspect, tau-bench and AgentDojo. Epochs and repeated runs become trials. Verdicts of the source are kept,
    and `--judge recorded` judges by them.
    """
    run_import("transcript", source, options)

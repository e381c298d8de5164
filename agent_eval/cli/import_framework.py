"""`agent-eval import-framework`: what agent frameworks record as suites with recorded traces."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.imports import run_import
from agent_eval.cli.options import TableCommand


@click.command(cls=TableCommand, path="import-framework")
def import_framework(framework: str, **options: Any) -> None:
    """Import what LangGraph, the OpenAI Agents SDK, AutoGen, CrewAI or Semantic Kernel recorded as a suite.

    Reads messages, states, streams, results and traces, and runs of LangSmith. Each conversation becomes a
    case with its trace. What cannot be taken over is listed, and refused by --strict.
    """
    run_import("framework", framework, options)

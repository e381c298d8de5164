"""`agent-eval import-trace`: exports of model providers as suites with recorded traces."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.imports import run_import
from agent_eval.cli.options import TableCommand


@click.command(cls=TableCommand, path="import-trace")
def import_trace(provider: str, **options: Any) -> None:
    """Import what OpenAI, Anthropic, Vertex AI, Gemini or Azure AI Foundry recorded as a suite.

    Reads JSON, JSON Lines and event streams; plain, gzip or zip; files, directories, or - for stdin. Each
    conversation becomes a case with its trace. What cannot be taken over is listed, and refused by --strict.
    """
    run_import("provider", provider, options)

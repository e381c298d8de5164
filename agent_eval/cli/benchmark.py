"""`agent-eval benchmark-generate`: suites of plausible cases, with traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path


@click.command("benchmark-generate", cls=TableCommand, path="benchmark-generate")
def benchmark_generate(out: Path, output_format: str, **asked: Any) -> None:
    """Generate a suite of plausible cases with cassettes: the same seed gives the same bytes.

    python:agent_eval.benchmarks.agents:good_agent passes each case; careless_agent fails those with a trap.
    """
    from agent_eval.benchmarks.generate import SuiteRequest
    from agent_eval.operations.benchmarks import write_benchmark

    written = write_benchmark(SuiteRequest(**asked), out)
    emit(output_format, written, lambda _colour: _text(written))


def _text(written: dict[str, Any]) -> list[str]:
    cases, kinds = (
        count(written["cases"], "case"),
        count(written["scenarios"], "kind of task", "kinds of task"),
    )
    lines = [f"{written['output']}: {cases}, {kinds}, {count(written['traps'], 'trap')} for a careless agent"]
    return [*lines, f"  {written['next']}"]

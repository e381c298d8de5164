"""`agent-eval report`: reports for people."""

from __future__ import annotations

import click

from agent_eval.cli.options import TEXT, output_format
from agent_eval.cli.printing import emit


@click.group()
def report() -> None:
    """Write a report of a comparison for people."""


@report.command()
@click.option("--compare", "comparison", required=True, metavar="FILE", help="Comparison to report on.")
@click.option("--gate", "decision", metavar="FILE", help="The decision made on it.")
@click.option("--replay", metavar="FILE", help="Report of a replay of the candidate.")
@click.option("--out", required=True, metavar="FILE", help="Markdown file to write.")
@click.option(
    "--title", type=TEXT, default="Agent Eval Report", show_default=True, help="Heading of the report."
)
@output_format
def markdown(
    comparison: str, decision: str | None, replay: str | None, out: str, title: str, output: str
) -> None:
    """Write a comparison, and the decision made on it, as markdown."""
    from pathlib import Path

    from agent_eval.reports.markdown import render_markdown
    from agent_eval.runs.report import gather, write_report

    material = gather(
        Path(comparison),
        decision=Path(decision) if decision else None,
        replay=Path(replay) if replay else None,
    )
    text = render_markdown(material.comparison, material.decision, title=title, replay=material.replay)
    write_report(Path(out), text)
    emit(output, {"markdown_report": out}, lambda _colour: f"Wrote {out}")

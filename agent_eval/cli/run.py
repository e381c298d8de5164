"""`agent-eval run`."""

from __future__ import annotations

import click

from agent_eval.cli.options import judging, output_format, run_identity
from agent_eval.cli.printing import emit


@click.command()
@click.option(
    "--suite", required=True, metavar="FILE", help="Suite with recorded traces: .json, .jsonl or .yaml."
)
@click.option("--out", required=True, metavar="DIRECTORY", help="The evidence pack to write.")
@run_identity
@judging
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case. Repeatable.")
@click.option("--summary-json", metavar="FILE", help="Also write the summary to this file, outside the pack.")
@click.option(
    "--layout",
    type=click.Choice(["auto", "files", "compact"]),
    default="auto",
    show_default=True,
    help="A folder a case, or shards; auto takes shards beyond 2,000 cases.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that judge; as many as help when not given.",
)
@output_format
def run(
    suite: str,
    out: str,
    summary_json: str | None,
    judge_config: str | None,
    output: str,
    **options: object,
) -> None:
    """Judge every recorded trace of a suite and seal the evidence.

    Exits 0 when everything was evaluated, whatever the verdicts: deciding is what `gate` is for.
    """
    import os
    from pathlib import Path

    from agent_eval.reports.terminal import run_text
    from agent_eval.runs.run import RunRequest, run_suite

    request = RunRequest(
        suite=Path(suite),
        out=Path(out),
        judge_config=Path(judge_config) if judge_config else None,
        summary_json=Path(summary_json) if summary_json else None,
        **options,  # type: ignore[arg-type]
    )
    result = run_suite(request, environ=os.environ)
    payload = {"run_id": result.run_id, "summary": result.summary.to_json(), "pack": str(result.pack)}
    emit(output, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))

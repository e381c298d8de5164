"""`agent-eval compare`."""

from __future__ import annotations

import click

from agent_eval.cli.options import output_format, registry_path
from agent_eval.cli.printing import emit


@click.command()
@click.option(
    "--baseline",
    required=True,
    metavar="PACK",
    help="Evidence pack, or archive of one, to compare with; or the name of a registered baseline.",
)
@click.option("--candidate", required=True, metavar="PACK", help="Evidence pack of the run in question.")
@click.option(
    "--allow-incompatible",
    is_flag=True,
    help="Compare the cases both runs have, even where datasets, definitions or case policies differ.",
)
@click.option(
    "--out",
    metavar="FILE",
    help="Where the comparison is written; compare/baseline_delta.json in the candidate when not given.",
)
@registry_path
@output_format
def compare(
    baseline: str,
    candidate: str,
    allow_incompatible: bool,
    out: str | None,
    registry_path: str,
    output: str,
) -> None:
    """Compare a candidate run with a baseline run.

    Both packs are verified first. The comparison says what moved: rates, judges, cases, tool calls,
    outputs, models, tokens, cost and latency.
    """
    import os
    from pathlib import Path

    from agent_eval.reports.terminal import compare_text
    from agent_eval.runs.compare import compare_packs

    result = compare_packs(
        baseline,
        Path(candidate),
        registry=Path(registry_path),
        allow_incompatible=allow_incompatible,
        out=Path(out) if out else None,
        environ=os.environ,
    )
    comparison = result.comparison
    payload = {
        "compare_report": str(result.path),
        "baseline_run_id": comparison.baseline_run_id,
        "candidate_run_id": comparison.candidate_run_id,
        "overview": comparison.overview.to_json(),
        "metrics": {name: metric.to_json() for name, metric in comparison.metrics.items()},
        "regressions": comparison.regressions,
    }
    emit(output, payload, lambda colour: compare_text(comparison, str(result.path), colour=colour))

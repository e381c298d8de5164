"""`agent-eval gate`."""

from __future__ import annotations

import click

from agent_eval.cli.options import output_format, thresholds
from agent_eval.cli.printing import emit


@click.command()
@click.option("--compare", "comparison", required=True, metavar="FILE", help="Comparison to decide on.")
@thresholds
@click.option(
    "--config",
    metavar="FILE",
    help="JSON or YAML file with the same six names, such as min_pass_rate; flags override it.",
)
@click.option(
    "--out", metavar="FILE", help="Where the decision is written; gate_decision.json beside the comparison."
)
@output_format
def gate(
    comparison: str, config: str | None, out: str | None, output: str, **limits: float | int | None
) -> int:
    """Decide on a comparison: exit 0 when every threshold holds, 1 when one does not.

    At least one threshold is needed: nothing checked is not a pass.
    """
    import os
    from pathlib import Path

    from agent_eval.reports.terminal import gate_text
    from agent_eval.runs.gate import decide_on

    result = decide_on(
        Path(comparison),
        limits,
        config=Path(config) if config else None,
        out=Path(out) if out else None,
        environ=os.environ,
    )
    decision = result.decision
    payload = {**decision.to_json(), "gate_report": str(result.path)}
    emit(output, payload, lambda colour: gate_text(decision, str(result.path), colour=colour))
    return int(result.exit_code)

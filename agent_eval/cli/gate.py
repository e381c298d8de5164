"""`agent-eval gate`."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.options import TEXT, output_format, registry_path, thresholds
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
    "--policy", metavar="FILE", help="The gate's policy, such as gate.yml; see the guide to the gate."
)
@click.option(
    "--preset",
    type=click.Choice(["pull-request", "release"]),
    help="A policy without a file, or in place of the preset that the file names.",
)
@click.option("--apply-waivers", is_flag=True, help="Leave out regressions that the registry waives.")
@click.option("--baseline-name", type=TEXT, help="Baseline whose waivers apply; needed by --apply-waivers.")
@registry_path
@click.option(
    "--out", metavar="FILE", help="Where the decision is written; gate_decision.json beside the comparison."
)
@output_format
def gate(
    comparison: str,
    policy: str | None,
    preset: Any,
    config: str | None,
    out: str | None,
    output: str,
    **given: Any,
) -> int:
    """Decide on a comparison: exit 0 when it passes, 1 when it fails, 3 when an inconclusive one blocks.

    Thresholds alone decide by these thresholds. A policy also asks whether what regressed is more than
    chance, and whether a drop beyond its margin is ruled out. One of the two is needed: nothing checked is
    not a pass.
    """
    import os
    from pathlib import Path

    from agent_eval.reports.terminal import gate_text
    from agent_eval.runs.gate import decide_on
    from agent_eval.runs.policy import chosen_policy

    result = decide_on(
        Path(comparison),
        policy=chosen_policy(Path(policy) if policy else None, preset),
        waived=_waived(given.pop("apply_waivers"), given.pop("baseline_name"), given.pop("registry_path")),
        limits=given,
        config=Path(config) if config else None,
        out=Path(out) if out else None,
        environ=os.environ,
    )
    decision = result.decision
    payload = {**decision.to_json(), "gate_report": str(result.path)}
    emit(output, payload, lambda colour: gate_text(decision, str(result.path), colour=colour))
    return int(result.exit_code)


def _waived(wanted: bool, baseline_name: str | None, registry: str) -> Any:
    from pathlib import Path

    from agent_eval.runs.gate import WaiverSource

    if wanted and baseline_name is None:
        raise click.UsageError("--apply-waivers needs --baseline-name: waivers are given for a baseline.")
    if baseline_name is not None and not wanted:
        raise click.UsageError("--baseline-name says whose waivers apply; give --apply-waivers as well.")
    return WaiverSource(Path(registry), baseline_name) if baseline_name is not None else None

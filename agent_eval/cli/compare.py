"""`agent-eval compare`."""

from __future__ import annotations

from typing import Any

import click

from agent_eval.cli.options import TEXT, output_format, registry_path, thresholds
from agent_eval.cli.output import emit


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

    from agent_eval.operations.compare import compare_packs
    from agent_eval.reports.terminal import compare_text

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

    from agent_eval.operations.gate import chosen_policy, decide_on
    from agent_eval.reports.terminal import gate_text

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

    from agent_eval.operations.gate import WaiverSource

    if wanted and baseline_name is None:
        raise click.UsageError("--apply-waivers needs --baseline-name: waivers are given for a baseline.")
    if baseline_name is not None and not wanted:
        raise click.UsageError("--baseline-name says whose waivers apply; give --apply-waivers as well.")
    return WaiverSource(Path(registry), baseline_name) if baseline_name is not None else None


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

    from agent_eval.operations.compare import gather, write_report
    from agent_eval.reports.markdown_file import render_markdown

    material = gather(
        Path(comparison),
        decision=Path(decision) if decision else None,
        replay=Path(replay) if replay else None,
    )
    text = render_markdown(material.comparison, material.decision, title=title, replay=material.replay)
    write_report(Path(out), text)
    emit(output, {"markdown_report": out}, lambda _colour: f"Wrote {out}")

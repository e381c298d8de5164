"""`agent-eval compare`, `gate` and `report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.operations.gate import WaiverSource


@click.command(cls=TableCommand, path="compare")
def compare(
    baseline: str,
    candidate: Path,
    allow_incompatible: bool,
    out: Path | None,
    registry_path: Path,
    baseline_public_key: Path | None,
    candidate_public_key: Path | None,
    output_format: str,
) -> None:
    """Compare a candidate run with a baseline run.

    Both packs are verified first. The comparison lists what changed: rates, judges, cases, tool calls,
    outputs, models, tokens, cost and latency. Cases with another input are listed and not compared; where a
    case expects something else or the judges differ, both runs are judged by either.
    """
    import os

    from agent_eval.operations.compare import compare_packs
    from agent_eval.operations.trusted_packs import SignerKeys
    from agent_eval.reports.terminal_comparison import compare_text

    result = compare_packs(
        baseline,
        candidate,
        registry=registry_path,
        allow_incompatible=allow_incompatible,
        out=out,
        keys=SignerKeys.read(baseline_public_key, candidate_public_key),
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
    emit(output_format, payload, lambda colour: compare_text(comparison, str(result.path), colour=colour))


@click.command(cls=TableCommand, path="gate")
def gate(
    comparison: Path,
    baseline: str | None,
    candidate: Path | None,
    policy: Path | None,
    preset: Literal["pull-request", "release"] | None,
    max_baseline_error_rate: float | None,
    config: Path | None,
    apply_waivers: bool,
    baseline_name: str | None,
    registry_path: Path,
    baseline_public_key: Path | None,
    candidate_public_key: Path | None,
    out: Path | None,
    output_format: str,
    **thresholds: Any,
) -> int:
    """Decide on a comparison: exit 0 when it passes, 1 when it fails, 3 when an inconclusive one blocks.

    Without a policy, only the thresholds decide. A policy also tests whether the regressions are more than
    chance, and whether a drop beyond its margin is ruled out. At least one of the two is required: nothing
    checked is not a pass. Both packs are verified, and the comparison must follow from them.
    """
    import os

    from agent_eval.operations.gate import chosen_policy, decide_on
    from agent_eval.operations.provenance import PackSources
    from agent_eval.operations.trusted_packs import SignerKeys
    from agent_eval.reports.terminal_decision import gate_text

    keys = SignerKeys.read(baseline_public_key, candidate_public_key)
    result = decide_on(
        comparison,
        policy=chosen_policy(policy, preset),
        max_baseline_error_rate=max_baseline_error_rate,
        waived=_waiver_source(apply_waivers, baseline_name, registry_path),
        limits={name.removeprefix("thresholds__"): limit for name, limit in thresholds.items()},
        config=config,
        packs=PackSources(baseline, candidate, registry_path, keys),
        out=out,
        environ=os.environ,
    )
    decision = result.decision
    payload = {
        **decision.to_json(),
        "gate_report": str(result.path),
        "named_by_comparison": list(result.chosen),
    }
    emit(output_format, payload, lambda colour: gate_text(decision, str(result.path), colour=colour))
    return int(result.exit_code)


def _waiver_source(apply_waivers: bool, baseline_name: str | None, registry: Path) -> WaiverSource | None:
    from agent_eval.operations.gate import WaiverSource

    if apply_waivers and baseline_name is None:
        raise click.UsageError("--apply-waivers needs --baseline-name: waivers belong to a baseline.")
    if baseline_name is not None and not apply_waivers:
        raise click.UsageError("--baseline-name says whose waivers apply; set --apply-waivers as well.")
    return WaiverSource(registry, baseline_name) if baseline_name is not None else None


@click.group()
def report() -> None:
    """Write a report of a comparison for people."""


@report.command(cls=TableCommand, path="report markdown")
def markdown(
    comparison: Path,
    decision: Path | None,
    replay: Path | None,
    out: Path,
    report_title: str,
    output_format: str,
) -> None:
    """Write a comparison, and the decision made on it, as markdown."""
    from agent_eval.operations.compare import read_report_material, write_report
    from agent_eval.reports.markdown_file import render_markdown

    material = read_report_material(comparison, decision=decision, replay=replay)
    text = render_markdown(material.comparison, material.decision, title=report_title, replay=material.replay)
    write_report(out, text)
    emit(output_format, {"markdown_report": str(out)}, lambda _colour: [f"Wrote {out}"])

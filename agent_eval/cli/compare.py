"""`agent-eval compare`, `gate` and `report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from agent_eval.cli.html import html, only_one
from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit, is_stdout

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.operations.gate import GateResult, WaiverSource


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
    if not is_stdout(out):
        emit(output_format, payload, lambda colour: compare_text(comparison, str(result.path), colour=colour))


@click.command(cls=TableCommand, path="gate")
def gate(
    comparison: Path | None,
    run: Path | None,
    baseline: str | None,
    candidate: Path | None,
    policy: Path | None,
    preset: Literal["pull-request", "release"] | None,
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

    Without a policy, the thresholds alone decide, to the letter. A policy decides by the procedure of the
    job: what that ran again is in the candidate's pack. At least one of the two is required: nothing checked
    is not a pass. Both packs are verified, and the comparison must follow from them. With --run, the rules
    that need no baseline decide on a run alone.
    """
    import os

    from agent_eval.operations.gate import chosen_policy, decide_on
    from agent_eval.operations.provenance import PackSources
    from agent_eval.operations.trusted_packs import SignerKeys

    source = only_one(comparison, run)
    chosen = chosen_policy(policy, preset)
    limits = {name.removeprefix("thresholds__"): limit for name, limit in thresholds.items()}
    if run is not None:
        others = (baseline, candidate, apply_waivers, baseline_public_key, candidate_public_key)
        if any(others):
            raise click.UsageError("--run is compared with none: name no baseline, candidate or waivers.")
        return _gate_of_run(
            source, limits, config=config, policy=chosen, out=out, output_format=output_format
        )
    waived = _waiver_source(apply_waivers, baseline_name, registry_path)
    keys = SignerKeys.read(baseline_public_key, candidate_public_key)
    result = decide_on(
        source,
        policy=chosen,
        waived=waived,
        limits=limits,
        config=config,
        packs=PackSources(baseline, candidate, registry_path, keys),
        out=out,
        environ=os.environ,
    )
    return _print_decision(result, out, output_format)


def _gate_of_run(run: Path, limits: dict[str, Any], *, output_format: str, **settings: Any) -> int:
    """Decide on a run alone, whose pack no waiver, baseline or comparison is about."""
    import os

    from agent_eval.operations.gate import decide_on_run

    result = decide_on_run(run, limits, **settings, environ=os.environ)
    return _print_decision(result, settings["out"], output_format)


def _print_decision(result: GateResult, out: Path | None, output_format: str) -> int:
    from agent_eval.reports.terminal_decision import gate_text

    decision = result.decision
    payload = {
        **decision.to_json(),
        "gate_report": str(result.path),
        "named_by_comparison": list(result.chosen),
    }
    if not is_stdout(out):

        def text(colour: bool) -> str:
            return gate_text(decision, str(result.path), comparison=result.comparison, colour=colour)

        emit(output_format, payload, text)
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
    """Write a report of a comparison, or of a run alone, for people."""


report.add_command(html)


@report.command(cls=TableCommand, path="report markdown")
def markdown(
    comparison: Path | None,
    run: Path | None,
    decision: Path | None,
    replay: Path | None,
    out: Path,
    report_title: str,
    output_format: str,
) -> None:
    """Write a comparison or a run alone, and the decision made on it, as markdown."""
    from agent_eval.evidence.derived import clear_unfinished
    from agent_eval.operations.compare import read_report_material, write_report
    from agent_eval.reports.markdown_file import render_markdown

    clear_unfinished(out)
    source = only_one(comparison, run)
    if run is None:
        material = read_report_material(source, decision=decision, replay=replay)
        text = render_markdown(
            material.comparison, material.decision, title=report_title, replay=material.replay
        )
    else:
        text = _report_of_run(source, decision, replay, report_title)
    write_report(out, text)
    if not is_stdout(out):
        emit(output_format, {"markdown_report": str(out)}, lambda _colour: [f"Wrote {out}"])


def _report_of_run(run: Path, decision: Path | None, replay: Path | None, title: str) -> str:
    from agent_eval.operations.gate import read_run_material
    from agent_eval.reports.markdown_run import render_run

    if replay is not None:
        raise click.UsageError("--replay goes with --compare.")
    material = read_run_material(run, decision=decision)
    return render_run(material.run, material.failing, material.decision, title=title)

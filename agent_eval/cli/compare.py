"""`agent-eval compare`, `gate`, `report` and `view`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.cli.project import RULES_OF_FILE

if TYPE_CHECKING:
    from agent_eval.operations.report_material import ReportMaterial


@click.command(cls=TableCommand, path="report html")
def html(
    comparison: Path | None,
    run: Path | None,
    decision: Path | None,
    baseline: Path | None,
    candidate: Path | None,
    out: Path,
    report_title: str,
    output_format: str,
) -> None:
    """Write a comparison, or one run, as one self-contained HTML file.

    The file loads nothing from anywhere and can be read without JavaScript. Each case that got worse is shown
    step by step, both runs side by side; the others are unpacked on a click. A comparison is shown with the
    decision of `gate` that is beside it, if `--gate` names no other.
    """
    from agent_eval.evidence.derived import write_output
    from agent_eval.operations.report_material import (
        comparison_material,
        decision_beside,
        run_material,
        with_packs,
    )

    source = only_one(comparison, run)
    if run is None:
        material = comparison_material(source, decision=decision or decision_beside(source))
        material = with_packs(material, source, baseline=baseline, candidate=candidate)
    elif baseline is None and candidate is None:
        material = run_material(source, decision=decision)
    else:
        raise click.UsageError("--run is compared with none: name no baseline and no candidate.")
    write_output(out, _page(material, report_title).encode())
    lines = [*material.missing, f"Wrote {out}"]
    payload = {"html_report": str(out), "missing": list(material.missing)}
    emit(output_format, payload, lambda _colour: lines, out=out)


def only_one(comparison: Path | None, run: Path | None) -> Path:
    """Return the comparison or the run, whichever the user names.

    Raises:
        UsageError: The user names both, or none.
    """
    named = [path for path in (comparison, run) if path is not None]
    if len(named) != 1:
        raise click.UsageError("Give --compare for a comparison, or --run for a run alone: one of the two.")
    return named[0]


@click.command(cls=TableCommand, path="view")
@click.argument("source", metavar="PACK|COMPARISON", type=click.Path(path_type=Path))
def view(source: Path, out: Path | None, output_format: str) -> None:
    """Open a comparison, or one run, as an HTML page in the browser.

    The page of a comparison has the decision that is beside it. Where there is no browser, only the path of
    the page is printed.
    """
    import os
    import sys
    import tempfile
    import webbrowser
    from contextlib import suppress

    from agent_eval.evidence.derived import write_output
    from agent_eval.operations.packs import DEFAULT_PATH_IN_PACK
    from agent_eval.operations.report_material import DEFAULT_TITLE, material_of

    material = material_of(source)
    page = _page(material, DEFAULT_TITLE)
    if out is None:
        out = Path(tempfile.mkdtemp(prefix="agent-eval-view-")) / material.file_name
    write_output(out, page.encode())
    displays = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    opened = False
    # A browser that draws in the terminal would take it over.
    if not sys.platform.startswith("linux") or any(os.environ.get(name) for name in displays):
        with suppress(webbrowser.Error):
            opened = webbrowser.open(out.resolve().as_uri())
    lines = [*material.missing, str(out)]
    if (comparison := source / DEFAULT_PATH_IN_PACK).is_file():
        lines.insert(-1, f"Compared with its baseline: agent-eval view {comparison}")
    payload = {"html_report": str(out), "opened": opened, "missing": list(material.missing)}
    emit(output_format, payload, lambda _colour: lines)


def _page(material: ReportMaterial, title: str) -> str:
    from agent_eval import __version__
    from agent_eval.reports.html.lines import SuiteEvidence
    from agent_eval.reports.html.page import render_html
    from agent_eval.reports.model import EvaluationReport, SuiteReport, undecided

    comparison, decision = material.comparison, material.decision
    suite = SuiteReport(
        slug=material.candidate.dataset_id,
        suite_path="",
        decision=decision or undecided(material.candidate),
        candidate=material.candidate,
        comparison=comparison,
    )
    evidence = SuiteEvidence(
        candidate=material.candidate_pack, baseline=material.baseline_pack, place=material.place
    )
    report = EvaluationReport(
        title=title,
        suites=[suite],
        head_sha=material.candidate.git_commit,
        warnings=material.missing,
        tool_version=__version__,
    )
    return render_html(report, {suite.slug: evidence}, is_decided=decision is not None)


@click.command(cls=TableCommand, path="compare")
def compare(
    baseline: str,
    candidate: Path,
    allow_incompatible: bool,
    out: Path | None,
    registry_path: Path,
    public_key: Path | None,
    baseline_public_key: Path | None,
    output_format: str,
) -> None:
    """Compare a candidate run with a baseline run.

    Both packs are verified first. The comparison lists what changed: rates, judges, cases, tool calls,
    outputs, models, tokens, cost and latency. Cases with another input are listed and not compared; where a
    case expects something else or the judges differ, both runs are judged by either.
    """
    import os

    from agent_eval.operations.compare import compare_packs
    from agent_eval.operations.trust import SignerKeys
    from agent_eval.reports.terminal_comparison import compare_text

    result = compare_packs(
        baseline,
        candidate,
        registry=registry_path,
        allow_incompatible=allow_incompatible,
        out=out,
        keys=SignerKeys.read(baseline_public_key or public_key, public_key),
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
    emit(
        output_format,
        payload,
        lambda colour: compare_text(comparison, str(result.path), colour=colour),
        out=out,
    )


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
    public_key: Path | None,
    baseline_public_key: Path | None,
    out: Path | None,
    verbose: bool,
    output_format: str,
    **thresholds: Any,
) -> int:
    """Decide on a comparison: exit 0 when it passes, 1 when it fails, 3 when an inconclusive one blocks.

    The rules are those of agent-eval.yml, if it is there; thresholds given here decide alone, to the letter.
    A policy decides by the procedure of the job: what that ran again is in the candidate's pack. Some rule is
    required: nothing checked is not a pass. Both packs are verified, and the comparison must follow from
    them. With --run, the rules that need no baseline decide on a run alone.
    """
    import os

    from agent_eval.operations.compare import PackSources
    from agent_eval.operations.gate import Rules, WaiverSource, decide_on, decide_on_run
    from agent_eval.operations.trust import SignerKeys
    from agent_eval.reports.terminal_comparison import gate_text

    source = only_one(comparison, run)
    if run is not None and any((baseline, candidate, apply_waivers, public_key, baseline_public_key)):
        raise click.UsageError("--run is compared with none: name no baseline, candidate or waivers.")
    limits = {name.removeprefix("thresholds__"): limit for name, limit in thresholds.items()}
    if apply_waivers and baseline_name is None:
        raise click.UsageError("--apply-waivers needs --baseline-name: waivers belong to a baseline.")
    if run is None and baseline_name is not None and not apply_waivers:
        raise click.UsageError("--baseline-name says whose waivers apply; set --apply-waivers as well.")
    waived = WaiverSource(registry_path, baseline_name) if apply_waivers and baseline_name else None
    own = {name.removeprefix("own_policy__"): limits.pop(name) for name in [*limits] if "__" in name}
    if RULES_OF_FILE in click.get_current_context().meta and policy is None:
        preset = preset or "pull-request"
    rules = Rules.stated(limits, policy=policy, preset=preset, config=config, own=own, waived=waived)
    if run is not None:
        result = decide_on_run(source, rules, out=out, environ=os.environ)
    else:
        keys = SignerKeys.read(baseline_public_key or public_key, public_key)
        packs = PackSources(baseline, candidate, registry_path, keys)
        result = decide_on(source, rules, packs=packs, out=out, environ=os.environ)
    decision = result.decision
    payload = {
        **decision.to_json(),
        "gate_report": str(result.path),
        "named_by_comparison": list(result.chosen),
    }
    emit(
        output_format,
        payload,
        lambda colour: gate_text(
            decision, str(result.path), comparison=result.comparison, colour=colour, verbose=verbose
        ),
        out=out,
    )
    return int(result.exit_code)


@click.command(cls=TableCommand, path="report markdown")
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
    from agent_eval.evidence.derived import clear_unfinished, write_output
    from agent_eval.operations.report_material import comparison_material, run_material
    from agent_eval.reports.comment import render_markdown

    clear_unfinished(out)
    source = only_one(comparison, run)
    if run is None:
        material = comparison_material(source, decision=decision, replay=replay)
    elif replay is None:
        material = run_material(source, decision=decision)
    else:
        raise click.UsageError("--replay goes with --compare.")
    subject = material.comparison or material.candidate
    failing = material.failing() if material.comparison is None else ()
    text = render_markdown(
        subject, material.decision, title=report_title, failing=failing, replay=material.replay
    )
    write_output(out, text.encode())
    emit(output_format, {"markdown_report": str(out)}, lambda _colour: [f"Wrote {out}"], out=out)

"""`agent-eval report html` and `view`: one self-contained page of a comparison or of one run."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit, is_stdout

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.operations.html_report import HtmlMaterial


@click.command(cls=TableCommand, path="report html")
def html(
    comparison: Path | None,
    run: Path | None,
    decision: Path | None,
    baseline: Path | None,
    candidate: Path | None,
    out: Path,
    report_title: str,
    render_markdown: bool,
    output_format: str,
) -> None:
    """Write a comparison, or one run, as one self-contained HTML file.

    The file loads nothing from anywhere and can be read without JavaScript. Each case that got worse is shown
    step by step, both runs side by side; the others are unpacked on a click.
    """
    from agent_eval.operations.compare import write_report
    from agent_eval.operations.html_report import comparison_material, run_material

    source = only_one(comparison, run)
    if run is None:
        material = comparison_material(source, decision=decision, baseline=baseline, candidate=candidate)
    elif baseline is None and candidate is None:
        material = run_material(source, decision=decision)
    else:
        raise click.UsageError("--run is compared with none: name no baseline and no candidate.")
    write_report(out, _page(material, report_title, render_markdown=render_markdown))
    if not is_stdout(out):
        lines = [*material.missing, f"Wrote {out}"]
        payload = {"html_report": str(out), "missing": list(material.missing)}
        emit(output_format, payload, lambda _colour: lines)


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
@click.argument("source", metavar="PACK|COMPARISON", type=click.Path(path_type=pathlib.Path))
def view(source: Path, out: Path | None, render_markdown: bool, output_format: str) -> None:
    """Open a comparison, or one run, as an HTML page in the browser.

    The page of a comparison has the decision that is beside it. Where there is no browser, only the path of
    the page is printed.
    """
    import tempfile

    from agent_eval.operations.compare import write_report
    from agent_eval.operations.html_report import DEFAULT_TITLE, material_of

    material = material_of(source)
    page = _page(material, DEFAULT_TITLE, render_markdown=render_markdown)
    if out is None:
        out = pathlib.Path(tempfile.mkdtemp(prefix="agent-eval-view-")) / material.file_name
    write_report(out, page)
    opened = _open_in_browser(out)
    lines = [*material.missing, *_hint(source), str(out)]
    payload = {"html_report": str(out), "opened": opened, "missing": list(material.missing)}
    emit(output_format, payload, lambda _colour: lines)


def _hint(source: Path) -> list[str]:
    """Say that a pack, which is shown by itself, also holds a comparison."""
    from agent_eval.operations.packs import DEFAULT_PATH_IN_PACK

    comparison = source / DEFAULT_PATH_IN_PACK
    return [f"Compared with its baseline: agent-eval view {comparison}"] if comparison.is_file() else []


def _open_in_browser(page: Path) -> bool:
    """Open a page in a browser with windows. One that draws in the terminal would take it over."""
    import os
    import sys
    import webbrowser

    displays = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in displays):
        return False
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False


def _page(material: HtmlMaterial, title: str, *, render_markdown: bool) -> str:
    from agent_eval import __version__
    from agent_eval.reports.html.evidence import SuiteEvidence
    from agent_eval.reports.html.page import HtmlReport, render_html
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
    return render_html(
        HtmlReport(
            report=report,
            evidence={suite.slug: evidence},
            is_decided=decision is not None,
            render_markdown=render_markdown,
        )
    )

"""Commands that make suites of something else, and that check whether this still works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit, emit_to
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from agent_eval.operations.conformance import Conformance


GOOD_AGENT = "python:agent_eval.benchmarks.agents:good_agent"


@click.command("import", cls=TableCommand, path="import")
@click.argument("files", metavar="FILE...", nargs=-1, type=click.Path(path_type=Path))
def import_files(
    files: tuple[Path, ...], inputs: tuple[str, ...], output_format: str, **options: Any
) -> None:
    """Import what another tool recorded as a suite: of models, frameworks, agents, telemetry, benchmarks.

    Reads JSON, JSON Lines and event streams; plain, gzip or zip; files, directories, or - for standard input.
    The format is recognised. Each conversation becomes a case with its trace; epochs and repeated runs become
    trials. What cannot be taken over is listed, and refused by --strict. Verdicts of the source are kept, and
    `--judge recorded` judges by them.
    """
    from agent_eval.operations.import_traces import SHOWN, ImportRequest, import_traces

    paths = (*files, *map(Path, inputs))
    if not paths:
        raise click.UsageError("Name a file to import.")
    imported = import_traces(ImportRequest(inputs=paths, **options))
    diagnostics = imported.diagnostics
    cases, events, calls, results, errors = imported.totals.numbers().values()
    lines = [
        f"Wrote {imported.out}: {count(cases, 'case')}, {count(events, 'event')}, "
        f"{count(calls, 'tool call')}, {count(results, 'result')}, {count(errors, 'error')}."
    ]
    lines += [
        f"  {recognised.format} ({recognised.variant}): {count(recognised.records, 'record')}, "
        f"confidence {recognised.confidence:.0%}"
        for recognised in imported.recognised
    ]
    for entry in diagnostics.entries[:SHOWN]:
        field = f": {entry.field}" if entry.field else ""
        lines.append(f"  {entry.severity}: {entry.record}{field}: {entry.reason}")
    more = sum(diagnostics.counts.values()) - SHOWN
    if more > 0:
        lines.append(f"  … and {count(more, 'more diagnostic')}")
    if imported.losses is not None:
        what = "What was lost" if diagnostics.has_losses else "All of it"
        lines.append(f"  {what} is in {imported.losses}.")
    emit(output_format, imported.to_json(), lambda _colour: lines)


@click.command(cls=TableCommand, path="dev adapter-conformance")
def adapter_conformance(adapter_fixtures: Path, minimum: int, out: Path | None, output_format: str) -> int:
    """Import the fixtures of every format strictly: exit 0 when each holds what it should, 1 when not.

    The directory has one of each format's name. A file NAME.expected.json beside an export says how many
    cases, events, calls, results, errors and tokens it holds.
    """
    from agent_eval.operations.conformance import check_adapters

    conformance = check_adapters(adapter_fixtures, minimum)
    emit_to(out, output_format, conformance.to_json(), lambda _colour: _adapters_text(conformance))
    return int(ExitCode.OK if conformance.passed else ExitCode.NO)


@click.command(cls=TableCommand, path="dev contracts-check")
def contracts_check(
    suite_fixtures: Path, adapter_fixtures: Path, minimum: int, out: Path | None, output_format: str
) -> int:
    """Read suites of every schema version, and exports of every format: exit 1 when one is not as before."""
    from agent_eval.operations.conformance import check_adapters, check_suites

    suites, adapters = check_suites(suite_fixtures), check_adapters(adapter_fixtures, minimum)
    passed = suites.passed and adapters.passed
    payload = {
        "passed": passed,
        "suites": suites.fixtures("schema_version"),
        "missing": list(suites.missing),
        "adapters": adapters.to_json(),
    }
    lines = [*_adapters_text(suites, "suite", "read as before"), *_adapters_text(adapters)]
    emit_to(out, output_format, payload, lambda _colour: lines)
    return int(ExitCode.OK if passed else ExitCode.NO)


def _adapters_text(
    conformance: Conformance, unit: str = "export", how: str = "imported as they should be"
) -> list[str]:
    failed = [check for check in conformance.checks if check.problems]
    total = len(conformance.checks)
    lines = [f"{total - len(failed)} of {count(total, unit)} {how}."]
    lines += [f"  {check.path}: {problem}" for check in failed for problem in check.problems]
    return lines + [f"  {missing}" for missing in conformance.missing]


@click.command(cls=TableCommand, path="generate")
def generate(out: Path, output_format: str, **asked: Any) -> None:
    """Generate a suite of plausible cases with cassettes: the same seed gives the same bytes.

    python:agent_eval.benchmarks.agents:good_agent passes each case; careless_agent fails those with a trap.
    """
    from agent_eval.benchmarks.generate import SuiteRequest, generate_suite
    from agent_eval.operations.suites import refuse_ending, write_suite
    from agent_eval.text.escape import shell_word

    refuse_ending(out, "--out")
    suite = generate_suite(SuiteRequest(**asked))
    about, cases = suite["metadata"]["benchmark"], suite["cases"]
    write_suite(out, suite)
    agent = [] if any("trace" in case for case in cases) else ["--agent", GOOD_AGENT]
    command = ["agent-eval", "run", str(out), *agent, "--out", f"runs/{out.stem}"]
    written = {
        "output": str(out),
        "dataset_id": suite["dataset_id"],
        "cases": len(cases),
        "scenarios": about["scenarios"],
        "traps": sum(about["traps"].values()),
        "next": " ".join(map(shell_word, command)),
    }
    tasks = count(written["scenarios"], "kind of task", "kinds of task")
    traps = count(written["traps"], "trap")
    lines = [
        f"{out}: {count(len(cases), 'case')}, {tasks}, {traps} for a careless agent",
        f"  {written['next']}",
    ]
    emit(output_format, written, lambda _colour: lines)

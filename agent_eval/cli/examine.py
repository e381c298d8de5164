"""`agent-eval show` and `diff`: what a run did, what a file holds, what differs between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode, UsageError
from agent_eval.text.numbers import count, of_all, verb

if TYPE_CHECKING:
    from agent_eval.operations.import_traces import Inspection

_LISTED = 10
_SIGNS = {"same": " ", "removed": "-", "added": "+"}


def _inspected(path: Path, inspected: Inspection) -> list[str]:
    about, contents = inspected.about, inspected.contents
    lines = [f"{path}: {inspected.kind}"]
    known = {name: about[name] for name in _ABOUT if about.get(name)}
    lines += [
        f"  {name.replace('_', ' ')}: {', '.join(value) if isinstance(value, list) else value}"
        for name, value in known.items()
    ]
    lines += [
        f"  format: {each['format']} ({each['variant']}), {count(each['records'], 'record')}, "
        f"confidence {each['confidence']:.0%}"
        for each in about.get("formats", [])
    ]
    lines.append(
        f"  {count(contents.cases, 'case')}, {count(contents.trials, 'trial')}, "
        f"{count(contents.events, 'event')}, {count(contents.errors, 'error')}"
    )
    calls, results = contents.types["tool_call"], contents.types["tool_result"]
    lines.append(f"  {count(calls, 'tool call')}, {count(results, 'result')}: {_listed(contents.tools)}")
    tokens = ", ".join(f"{amount:,} {name.replace('_', ' ')}" for name, amount in contents.tokens.items())
    lines.append(f"  {tokens or 'tokens are not recorded'}")
    if contents.not_recorded:
        lines.append(f"  {count(contents.not_recorded, 'event')} without recorded content")
    counts = inspected.diagnostics.counts
    if inspected.kind == "export":
        stated = ", ".join(f"{number:,} {severity}" for severity, number in counts.items())
        lines.append(f"  an import would report: {stated or 'nothing lost'}")
        entries = inspected.diagnostics.entries[:_LISTED]
        lines += [f"    {entry.severity}: {entry.record} {entry.field}: {entry.reason}" for entry in entries]
        lines.append(f"  {about['import_with']}")
    return lines


_ABOUT = ("run_id", "dataset_id", "schema_version", "passed_cases", "hard_fail_cases", "could_also_be")


def _listed(counts: Mapping[str, int]) -> str:
    names = sorted(counts, key=lambda name: (-counts[name], name))
    more = f", {count(len(names) - _LISTED, 'other')}" if len(names) > _LISTED else ""
    return ", ".join(f"{name or '(no name)'} {counts[name]:,}" for name in names[:_LISTED]) + more or "none"


@click.command(cls=TableCommand, path="diff")
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("candidate", type=click.Path(path_type=Path))
@click.argument("case_id", metavar="[CASE]", required=False)
def diff(baseline: Path, candidate: Path, case_id: str | None, output_format: str) -> int:
    """Show what differs between two packs, case by case and event by event: exit 1 if anything does.

    Ids, times and tokens do not count. With CASE, shows that case alone. Both packs are verified first.
    """
    from agent_eval.comparison.behaviour import diff_events
    from agent_eval.operations.packs import open_to_show
    from agent_eval.reports.trajectory import event_text

    before, after = open_to_show(baseline), open_to_show(candidate)
    names = list(dict.fromkeys([*before.case_ids(), *after.case_ids()]))
    if case_id is not None:
        if case_id not in names:
            after.raw_trajectory(case_id)  # refuses a case that is not there
        names = [case_id]
    cases: list[dict[str, Any]] = []
    for name in names:
        rows = [(pack, pack.results_by_id().get(name)) for pack in (before, after)]
        outcomes = [None if row is None else row["outcome"] for _, row in rows]
        traces = [
            [] if row is None else [event.to_json() for event in pack.trajectory(name).trace]
            for pack, row in rows
        ]
        changes = diff_events(traces[0], traces[1])
        if outcomes[0] != outcomes[1] or any(change.change != "same" for change in changes):
            events = [{"change": change.change, "event": dict(change.event)} for change in changes]
            sides = {"baseline": outcomes[0], "candidate": outcomes[1]}
            cases.append({"case_id": name, **sides, "events": events})
    payload = {"cases": len(names), "changed_cases": len(cases), "changes": cases}
    lines = [f"{of_all(len(cases), len(names), 'case')} {verb(len(cases), 'differs', 'differ')}."]
    for case in cases:
        lines += ["", f"{case['case_id']}: {case['baseline'] or 'absent'} → {case['candidate'] or 'absent'}"]
        lines += [f"{_SIGNS[each['change']]} {event_text(each['event'])}" for each in case["events"]]
    emit(output_format, payload, lambda _colour: lines)
    return int(ExitCode.NO if cases else ExitCode.OK)


CASES_LISTED = 50


@click.command(cls=TableCommand, path="show")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("case_id", metavar="[CASE]", required=False)
def show(path: Path, case_id: str | None, trial: int | None, output_format: str) -> None:
    """Show what an agent did on a CASE of a pack, with the verdicts at the events that they rest on.

    Without CASE, tells what the file is and what it holds: a pack, with the cases that did not pass; a suite;
    or an export of another tool, with its formats, how sure that is, what an import would lose, and the
    command for it. A pack is verified first.
    """
    from agent_eval.operations.packs import open_to_show
    from agent_eval.reports.trajectory import incomplete_text, trajectory_text, trial_row

    if case_id is None and trial is not None:
        raise UsageError("--trial belongs to a case", remedy="Name the case after the pack.")
    if case_id is None:
        _show_file(path, output_format)
        return
    opened = open_to_show(path)
    complete = opened.manifest.complete
    notes = [] if complete else incomplete_text(opened.results(), opened.config.execution_config.trials)
    row = opened.results_by_id().get(case_id)
    number = None
    if trial is not None and row is not None:  # a person counts from 1
        number, trials = trial - 1, len(row.get("trials") or ()) or 1
        if trial > trials:
            has = f"case {case_id[:200]!r} has {count(trials, 'trial')}"
            raise UsageError(f"{has}, and no trial {trial}", remedy=f"Use 1 to {trials}.")
    case = opened.trajectory(case_id, number)
    row = opened.results_by_id()[case_id]
    result = dict(row) if number is None else trial_row(row, number)
    trace = [event.to_json() for event in case.trace]
    emit(
        output_format,
        {"case_id": case_id, "complete": complete, "result": result, "trace": trace},
        lambda colour: [*notes, *trajectory_text(case, case.trace, row, trial=number, colour=colour)],
    )


def _show_file(path: Path, output_format: str) -> None:
    """Tell what a file is; of a pack also which cases did not pass."""
    from agent_eval.evidence.archive import refuse_no_archive
    from agent_eval.evidence.derived import enclosing_pack
    from agent_eval.operations.import_traces import inspect_file
    from agent_eval.reports.trajectory import cases_text, incomplete_text

    if path.is_file() and enclosing_pack(path) is not None:
        refuse_no_archive(path)
    inspected = inspect_file(path)
    payload, lines = {"path": str(path), **inspected.to_json()}, _inspected(path, inspected)
    if (pack := inspected.pack) is not None:
        failing, total = [row for row in pack.results() if not row["passed"]], pack.summary.total_cases
        payload |= {
            "complete": pack.manifest.complete,
            "total_cases": total,
            "failing": [row["case_id"] for row in failing],
        }
        lines = [*cases_text(failing, total, most=CASES_LISTED), "", *lines]
        if not pack.manifest.complete:
            lines = [*incomplete_text(pack.results(), pack.config.execution_config.trials), *lines]
    emit(output_format, payload, lambda _colour: lines)

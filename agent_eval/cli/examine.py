"""`agent-eval inspect` and `agent-eval diff`: what a file holds, and what differs between two runs."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count, of_all, verb

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.evidence.reader import Pack
    from agent_eval.operations.inspect_file import Inspection

_LISTED = 10
_SIGNS = {"same": " ", "removed": "-", "added": "+"}


@click.command(cls=TableCommand, path="inspect")
@click.argument("path", type=click.Path(path_type=pathlib.Path))
def inspect_command(path: Path, output_format: str) -> None:
    """Tell what a file is, and what it holds: a pack, a suite, or an export of another tool.

    Of an export it says the formats, how sure that is, what an import would lose, and the command for it.
    """
    from agent_eval.operations.inspect_file import inspect_file

    inspected = inspect_file(path)
    emit(
        output_format, {"path": str(path), **inspected.to_json()}, lambda _colour: _inspected(path, inspected)
    )


def _inspected(path: Path, inspected: Inspection) -> list[str]:
    about, contents = inspected.about, inspected.contents
    lines = [f"{path}: {inspected.kind}"]
    lines += [f"  {name.replace('_', ' ')}: {_stated(about[name])}" for name in _ABOUT if about.get(name)]
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


def _stated(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _listed(counts: Mapping[str, int]) -> str:
    names = sorted(counts, key=lambda name: (-counts[name], name))
    more = f", {count(len(names) - _LISTED, 'other')}" if len(names) > _LISTED else ""
    return ", ".join(f"{name or '(no name)'} {counts[name]:,}" for name in names[:_LISTED]) + more or "none"


@click.command(cls=TableCommand, path="diff")
@click.argument("baseline", type=click.Path(path_type=pathlib.Path))
@click.argument("candidate", type=click.Path(path_type=pathlib.Path))
@click.argument("case_id", metavar="[CASE]", required=False)
def diff(baseline: Path, candidate: Path, case_id: str | None, output_format: str) -> int:
    """Show what differs between two packs, case by case and event by event: exit 1 if anything does.

    Ids, times and tokens do not count. With CASE, shows that case alone. Both packs are verified first.
    """
    from agent_eval.operations.packs import open_to_show

    before, after = open_to_show(baseline), open_to_show(candidate)
    names = list(dict.fromkeys([*before.case_ids(), *after.case_ids()]))
    if case_id is not None:
        if case_id not in names:
            after.raw_trajectory(case_id)  # refuses a case that is not there
        names = [case_id]
    cases = [each for each in (_case_diff(name, before, after) for name in names) if each is not None]
    payload = {"cases": len(names), "changed_cases": len(cases), "changes": cases}
    emit(output_format, payload, lambda _colour: _diff_text(len(names), cases))
    return int(ExitCode.NO if cases else ExitCode.OK)


def _case_diff(name: str, before: Pack, after: Pack) -> dict[str, Any] | None:
    """Compare a case in both packs; None if its events and its outcome are the same."""
    from agent_eval.comparison.alignment import diff_events

    sides = [pack.results_by_id().get(name) for pack in (before, after)]
    outcomes = [None if row is None else row["outcome"] for row in sides]
    traces = [
        [] if row is None else [event.to_json() for event in pack.trajectory(name).trace]
        for pack, row in zip((before, after), sides, strict=True)
    ]
    changes = diff_events(traces[0], traces[1])
    if outcomes[0] == outcomes[1] and all(change.change == "same" for change in changes):
        return None
    events = [{"change": change.change, "event": dict(change.event)} for change in changes]
    return {"case_id": name, "baseline": outcomes[0], "candidate": outcomes[1], "events": events}


def _diff_text(total: int, cases: list[dict[str, Any]]) -> list[str]:
    from agent_eval.reports.trajectory import event_text

    lines = [f"{of_all(len(cases), total, 'case')} {verb(len(cases), 'differs', 'differ')}."]
    for case in cases:
        lines += ["", f"{case['case_id']}: {case['baseline'] or 'absent'} → {case['candidate'] or 'absent'}"]
        lines += [f"{_SIGNS[each['change']]} {event_text(each['event'])}" for each in case["events"]]
    return lines

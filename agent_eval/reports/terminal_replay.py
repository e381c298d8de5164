"""Render the results of `replay` and `replay-exec` for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_eval.reports.terminal import GREEN, PLAIN, RED
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count, verb

if TYPE_CHECKING:
    from agent_eval.contracts.replay import (
        CaseMismatch,
        EnvironmentMismatch,
        ReplayExecReport,
        ReplayReport,
    )

_SHOWN = 10
_NOTHING_BAD = ("passed", "skipped", "absent")


def replay_text(report: ReplayReport, path: str | None, *, colour: bool = False) -> str:
    """Render the result of `replay`: the parity of verdicts, summary and environment, and what differs."""
    number = len(report.case_mismatches)
    summary = f"{count(report.cases, 'case')} judged again: "
    summary += f"{number:,} {verb(number, 'differs', 'differ')}." if number else "the same verdicts."
    verdict = "The replay passed." if report.replay_passed else "The replay did not pass."
    lines = [f"{GREEN if report.replay_passed else RED}{verdict}{PLAIN}" if colour else verdict, summary]
    lines += _verdicts(report.case_mismatches)
    if number and report.redacted_cases:
        redacted = count(report.redacted_cases, "case")
        lines.append(f"  The judges saw text of {redacted} that is redacted in the pack.")
    if not report.summary_match:
        before, now = report.saved_summary, report.replayed_summary
        of_all = f"{before.passed_cases:,} of {before.total_cases:,} cases passed"
        lines.append(f"Summary: {of_all}, now {now.passed_cases:,}.")
    keys = sorted({item.field.partition(".")[0] for item in report.env_mismatches if not item.allowed})
    pins = len(report.env_mismatches)
    differ = f"{count(pins, 'pin')} {verb(pins, 'differs', 'differ')}"
    if report.env_match:
        lines.append("Environment: every pin is the same.")
    elif not keys:
        lines.append(f"Environment: {differ}, as --allow-env-drift allows.")
    else:
        flags = clean(" ".join(f"--allow-env-drift {key}" for key in keys), limit=300)
        lines.append(f"Environment: {differ}. Where that is expected: {flags}.")
    for difference in report.env_mismatches[:_SHOWN]:
        lines.append(_difference(difference) + (" (allowed)" if difference.allowed else ""))
    if len(report.env_mismatches) > _SHOWN:
        lines.append(f"  and {len(report.env_mismatches) - _SHOWN:,} more")
    if path:
        lines.append(f"Report: {clean(path, limit=1000)}")
    return "\n".join(lines)


def _verdicts(mismatches: Sequence[CaseMismatch]) -> list[str]:
    lines = []
    for case in mismatches[:_SHOWN]:
        case_id = clean(case.case_id, limit=70)
        # A judge that objects comes first.
        for judge in sorted(case.judges, key=lambda each: each.replayed in _NOTHING_BAD)[:1]:
            judge_id = clean(judge.judge_id, limit=40)
            lines.append(f"  {case_id}: {judge_id} said {judge.saved}, now {judge.replayed}")
        if not case.judges:
            lines.append(f"  {case_id}: {', '.join(case.fields) or 'its trials'} differ")
    if len(mismatches) > _SHOWN:
        lines.append(f"  and {len(mismatches) - _SHOWN:,} more")
    return lines


def _difference(difference: EnvironmentMismatch) -> str:
    was, now = clean(str(difference.saved), limit=60), clean(str(difference.current), limit=60)
    return f"  {clean(difference.field, limit=70)} was {was}, is {now} here"


def replay_exec_text(report: ReplayExecReport, path: str | None, *, colour: bool = False) -> str:
    """Render the result of `replay-exec`: whether the agent did the same, and the first differences."""
    passed = report.execution_replay_passed
    differing = {case.case_id for case in report.case_mismatches}
    differing |= {case.case_id for case in report.trace_mismatches}
    summary = f"{count(report.cases, 'case')} run again: "
    if differing:
        summary += f"{len(differing):,} {verb(len(differing), 'differs', 'differ')}."
    else:
        summary += "the same trajectories, the same verdicts."
    lines = [f"{GREEN if passed else RED}{summary}{PLAIN}" if colour else summary]
    lines += [
        f"  {clean(case.case_id, limit=70)}: {clean(case.difference, limit=300)}"
        for case in report.trace_mismatches[:_SHOWN]
    ]
    lines += _verdicts(report.case_mismatches)
    lines += [_difference(difference) for difference in report.env_mismatches[:_SHOWN]]
    if report.env_mismatches and not report.environment_counts:
        lines.append("  Differences of the environment do not count.")
    if path:
        lines.append(f"Report: {clean(path, limit=1000)}")
    return "\n".join(lines)

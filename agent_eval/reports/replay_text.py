"""What `replay-exec` says to a person at a terminal."""

from __future__ import annotations

from agent_eval.contracts.replay import ReplayedVerdict, ReplayExecReport
from agent_eval.reports.figures import count, verb
from agent_eval.text.terminal import clean

_SHOWN = 10
_GREEN, _RED, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def replay_exec_text(report: ReplayExecReport, path: str | None, *, colour: bool = False) -> str:
    """Whether the agent did the same again; the first differences; where the report is."""
    passed = report.execution_replay_passed
    differing = {case.case_id for case in report.case_mismatches}
    differing |= {case.case_id for case in report.trace_mismatches}
    said = f"{count(report.cases, 'case')} run again: "
    if differing:
        said += f"{len(differing):,} {verb(len(differing), 'differs', 'differ')}."
    else:
        said += "the same trajectories, the same verdicts."
    lines = [f"{_GREEN if passed else _RED}{said}{_PLAIN}" if colour else said]
    lines += [
        f"  {clean(one.case_id, limit=70)}: {clean(one.difference, limit=300)}"
        for one in report.trace_mismatches[:_SHOWN]
    ]
    lines += [
        f"  {clean(one.case_id, limit=70)}: {clean(judge.judge_id, limit=40)} said {judge.saved}, "
        f"now {judge.replayed}"
        for one in report.case_mismatches[:_SHOWN]
        for judge in sorted(one.judges, key=_says_nothing_bad)[:1]
    ]
    lines += [
        f"  {clean(one.field, limit=70)} was {clean(str(one.saved), limit=60)}, "
        f"is {clean(str(one.current), limit=60)} here"
        for one in report.env_mismatches[:_SHOWN]
    ]
    if report.env_mismatches and not report.environment_counts:
        lines.append("  Differences of the environment do not count.")
    if path:
        lines.append(f"Report: {clean(path, limit=1000)}")
    return "\n".join(lines)


def _says_nothing_bad(judge: ReplayedVerdict) -> bool:
    """For sorting: who objects comes first."""
    return judge.replayed in ("passed", "skipped", "absent")

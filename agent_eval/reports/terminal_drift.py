"""Render for a terminal what the base branch lost since a release."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.gate.drift import ALARM_AT, FEWEST_RUNS, DriftReport
from agent_eval.text.numbers import count

_BLOCKS = "▁▂▃▄▅▆▇█"


def drift_text(report: DriftReport) -> list[str]:
    """Render the verdict first, then the figures it rests on."""
    drift = report.drift
    lines = [_verdict(report), ""]
    if drift.latest_rate is not None and drift.lost is not None:
        lines.append(
            f"Release {drift.release_rate:.1%}, last {count(drift.runs, 'run')} {drift.latest_rate:.1%}: "
            f"{_change(drift.lost, drift.lost_at_least)}; budget {100 * drift.budget:.1f}"
        )
    lines.append(f"Alarm   {_sparkline(drift.sums)}  {drift.sums[-1]:.1f}, raised at {ALARM_AT:g}")
    if drift.runs < FEWEST_RUNS:
        lines.append(f"With fewer than {FEWEST_RUNS} runs the budget is not checked.")
    left_out = f"; {count(report.left_out, 'run')} left out, judged or defined otherwise" * bool(
        report.left_out
    )
    return [*lines, f"{count(report.cases, 'case')} defined alike in both{left_out}"]


def _change(lost: float, at_least: float | None) -> str:
    if lost <= 0:
        return f"{-100 * lost:.1f} points gained"
    sure = ""
    if at_least is not None:
        sure = f", at least {100 * at_least:.1f} (95 %)" if at_least > 0 else ", which may be chance"
    return f"{100 * lost:.1f} points lost{sure}"


def _verdict(report: DriftReport) -> str:
    drift = report.drift
    if not report.is_worse:
        is_in_order = drift.runs >= FEWEST_RUNS and drift.lost is not None and drift.lost <= drift.budget
        return "The base branch holds the quality of the release." if is_in_order else "No loss is shown."
    reasons = []
    if drift.is_over_budget and drift.lost is not None:
        reasons.append(
            f"the base branch lost {100 * drift.lost:.1f} points since the release, "
            f"more than the budget of {100 * drift.budget:.1f}"
        )
    if drift.alarmed_at is not None:
        since = report.runs[drift.alarmed_at]
        commit = f" ({since.git_commit[:12]})" if since.git_commit else ""
        reasons.append(
            f"it passes less often since about run {since.run_id}{commit}, {since.started_at[:10]}"
        )
    verdict = " and ".join(reasons)
    whose = {
        True: " The released agent, run again, fell too: the model or a service moved, not the code.",
        False: " The released agent, run again, did not fall: look at what was merged.",
        None: "",
    }[report.released_agent_fell]
    return f"{verdict[0].upper()}{verdict[1:]}.{whose}"


def _sparkline(sums: Sequence[float]) -> str:
    highest = max([ALARM_AT, *sums])
    return "".join(_BLOCKS[min(7, int(8 * value / highest))] for value in sums)

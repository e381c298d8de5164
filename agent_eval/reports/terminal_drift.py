"""Render for a terminal what the base branch lost since a release."""

from __future__ import annotations

from agent_eval.gate.drift import ALARM_AT, FEWEST_RUNS, DriftReport
from agent_eval.reports.drift import change, left_out_words, sparkline, verdict
from agent_eval.text.numbers import count


def drift_text(report: DriftReport) -> list[str]:
    """Render the verdict first, then the figures it rests on."""
    drift = report.drift
    lines = [verdict(report), ""]
    if drift.latest_rate is not None and drift.lost is not None:
        lines.append(
            f"Release {drift.release_rate:.1%}, last {count(drift.runs, 'run')} {drift.latest_rate:.1%}: "
            f"{change(drift.lost, drift.lost_at_least)}; budget {100 * drift.budget:.1f}"
        )
    lines.append(f"Alarm   {sparkline(drift.sums)}  {drift.sums[-1]:.1f}, raised at {ALARM_AT:g}")
    if drift.runs < FEWEST_RUNS:
        lines.append(f"With fewer than {FEWEST_RUNS} runs the budget is not checked.")
    lines.append(f"{count(report.cases, 'case')} defined alike in both")
    if left_out := left_out_words(report):
        lines.append(f"Left out: {left_out}")
    return lines

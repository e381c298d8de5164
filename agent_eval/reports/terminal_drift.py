"""Render for a terminal what main lost since a release."""

from __future__ import annotations

from agent_eval.gate.release import FEWEST, DriftReport
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count, distance

NAMED = 5
"""Cases that are named at most."""


def drift_text(report: DriftReport) -> list[str]:
    """Render the verdict first, then the figures it rests on, and the cases that fell the most."""
    drift = report.drift
    lines = [verdict(report)]
    if drift.p_value is not None:
        lines.append(
            f"Chance of so large a fall without a change: {drift.p_value:.2g} (Welch's t over run totals)."
        )
    for word, totals in (("Release", drift.release), ("Main", drift.main)):
        figures = ", ".join(f"{total:g}" for total in totals)
        lines.append(f"{word}: {figures} of {drift.cases} cases passed.")
    if report.left_out_cases or report.left_out_runs:
        cases, runs = count(report.left_out_cases, "case"), count(report.left_out_runs, "run")
        lines.append(f"Left out: {cases} that changed or are gone, {runs} that cannot be compared.")
    if drift.is_worse and report.fallen:
        lines.append("Fell the most:")
        lines += [
            f"  {clean(case.case_id)}  {case.release:.0%} → {case.main:.0%}" for case in report.fallen[:NAMED]
        ]
    return lines


def verdict(report: DriftReport) -> str:
    """Say in one sentence whether main lost anything."""
    drift, runs = report.drift, len(report.runs)
    if drift.p_value is None or drift.lost is None:
        return f"Main has run {count(runs, 'time')} since the release: nothing is said before {FEWEST} runs."
    over = f"over its last {count(runs, 'run')}"
    if drift.is_worse:
        return f"Main passes {distance(drift.lost)} points less than the release {over}."
    moved = f"{distance(drift.lost)} points {'less' if drift.lost > 0 else 'more'}"
    return f"Main does not pass less than the release {over}: {moved} is within chance."

"""Sentences and figures about drift, which the terminal, the issue and the summary share."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts.history import HistoryRun
from agent_eval.gate.drift import ALARM_AT, FEWEST_RUNS, Cause, DriftReport
from agent_eval.text.numbers import count

_BLOCKS = "▁▂▃▄▅▆▇█"
_SHOWN_DIGITS = 12

CAUSES: dict[Cause, str] = {
    "model": "The released agent, run again, fell too: the model or a service moved, not the code.",
    "code": "The released agent, run again, did not fall: look at what was merged.",
    "both": "The released agent, run again, fell too, and the base branch fell further: the model or a "
    "service moved, and the code as well.",
    "unclear": "The released agent, run again, does not show yet whether the model or the code moved.",
}
"""What the released agent, run again, shows."""


def verdict(report: DriftReport) -> str:
    """Say in a sentence or two whether the base branch lost quality."""
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
    since = since_run(report)
    if since is not None:
        commit = f" ({since.git_commit[:_SHOWN_DIGITS]})" if since.git_commit else ""
        reasons.append(
            f"it passes less often since about run {since.run_id}{commit}, {since.started_at[:10]}"
        )
    sentence = " and ".join(reasons)
    cause = f" {CAUSES[report.cause]}" if report.cause is not None else ""
    return f"{sentence[0].upper()}{sentence[1:]}.{cause}"


def since_run(report: DriftReport) -> HistoryRun | None:
    """Find the run since which the branch likely passes less often; None where no alarm is up."""
    began = report.drift.began_at
    return None if began is None else report.runs[began]


def change(lost: float, at_least: float | None) -> str:
    """Write what was lost or gained in points, and how sure that is.

    Example:
        >>> change(0.062, -0.01), change(-0.02, None)
        ('6.2 points lost, which may be chance', '2.0 points gained')
    """
    if lost <= 0:
        return f"{abs(100 * lost):.1f} points gained"
    sure = ""
    if at_least is not None:
        sure = f", at least {100 * at_least:.1f} (95 %)" if at_least > 0 else ", which may be chance"
    return f"{100 * lost:.1f} points lost{sure}"


def left_out_words(report: DriftReport) -> str:
    """Say what is not compared; empty where everything is."""
    cases, runs = report.cases_left_out, report.left_out
    parts = [f"{count(cases, 'case')} of the release, changed or gone since"] if cases else []
    if runs:
        parts.append(f"{count(runs, 'run')} from before it, judged otherwise, or with too few of these cases")
    return "; ".join(parts)


def sparkline(sums: Sequence[float]) -> str:
    """Draw the sum of the alarm, run by run; the highest block is the alarm or more.

    Example:
        >>> sparkline([0.0, 2.0, 4.0])
        '▁▅█'
    """
    highest = max([ALARM_AT, *sums])
    return "".join(_BLOCKS[min(7, int(8 * value / highest))] for value in sums)

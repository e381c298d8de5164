"""Whether a run says enough to be decided on, or to be a baseline.

In a baseline whose cases could not be judged nothing can regress, so every candidate would pass.
"""

from __future__ import annotations

from fractions import Fraction

from agent_eval.contracts import Comparison, RunSummary
from agent_eval.errors import InvalidInput
from agent_eval.gate.rules import exact
from agent_eval.text.numbers import allowed, apart, of_all, percent

LUCKY = "it ended as soon as it was decided (`trials: auto`), which keeps lucky runs"
"""Why a run that looked at its trials is no baseline, as a clause."""
FIXED_NUMBER = "Take a run of the base branch, or one with a number of trials that was fixed beforehand."


def judged_nothing(summary: RunSummary) -> bool:
    """Whether every case ended in an error or had nothing to judge."""
    return summary.error_cases + summary.skipped_cases >= summary.total_cases


def why_no_baseline(summary: RunSummary, limit: float) -> str:
    """Say why a run is no baseline, as a clause; empty if it can be one.

    Example:
        >>> from agent_eval.contracts import Tally
        >>> tally = Tally()
        >>> tally.cases.update(passed=6, error=2)
        >>> why_no_baseline(tally.summary("run-1", "shop"), 0.2)
        '2 of 8 cases (25.0%) could not be judged, above max_baseline_error_rate 20%'

    Args:
        summary: The run's.
        limit: The policy's `max_baseline_error_rate`.
    """
    if judged_nothing(summary):
        return f"{of_all(0, summary.total_cases, 'case')} could be judged"
    share = Fraction(summary.error_cases, summary.total_cases)
    if share <= exact(limit):
        return ""
    stated = percent(float(share), decimals=apart(float(share), limit))
    return (
        f"{of_all(summary.error_cases, summary.total_cases, 'case')} ({stated}) could not be judged, above "
        f"max_baseline_error_rate {allowed(limit)}"
    )


def refuse_unfit_baseline(comparison: Comparison, limit: float) -> None:
    """Refuse a comparison with a run that is no baseline.

    Args:
        comparison: With the summary of its baseline.
        limit: As for `why_no_baseline`.

    Raises:
        InvalidInput: The run is no baseline.
    """
    if comparison.baseline.looks is not None:
        raise InvalidInput(
            f"run {comparison.baseline.run_id!r} is no baseline: {LUCKY}",
            remedy=FIXED_NUMBER,
            field="baseline",
        )
    why = why_no_baseline(comparison.baseline.summary, limit)
    if why:
        raise InvalidInput(
            f"run {comparison.baseline.run_id!r} is no baseline: {why}",
            remedy="Compare with a run whose cases were judged, or allow more errors with "
            "--max-baseline-error-rate.",
            field="baseline",
        )

"""Whether enough of a run was judged to decide on it.

An error of the agent, or of what surrounds it, is a failure. Where the judges themselves fail, nothing is
known of the agent, and no decision is made from what is left.
"""

from __future__ import annotations

from fractions import Fraction

from agent_eval.contracts import RunSummary
from agent_eval.errors import Fault
from agent_eval.text.numbers import count, of_all, percent

MOST_UNJUDGED = Fraction(1, 5)
"""Share of a run's trials of which no judge could tell, above which the run says nothing."""


def judged_nothing(summary: RunSummary) -> bool:
    """Whether every case ended in an error or had nothing to judge."""
    return summary.error_cases + summary.skipped_cases >= summary.total_cases > 0


def why_too_little(summary: RunSummary, *, errors_are_failures: bool = False) -> list[str]:
    """Say why a run says nothing of the agent, and what to do, in sentences; none where it does.

    Args:
        summary: The run's.
        errors_are_failures: Whether a run in which every case ends in an error is held against main's.
    """
    if why := why_unjudged_trials(summary):
        return why
    if judged_nothing(summary) and (summary.skipped_cases == summary.total_cases or not errors_are_failures):
        cases = count(summary.total_cases, "case")
        errors = f", {count(summary.error_cases, 'error')}" if summary.error_cases else ""
        return [
            f"Nothing was judged ({cases}{errors}), and that is no pass.",
            "Read why in the run's evidence, or give its cases what a judge needs.",
        ]
    return []


def why_unjudged_trials(summary: RunSummary) -> list[str]:
    """Say that too many trials could not be judged by fault of the judges, and what to do; none where not.

    Example:
        >>> from agent_eval.contracts import Tally
        >>> summary = Tally().summary("run-1", "shop").model_copy(
        ...     update={"total_cases": 8, "trials": 8, "lost_trials": {"judge": 2}}
        ... )
        >>> for sentence in why_unjudged_trials(summary):
        ...     print(sentence)
        2 of 8 trials (25.0%) could not be judged, and more than 20% is too many to decide.
        Mend the judge, or check that its model answers, then run again.
    """
    unjudged = summary.lost_trials.get(Fault.JUDGE.value, 0)
    trials = summary.trials or summary.total_cases
    if not unjudged or Fraction(unjudged, trials) <= MOST_UNJUDGED:
        return []
    return [
        f"{of_all(unjudged, trials, 'trial')} ({percent(unjudged / trials)}) could not be judged, and "
        f"more than {percent(float(MOST_UNJUDGED), decimals=0)} is too many to decide.",
        "Mend the judge, or check that its model answers, then run again.",
    ]

"""How the attempts of a case ended, as the run that made them recorded it."""

from __future__ import annotations

from typing import Any

from agent_eval.contracts import Case
from agent_eval.errors import FailureKind


def selected_attempt(case: Case) -> dict[str, Any] | None:
    """Return the record of the attempt that the case selects, else the last record; None without records."""
    history = case.metadata.get("attempt_history")
    if not isinstance(history, list):
        return None
    attempts = [record for record in history if isinstance(record, dict)]
    number = case.metadata.get("selected_attempt")
    selected = [record for record in attempts if record.get("attempt") == number] or attempts
    return selected[-1] if selected else None


def failed_attempt(case: Case) -> dict[str, Any] | None:
    """Return the record of the selected attempt if that did not end by itself; else None."""
    attempt = selected_attempt(case)
    return None if attempt is None or attempt.get("failure") is None else attempt


NOT_OF_THE_AGENT = frozenset(
    {FailureKind.INFRASTRUCTURE.value, FailureKind.ENVIRONMENT.value, FailureKind.TIMEOUT.value}
)
"""Failures of an attempt that say nothing of the agent."""


def simulated_user_failed(case: Case) -> bool:
    """Tell whether the selected attempt ended because the simulated user failed.

    The run says so in `metadata.attempt_history`, which no agent writes. Events may be of the agent's making.
    """
    return (failed_attempt(case) or {}).get("failure") == FailureKind.SIMULATOR_ERROR.value

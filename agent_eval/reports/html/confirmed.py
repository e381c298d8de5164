"""What was run again by both agents, as plain rows of a page: by case, with its counts and its reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agent_eval.contracts.confirmation import SuspectResult, SuspectVerdict
from agent_eval.reports.confirmation import cached_words, chance_of, in_order, took
from agent_eval.reports.model import SuiteReport
from agent_eval.text.escape import one_line

ROWS = 200
NAME_LIMIT = 120
REASON_LIMIT = 600

_VERDICTS: dict[SuspectVerdict, tuple[str, str, str]] = {
    "confirmed": ("failed", "✗", "confirmed: yours"),
    "inconclusive": ("inconclusive", "?", "not settled"),
    "not-yours": ("skipped", "–", "not yours"),
    "cleared": ("passed", "✓", "cleared"),
}
"""By verdict: the class that colours it, and the sign and words that say it without colour."""


class FreshRow(NamedTuple):
    """A case that fresh trials were to settle.

    Example:
        >>> FreshRow("refund", "failed", "✗ confirmed: yours", "0 of 6", "6 of 6", "19 of 20", "").base
        '6 of 6'

    Attributes:
        name: Id of the case.
        state: Class of the verdict, for its colour.
        verdict: The verdict in words, with its sign.
        now: Fresh trials of this change that passed.
        base: Those of the merge base.
        before: Trials on the base branch before that passed, and the tier that they recommend.
        reason: Why, as a sentence.
    """

    name: str
    state: str
    verdict: str
    now: str
    base: str
    before: str
    reason: str


class FreshTrials(NamedTuple):
    """The cases that fresh trials were to settle, and what the trials took.

    Example:
        >>> FreshTrials([], 0, "").rows
        []

    Attributes:
        rows: One a case, the confirmed ones first.
        hidden: How many more there are.
        notes: What was run and which trials an earlier run made, as sentences.
    """

    rows: Sequence[FreshRow]
    hidden: int
    notes: str


def fresh_trials(suite: SuiteReport) -> FreshTrials | None:
    """Collect what fresh trials say of a suite's cases; None where no case was to be run again."""
    results = in_order(suite.decision.confirmed)
    if not results:
        return None
    notes = " ".join(filter(None, [took(suite.confirmation), cached_words(suite.decision)]))
    return FreshTrials([_row(result) for result in results[:ROWS]], max(0, len(results) - ROWS), notes)


def _row(result: SuspectResult) -> FreshRow:
    state, sign, words = _VERDICTS[result.verdict]
    before = f"{result.history_passed} of {result.history_scored} ({result.tier})"
    return FreshRow(
        name=one_line(result.case_id, limit=NAME_LIMIT) or "∅",
        state=state,
        verdict=f"{sign} {words}{chance_of(result)}",
        now=_counts(result.candidate_passed, result.candidate_trials),
        base=_counts(result.base_passed, result.base_trials),
        before=before if result.history_scored else "–",
        reason=one_line(result.reason, limit=REASON_LIMIT),
    )


def _counts(passed: int, trials: int) -> str:
    return f"{passed} of {trials}" if trials else "not run"

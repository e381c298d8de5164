"""Which cases a policy would hold in quarantine if it followed a history. A person reviews and commits it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from agent_eval.history.board import ENOUGH, STEADY, Board, CaseBoard

DAYS = 30
"""Days from the newest run for which a quarantine is proposed: it is to be mended, not forgotten."""


@dataclass(frozen=True)
class Recommendation:
    """Changes of a policy's quarantine.

    Attributes:
        add: Flaky and failing cases that are not in quarantine, sorted by id.
        remove: Cases in quarantine whose newest trials nearly all pass, sorted by id.
        until: The day that is proposed, as `2027-01-31`.
    """

    add: Sequence[CaseBoard]
    remove: Sequence[CaseBoard]
    until: str


def recommendation(history: Board, quarantined: Collection[str]) -> Recommendation:
    """Recommend which cases to quarantine; those with too few trials to judge stay as they are.

    Args:
        history: From `board` with what the policy holds in quarantine.
        quarantined: Ids of these cases.
    """
    cases = sorted(history.cases, key=lambda case: case.case_id)
    add = [case for case in cases if case.kind in ("flaky", "failing")]
    remove = [
        case
        for case in cases
        if case.case_id in quarantined and case.scored >= ENOUGH and case.passed >= STEADY * case.scored
    ]
    newest = history.runs[-1].run.started_at[:10] if history.runs else date.min.isoformat()
    until = date.fromisoformat(newest) + timedelta(days=DAYS)
    return Recommendation(add, remove, until.isoformat())

"""What a policy would say of single cases if it followed a history. A person reviews and commits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.contracts.history import Tier, tier_of
from agent_eval.history.board import Board, CaseBoard, DeclaredTiers


@dataclass(frozen=True)
class TierChange:
    """A case of which the policy would say something else.

    Example:
        >>> TierChange("refund", "blocking", "tracked", passed=11, scored=20).now
        'tracked'

    Attributes:
        case_id: The case.
        before: What the policy says; `blocking` where it does not name the case.
        now: What the history recommends.
        passed: Newest trials that passed.
        scored: All of these trials.
    """

    case_id: str
    before: Tier
    now: Tier
    passed: int
    scored: int


@dataclass(frozen=True)
class Recommendation:
    """The lists of a policy that follows a history.

    Example:
        >>> from agent_eval.history.board import board
        >>> recommendation(board([]), DeclaredTiers(tracked=frozenset({"refund"}))).tracked
        ['refund']

    Attributes:
        tracked: Cases that are to be tracked, sorted.
        expected_fail: Cases that are to be expected to fail, sorted.
        changes: What differs from the policy, sorted by id.
    """

    tracked: Sequence[str]
    expected_fail: Sequence[str]
    changes: Sequence[TierChange]


def recommendation(history: Board, declared: DeclaredTiers) -> Recommendation:
    """Recommend tiers: what is too young to judge, in quarantine or not in the history stays as it is.

    A case that is not named and passed too seldom in its newest trials is to be tracked, and expected to fail
    where it never passed. A tracked case that passes often enough is to block, and so is one that is expected
    to fail and passed in the last runs.

    Args:
        history: From `board` with what the policy declares.
        declared: What the policy says of cases.
    """
    changes = [change for case in history.cases if (change := _change(case, declared)) is not None]
    tiers = dict.fromkeys(declared.tracked, "tracked")
    tiers |= dict.fromkeys(declared.expected_fail, "expected-fail")
    tiers |= {change.case_id: change.now for change in changes}
    listed = {
        name: sorted(case_id for case_id, tier in tiers.items() if tier == name)
        for name in ("tracked", "expected-fail")
    }
    ordered = sorted(changes, key=lambda change: change.case_id)
    return Recommendation(listed["tracked"], listed["expected-fail"], ordered)


def _change(case: CaseBoard, declared: DeclaredTiers) -> TierChange | None:
    before: Tier = declared.of(case.case_id) or "blocking"
    by_history = tier_of(case.passed, case.scored)
    now = before
    if before == "blocking" and by_history == "tracked":
        now = "tracked" if case.passed else "expected-fail"
    elif (before == "tracked" and by_history == "blocking") or case.promote:
        now = "blocking"
    if now == before:
        return None
    return TierChange(case.case_id, before, now, case.passed, case.scored)

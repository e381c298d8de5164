"""What a history recommends that a policy says of single cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts.history import Tier
from agent_eval.contracts.policy import GatePolicy
from agent_eval.history.board import DeclaredTiers, board, tiers_of_policy
from agent_eval.history.recommendation import Recommendation, recommendation
from agent_eval.operations.gate import parse_policy_file
from agent_eval.reports.recommendation import recommendation_lines
from tests.unit.history.made import made_run


def recommended(counts: tuple[int, int], declared: DeclaredTiers) -> Recommendation:
    """Four runs with these counts of `refund` in each."""
    records = [made_run(number, {"refund": counts}) for number in range(4)][::-1]
    return recommendation(board(records, declared=declared), declared)


@pytest.mark.parametrize(
    ("before", "counts", "now"),
    [
        ("blocking", (5, 5), "blocking"),
        ("blocking", (3, 5), "tracked"),
        ("blocking", (0, 5), "expected-fail"),
        ("blocking", (0, 1), "blocking"),
        ("tracked", (5, 5), "blocking"),
        ("tracked", (3, 5), "tracked"),
        ("tracked", (1, 1), "tracked"),
        ("expected-fail", (1, 1), "blocking"),
        ("expected-fail", (4, 5), "expected-fail"),
        ("quarantined", (5, 5), "quarantined"),
        ("quarantined", (0, 5), "quarantined"),
    ],
)
def test_a_history_recommends_what_its_trials_say(before: Tier, counts: tuple[int, int], now: Tier) -> None:
    ids = frozenset({"refund"})
    declared = {
        "tracked": DeclaredTiers(tracked=ids),
        "expected-fail": DeclaredTiers(expected_fail=ids),
        "quarantined": DeclaredTiers(quarantined=ids),
    }.get(before, DeclaredTiers())
    found = recommended(counts, declared)
    assert ["refund"] * (now == "tracked") == list(found.tracked)
    assert ["refund"] * (now == "expected-fail") == list(found.expected_fail)
    changes = [(change.before, change.now, change.passed, change.scored) for change in found.changes]
    assert changes == [(before, now, 4 * counts[0], 4 * counts[1])] * (now != before)


def test_what_the_policy_lists_and_the_history_does_not_know_stays() -> None:
    declared = DeclaredTiers(tracked=frozenset({"b", "a"}), expected_fail=frozenset({"c"}))
    found = recommended((5, 5), declared)
    assert (found.tracked, found.expected_fail, found.changes) == (["a", "b"], ["c"], [])


@given(st.lists(st.text(min_size=1, max_size=12), unique=True, min_size=2, max_size=6))
def test_the_lines_are_a_policy_whatever_the_cases_are_called(ids: list[str]) -> None:
    records = [made_run(number, dict.fromkeys(ids[1:], (3, 5))) for number in range(4)][::-1]
    declared = DeclaredTiers(expected_fail=frozenset(ids[:1]))
    history = board(records, declared=declared)
    lines = recommendation_lines(recommendation(history, declared), history)
    assert not any(character in line for line in lines for character in "\n\r\x85\u2028")
    policy = parse_policy_file("\n".join(lines).encode(), "gate.yml")
    assert policy == GatePolicy(tracked=sorted(ids[1:]), expected_fail=ids[:1])
    assert tiers_of_policy(policy).of(ids[1]) == "tracked"

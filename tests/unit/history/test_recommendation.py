"""Which cases a history recommends to quarantine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.history.board import board
from agent_eval.history.recommendation import Recommendation, recommendation
from agent_eval.operations.gate import parse_policy_file
from agent_eval.reports.recommendation import recommendation_lines
from tests.unit.history.made import made_run


def recommended(counts: tuple[int, int], *, quarantined: bool) -> Recommendation:
    """Four runs with these counts of `refund` in each."""
    held = {"refund"} if quarantined else set()
    records = [made_run(number, {"refund": counts}) for number in range(4)][::-1]
    return recommendation(board(records, quarantined=held), held)


@pytest.mark.parametrize(
    ("quarantined", "counts", "add", "remove"),
    [
        (False, (5, 5), False, False),
        (False, (3, 5), True, False),
        (False, (0, 5), True, False),
        (False, (0, 1), False, False),
        (True, (5, 5), False, True),
        (True, (3, 5), False, False),
        (True, (1, 1), False, False),
    ],
)
def test_a_history_recommends_what_its_trials_say(
    quarantined: bool, counts: tuple[int, int], add: bool, remove: bool
) -> None:
    found = recommended(counts, quarantined=quarantined)
    assert ([case.case_id for case in found.add], [case.case_id for case in found.remove]) == (
        ["refund"] * add,
        ["refund"] * remove,
    )


@given(st.lists(st.text(min_size=1, max_size=12), unique=True, min_size=1, max_size=6))
def test_the_lines_are_a_policy_whatever_the_cases_are_called(ids: list[str]) -> None:
    records = [made_run(number, dict.fromkeys(ids, (3, 5))) for number in range(4)][::-1]
    history = board(records)
    found = recommendation(history, ())
    lines = recommendation_lines(found, history)
    assert not any(character in line for line in lines for character in "\n\r\x85\u2028")
    policy = parse_policy_file("\n".join(lines).encode(), "gate.yml")
    assert [entry.case for entry in policy.quarantine] == sorted(ids)
    assert {entry.until for entry in policy.quarantine} == {found.until}


def test_a_quarantine_is_proposed_for_thirty_days_from_the_newest_run() -> None:
    assert recommended((3, 5), quarantined=False).until > "2026"

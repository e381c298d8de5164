"""What a history says of each case: its window, letters, tier, and since when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts.history import tier_of
from agent_eval.history.board import DeclaredTiers, board, counted_before, to_promote
from agent_eval.contracts.history import RunRecord
from tests.unit.history.made import made_case, made_run


def history(*counts: tuple[int, int], case_id: str = "refund") -> list[RunRecord]:
    """Runs with these passed and scored trials of one case, the oldest first; returned the newest first."""
    return [made_run(number, {case_id: each}) for number, each in enumerate(counts)][::-1]


def test_an_empty_history_has_no_case() -> None:
    assert board([]).cases == ()


@pytest.mark.parametrize(
    ("passed", "scored", "tier"),
    [
        (20, 20, "blocking"),
        (18, 20, "blocking"),
        (17, 20, "tracked"),
        (19, 19, "collecting"),
        (0, 0, "collecting"),
        (19, 21, "blocking"),
        (18, 21, "tracked"),
        (0, 20, "tracked"),
    ],
)
def test_eighteen_of_twenty_trials_recommend_to_block(passed: int, scored: int, tier: str) -> None:
    assert tier_of(passed, scored) == tier


def test_a_window_is_whole_runs_until_twenty_trials() -> None:
    case = board(history(*[(0, 3)] * 10, *[(3, 3)] * 7)).cases[0]
    assert (case.passed, case.scored, case.tier) == (21, 21, "blocking")


def test_runs_of_another_key_are_shown_and_not_counted() -> None:
    records = [made_run(2, {"a": (1, 1)}), made_run(1, {"a": (0, 1)}, key="other")]
    shown = board(records)
    assert (shown.other_keys, shown.cases[0].passed, shown.cases[0].scored) == (1, 1, 1)
    assert [cell is not None for cell in shown.cases[0].cells] == [True, True]


def test_where_keys_alternate_only_the_runs_of_the_newest_one_count() -> None:
    keys = ["0f" * 8, "a1" * 8]
    records = [made_run(number, {"a": (1, 1)}, key=keys[number % 2]) for number in range(7)][::-1]
    shown = board(records)
    assert [run.run.run_id for run in shown.counted] == ["ci-0", "ci-2", "ci-4", "ci-6"]
    assert (len(shown.runs), shown.other_keys, shown.cases[0].scored) == (7, 3, 4)


def test_a_case_that_is_defined_again_is_counted_from_then_on() -> None:
    records = history((0, 1), (1, 1))
    records[0].cases["refund"] = made_case("refund", 1, 1, definition="cd" * 6)
    case = board(records).cases[0]
    assert (case.passed, case.scored) == (1, 1)


def test_letters_are_the_last_twenty_outcomes_the_newest_at_the_end() -> None:
    assert board(history(*[(1, 1)] * 25, (0, 1))).cases[0].letters == "P" * 19 + "F"
    records = history((1, 2), (2, 2))
    records[0].cases["refund"] = made_case("refund", 1, 1, lost={"judge": 1})
    assert board(records).cases[0].letters == "PFP?"


def test_since_is_the_first_run_of_the_misses_in_a_row() -> None:
    case = board(history((0, 1), (1, 1), (0, 1), (0, 1))).cases[0]
    assert case.since is not None
    assert case.since.run_id == "ci-2"
    assert board(history((0, 1), (1, 1))).cases[0].since is None


def test_a_run_without_a_scored_trial_does_not_end_a_row_of_misses() -> None:
    case = board(history((1, 1), (0, 1), (0, 0), (0, 1))).cases[0]
    assert case.since is not None
    assert case.since.run_id == "ci-1"


@pytest.mark.parametrize("trials", [1, 4, 10, 12])
def test_since_reaches_back_to_the_first_miss_however_many_trials_ago_that_is(trials: int) -> None:
    case = board(history(*[(trials, trials)] * 3, *[(0, trials)] * 40)).cases[0]
    assert case.since is not None
    assert case.since.run_id == "ci-3"


def test_since_ends_where_the_case_was_defined_otherwise_and_skips_runs_of_another_key() -> None:
    records = [
        *[made_run(number, {"refund": (0, 4)}) for number in (9, 7, 5)],
        made_run(4, {"refund": (0, 4)}),
    ]
    records.insert(1, made_run(8, {"refund": (4, 4)}, key="another"))
    records[-1].cases["refund"] = made_case("refund", 0, 4, definition="cd" * 6)
    case = board(records).cases[0]
    assert case.since is not None
    assert case.since.run_id == "ci-5"


def test_what_the_policy_says_is_never_overruled() -> None:
    declared = DeclaredTiers(quarantined=frozenset({"a"}), expected_fail=frozenset({"b"}))
    records = [made_run(number, {"a": (9, 9), "b": (9, 9)}) for number in range(3)][::-1]
    tiers = {case.case_id: (case.tier, case.promote) for case in board(records, declared=declared).cases}
    assert tiers == {"a": ("quarantined", False), "b": ("expected-fail", True)}


@pytest.mark.parametrize("trials", [1, 4, 9, 10, 12, 30])
def test_three_runs_in_a_row_promote_a_case_whatever_their_number_of_trials(trials: int) -> None:
    declared = DeclaredTiers(expected_fail=frozenset({"refund"}))
    records = history((0, trials), *[(trials, trials)] * 3)
    assert board(records, declared=declared).cases[0].promote
    assert to_promote(records, declared) == ["refund"]
    assert to_promote(records[1:], declared) == []
    assert to_promote([], declared) == []


def test_a_case_is_not_promoted_by_runs_of_another_definition() -> None:
    declared = DeclaredTiers(expected_fail=frozenset({"refund"}))
    records = history(*[(12, 12)] * 3)
    records[-1].cases["refund"] = made_case("refund", 12, 12, definition="cd" * 6)
    assert to_promote(records, declared) == []


@pytest.mark.parametrize("counts", [((1, 1), (1, 1)), ((1, 1), (0, 1), (1, 1)), ((0, 1), (1, 1), (0, 0))])
def test_a_case_is_promoted_by_no_fewer_than_three_runs_in_a_row(
    counts: tuple[tuple[int, int], ...],
) -> None:
    declared = DeclaredTiers(expected_fail=frozenset({"refund"}))
    assert not board(history(*counts), declared=declared).cases[0].promote


def test_the_lowest_rate_comes_first() -> None:
    records = [made_run(1, {"a": (1, 1), "b": (0, 1), "c": (1, 2)})]
    assert [case.case_id for case in board(records).cases] == ["b", "c", "a"]


def test_fewer_runs_can_be_shown_than_are_counted() -> None:
    shown = board(history(*[(1, 1)] * 20), runs=5)
    assert (len(shown.runs), shown.cases[0].scored, len(shown.cases[0].cells)) == (5, 20, 5)


def earlier(*counts: tuple[int, int], **fields: Any) -> list[RunRecord]:
    return [made_run(number, {"refund": each}, **fields) for number, each in enumerate(counts)][::-1]


def test_what_was_counted_before_is_of_the_newest_runs_of_one_setup_up_to_twenty_trials() -> None:
    own = made_run(99, {"refund": (0, 1)})
    assert counted_before("refund", own, earlier(*[(0, 1)] * 5, *[(1, 1)] * 19, (0, 1))) == (19, 20)
    assert counted_before("refund", own, earlier(*[(7, 8)] * 3)) == (21, 24)
    assert counted_before("refund", own, [own, *earlier((1, 1))]) == (1, 1)


def test_nothing_was_counted_before_under_another_setup_or_definition() -> None:
    own = made_run(99, {"refund": (0, 1)})
    assert counted_before("refund", own, earlier((1, 1), key="another")) == (0, 0)
    assert counted_before("cancel", own, earlier((1, 1))) == (0, 0)
    other = made_run(99, {})
    other.cases["refund"] = made_case("refund", 0, 1, definition="cd" * 6)
    assert counted_before("refund", other, earlier((1, 1))) == (0, 0)


def test_a_tracked_case_is_tracked_however_often_it_passes() -> None:
    declared = DeclaredTiers(tracked=frozenset({"refund"}))
    assert board(earlier((20, 20)), declared=declared).cases[0].tier == "tracked"

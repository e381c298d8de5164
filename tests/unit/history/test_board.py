"""What a history says of each case: its window, letters, kind, since when it fails, what to quarantine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts.history import RunRecord
from agent_eval.history.board import board, recommendation
from agent_eval.operations.gate import parse_policy_file
from agent_eval.reports.terminal_history import recommendation_lines
from tests.unit.history.made import made_case, made_run


def history(*counts: tuple[int, int], case_id: str = "refund") -> list[RunRecord]:
    """Runs with these passed and scored trials of one case, the oldest first; returned the newest first."""
    return [made_run(number, {case_id: each}) for number, each in enumerate(counts)][::-1]


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ([(20, 20)], "steady"),
        ([(18, 20)], "steady"),
        ([(17, 20)], "flaky"),
        ([(9, 9)], "new"),
        ([(9, 10)], "steady"),
        ([(0, 20)], "failing"),
        # A window is whole runs until twenty trials.
        ([(0, 3)] * 10 + [(3, 3)] * 7, "steady"),
    ],
)
def test_nine_of_ten_trials_make_a_case_steady(counts: list[tuple[int, int]], kind: str) -> None:
    [case] = board(history(*counts)).cases
    assert case.kind == kind
    assert case.scored == (21 if len(counts) > 1 else counts[0][1])
    assert board([]).cases == ()


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


@pytest.mark.parametrize(
    ("counts", "since"),
    [
        ([(0, 1), (1, 1), (0, 1), (0, 1)], "ci-2"),
        ([(0, 1), (1, 1)], None),
        ([(1, 1), (0, 1), (0, 0), (0, 1)], "ci-1"),
        *(([(trials, trials)] * 3 + [(0, trials)] * 40, "ci-3") for trials in (1, 4, 10, 12)),
    ],
    ids=["misses", "it passes", "a run without a scored trial", *(f"{n} a run" for n in (1, 4, 10, 12))],
)
def test_since_is_the_first_run_of_the_misses_in_a_row(
    counts: list[tuple[int, int]], since: str | None
) -> None:
    case = board(history(*counts)).cases[0]
    assert (case.since.run_id if case.since is not None else None) == since


def test_since_ends_where_the_case_was_defined_otherwise_and_skips_runs_of_another_key() -> None:
    records = [made_run(number, {"refund": (0, 4)}) for number in (9, 7, 5, 4)]
    records.insert(1, made_run(8, {"refund": (4, 4)}, key="another"))
    records[-1].cases["refund"] = made_case("refund", 0, 4, definition="cd" * 6)
    case = board(records).cases[0]
    assert case.since is not None
    assert case.since.run_id == "ci-5"


def test_what_the_policy_says_is_never_overruled_and_the_lowest_rate_comes_first() -> None:
    records = [made_run(number, {"a": (9, 9), "b": (9, 9)}) for number in range(3)][::-1]
    kinds = {case.case_id: case.kind for case in board(records, quarantined={"a"}).cases}
    assert kinds == {"a": "quarantined", "b": "steady"}
    mixed = board([made_run(1, {"a": (1, 1), "b": (0, 1), "c": (1, 2)})])
    assert [case.case_id for case in mixed.cases] == ["b", "c", "a"]
    shown = board(history(*[(1, 1)] * 20), runs=5)
    assert (len(shown.runs), shown.cases[0].scored, len(shown.cases[0].cells)) == (5, 20, 5)


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
    held = {"refund"} if quarantined else set()
    found = recommendation(board(history(*[counts] * 4), quarantined=held), held)
    assert [case.case_id for case in found.add] == ["refund"] * add
    assert [case.case_id for case in found.remove] == ["refund"] * remove
    assert found.until > "2026"


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

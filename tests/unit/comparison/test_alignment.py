from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison import behaviour as alignment
from agent_eval.comparison.behaviour import Step, align

calls = st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from("12")), max_size=7)


def kinds(before: str, now: str) -> list[str]:
    """`kinds("a1 b1", "a1 b2")`: a letter is a tool, a digit its arguments."""
    steps = align(*([(call[0], call[1]) for call in side.split()] for side in (before, now))).steps
    return [f"{step.kind} {step.tool}" for step in steps]


def test_an_extra_call_at_the_end_is_one_added_call() -> None:
    assert kinds("l1 r1", "l1 r1 e1") == ["same l", "same r", "added e"]


def test_an_extra_call_in_front_does_not_make_the_others_differ() -> None:
    assert kinds("l1 r1", "v1 l1 r1") == ["added v", "same l", "same r"]


def test_a_missing_call_stands_where_it_was() -> None:
    assert kinds("l1 v1 r1", "l1 r1") == ["same l", "removed v", "same r"]


def test_the_same_tool_with_other_arguments_keeps_its_place() -> None:
    assert kinds("l1 r1", "l1 r2") == ["same l", "arguments r"]


def test_equal_arguments_decide_between_equally_long_alignments() -> None:
    assert kinds("s1 s2", "s2") == ["removed s", "same s"]


def test_calls_that_changed_places_moved() -> None:
    assert kinds("a1 b1", "b1 a1") in (["moved b", "same a"], ["same b", "moved a"])


def test_a_call_elsewhere_with_other_arguments_did_not_move() -> None:
    assert Counter(kinds("a1 b1", "b1 a2")) == Counter(["same b", "removed a", "added a"])


def test_nothing_called_before_or_now() -> None:
    assert kinds("", "") == []
    assert kinds("", "a1") == ["added a"]
    assert kinds("a1", "") == ["removed a"]


@pytest.mark.parametrize("cells", [alignment.MOST_CELLS, 0])
@given(before=calls, now=calls)
def test_the_steps_tell_both_lists(
    cells: int, before: list[tuple[str, str]], now: list[tuple[str, str]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "MOST_CELLS", cells)
        steps = align(before, now).steps
    check_steps(before, now, steps)


@given(calls)
def test_a_list_aligned_with_itself_is_all_the_same(both: list[tuple[str, str]]) -> None:
    assert {step.kind for step in align(both, both).steps} <= {"same"}


def tools(counts: str) -> list[tuple[str, str]]:
    """`tools("a250 p")`: 250 calls of `a` with the same arguments, one of `p`."""
    return [(one[0], "1") for one in counts.split() for _ in range(int(one[1:] or 1))]


def counted(before: list[tuple[str, str]], now: list[tuple[str, str]]) -> Counter[str]:
    return Counter(f"{step.kind} {step.tool}" for step in align(before, now).steps)


def test_calls_far_behind_are_compared_like_the_first() -> None:
    assert counted(tools("a250 p"), tools("a250 d")) == {"same a": 250, "removed p": 1, "added d": 1}
    assert counted(tools("a250"), tools("a900")) == {"same a": 250, "added a": 650}
    assert counted(tools("a20000 p"), tools("a19000 d")) == {
        "same a": 19_000,
        "removed a": 1_000,
        "removed p": 1,
        "added d": 1,
    }


def test_very_many_calls_with_other_arguments_keep_their_place() -> None:
    before, now = [[("a", f"{side}{number}") for number in range(20_000)] for side in ("l", "r")]
    assert counted([*before, ("p", "")], [*now, ("d", "")]) == {
        "arguments a": 20_000,
        "removed p": 1,
        "added d": 1,
    }


def test_one_call_less_among_very_many_different_ones_is_one_call_less() -> None:
    calls = [("search", str(number)) for number in range(5_000)]
    aligned = align([("x", ""), *calls, ("x", "")], [("y", ""), *calls[:17], *calls[18:], ("y", "")])
    assert Counter(f"{step.kind} {step.tool}" for step in aligned.steps) == {
        "same search": 4_999,
        "removed search": 1,
        "removed x": 2,
        "added y": 2,
    }
    assert not aligned.coarse


def test_one_tool_in_a_loop_replaced_by_another_is_just_that() -> None:
    before, now = [[(tool, "1") for _ in range(5_000) for tool in loop] for loop in ("abcd", "abce")]
    assert counted(before, now) == {
        **{f"same {tool}": 5_000 for tool in "abc"},
        "removed d": 5_000,
        "added e": 5_000,
    }


def test_very_many_calls_in_a_wild_order_are_laid_side_by_side_coarsely_and_truly() -> None:
    rng = random.Random(7)
    before, now = [[(rng.choice("abcd"), rng.choice("12")) for _ in range(20_000)] for _ in range(2)]
    aligned = align(before, now)
    assert aligned.coarse
    check_steps(before, now, aligned.steps)


def test_one_tool_that_is_called_in_place_of_others_keeps_its_own_calls() -> None:
    before = [(tool, f"{tool}{number}") for number in range(1_000) for tool in "abcd"]
    now = [("a", "1")] * 4_000
    assert counted(before, now) == {
        "arguments a": 1_000,
        "added a": 3_000,
        **{f"removed {tool}": 1_000 for tool in "bcd"},
    }


def place(step: Step) -> int:
    assert step.baseline is not None
    return step.baseline


def best(before: list[tuple[str, str]], now: list[tuple[str, str]]) -> tuple[int, int]:
    """The most calls that can keep their place, and how many of them with equal arguments: by trying all."""
    found = (0, 0)
    for size in range(1, min(len(before), len(now)) + 1):
        for left in combinations(before, size):
            for right in combinations(now, size):
                if all(one[0] == other[0] for one, other in zip(left, right, strict=True)):
                    same = sum(one == other for one, other in zip(left, right, strict=True))
                    found = max(found, (size, same))
    return found


def check_steps(before: list[tuple[str, str]], now: list[tuple[str, str]], steps: list[Step]) -> None:
    """The laws of an alignment."""
    assert [step.candidate for step in steps if step.kind != "removed"] == list(range(len(now)))
    assert sorted(place(step) for step in steps if step.kind != "added") == list(range(len(before)))
    in_place = [place(step) for step in steps if step.kind in ("same", "arguments", "removed")]
    assert in_place == sorted(in_place)
    for step in steps:
        if step.baseline is not None:
            assert before[step.baseline][0] == step.tool
        if step.candidate is not None:
            assert now[step.candidate][0] == step.tool
        if step.kind in ("same", "moved"):
            assert before[place(step)] == now[step.candidate or 0]
        if step.kind == "arguments":
            assert before[place(step)] != now[step.candidate or 0]

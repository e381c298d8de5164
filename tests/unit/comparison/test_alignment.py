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
    steps = align(*([(call[0], call[1]) for call in side.split()] for side in (before, now)))
    return [f"{step.kind} {step.tool}" for step in steps]


@pytest.mark.parametrize(
    ("before", "now", "steps"),
    [
        ("l1 r1", "l1 r1 e1", ["same l, same r, added e"]),
        ("l1 r1", "v1 l1 r1", ["added v, same l, same r"]),
        ("l1 v1 r1", "l1 r1", ["same l, removed v, same r"]),
        ("l1 r1", "l1 r2", ["same l, arguments r"]),
        ("s1 s2", "s2", ["removed s, same s"]),
        ("a1 b1", "b1 a1", ["moved b, same a", "same b, moved a"]),
        ("a1 b1", "b1 a2", ["removed a, same b, added a"]),
        ("", "", [""]),
        ("", "a1", ["added a"]),
        ("a1", "", ["removed a"]),
    ],
    ids=[
        "an extra call at the end", "an extra call in front", "a missing call stands where it was",
        "other arguments keep their place", "equal arguments decide", "calls changed places",
        "a call elsewhere with other arguments did not move", "nothing", "nothing before", "nothing now",
    ],
)  # fmt: skip
def test_calls_are_laid_side_by_side(before: str, now: str, steps: list[str]) -> None:
    assert ", ".join(kinds(before, now)) in steps


@pytest.mark.parametrize("cells", [alignment.MOST_CELLS, 0])
@given(before=calls, now=calls)
def test_steps_tell_both_lists(cells: int, before: list[tuple[str, str]], now: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "MOST_CELLS", cells)
        steps = align(before, now)
    check_steps(before, now, steps)


@given(calls)
def test_a_list_aligned_with_itself_is_all_the_same(both: list[tuple[str, str]]) -> None:
    assert {step.kind for step in align(both, both)} <= {"same"}


def tools(counts: str) -> list[tuple[str, str]]:
    """`tools("a250 p")`: 250 calls of `a` with the same arguments, one of `p`."""
    return [(one[0], "1") for one in counts.split() for _ in range(int(one[1:] or 1))]


def counted(before: list[tuple[str, str]], now: list[tuple[str, str]]) -> Counter[str]:
    return Counter(f"{step.kind} {step.tool}" for step in align(before, now))


MANY = [[("a", f"{side}{number}") for number in range(20_000)] for side in ("l", "r")]
LOOPS = [[(tool, "1") for _ in range(5_000) for tool in loop] for loop in ("abcd", "abce")]
SEARCHES = [("search", str(number)) for number in range(5_000)]
WILD = [(tool, f"{tool}{number}") for number in range(1_000) for tool in "abcd"]


@pytest.mark.parametrize(
    ("before", "now", "steps"),
    [
        (tools("a250 p"), tools("a250 d"), {"same a": 250, "removed p": 1, "added d": 1}),
        (tools("a250"), tools("a900"), {"same a": 250, "added a": 650}),
        (tools("a20000 p"), tools("a19000 d"),
         {"same a": 19_000, "removed a": 1_000, "removed p": 1, "added d": 1}),
        ([*MANY[0], ("p", "")], [*MANY[1], ("d", "")], {"arguments a": 20_000, "removed p": 1, "added d": 1}),
        (*LOOPS, {**{f"same {tool}": 5_000 for tool in "abc"}, "removed d": 5_000, "added e": 5_000}),
        ([("x", ""), *SEARCHES, ("x", "")], [("y", ""), *SEARCHES[:17], *SEARCHES[18:], ("y", "")],
         {"same search": 4_999, "removed search": 1, "removed x": 2, "added y": 2}),
        (WILD, [("a", "1")] * 4_000,
         {"arguments a": 1_000, "added a": 3_000, **{f"removed {tool}": 1_000 for tool in "bcd"}}),
    ],
    ids=[
        "a change far behind", "many more calls", "many fewer calls", "other arguments keep their place",
        "a tool in a loop is replaced", "one call less", "a tool in place of others keeps its own calls",
    ],
)  # fmt: skip
def test_very_many_calls_are_compared_like_a_few(
    before: list[tuple[str, str]], now: list[tuple[str, str]], steps: dict[str, int]
) -> None:
    assert counted(before, now) == steps


def test_very_many_calls_in_a_wild_order_are_laid_side_by_side_truly() -> None:
    rng = random.Random(7)
    before, now = [[(rng.choice("abcd"), rng.choice("12")) for _ in range(20_000)] for _ in range(2)]
    check_steps(before, now, align(before, now))


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

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.judges.builtin.loops import longest_repeat
from tests.unit.judges.traces import Row, calls, judge, says, uses

FORMS = [{"x": 1, "y": "a b"}, {"y": "a  b ", "x": 1.0}, '{"x":1,"y":"a b"}', {"x": 1, "y": "a b"}]
ALTERNATING = [uses("a", {"x": 1, "y": 2}), uses("b")] * 4
LONG_CYCLE = [calls(tool) for tool in "abcdefg"] * 4
WORKING = 'the agent said "Working on it" 4 times'
IN_A_ROW = "times in a row with the same arguments"

LOOP_GUARD = [
    Row("a trace that goes somewhere", uses("a", {"n": 1}), uses("a", {"n": 2}), says(), gives="passed"),
    Row("an empty trace", gives="error missing_output"),
    Row("too many events", *(says(str(number)) for number in range(41)),
        gives="failed loop: the trace has 41 events, more than 40"),
    Row("a limit", *(says(str(n)) for n in range(41)), config={"max_steps": 41}, gives="passed"),
    Row("too many attempts", *(says(str(n), attempt=n) for n in range(4)),
        gives="failed loop: 4 attempts were made, more than 3"),
    Row("alternating calls", *(says("start"), *ALTERNATING),
        gives=f"failed loop: a and b were called 4 {IN_A_ROW}", refs=[1, 3, 5, 7, 9, 11, 13, 15]),
    Row("three times", says("start"), *ALTERNATING[:6], gives="passed"),
    Row("the same call in any form", *(uses("a", f) for f in FORMS),
        gives=f"failed loop: a was called 4 {IN_A_ROW}"),
    Row("progress", *(uses(tool, {"page": page}) for page in range(8) for tool in "ab"), gives="passed"),
    Row("a cycle longer than asked for", *LONG_CYCLE, gives="passed"),
    Row("a cycle as long as asked for", *LONG_CYCLE, config={"max_cycle_length": 7}, gives="failed loop"),
    Row("repeated messages", *(says("Working on it"), uses("a"), *[says(" working  on it")] * 3),
        gives=f"failed loop: {WORKING}", refs=[0, 3, 4, 5]),
    Row("blank messages", *[says("")] * 9, gives="error missing_output"),
    Row("messages in the input", *[says(None, input="Working on it")] * 4, gives=f"failed loop: {WORKING}"),
    Row("messages that are objects", *[says({"a": 1, "b": [2]}), says({"b": [2.0], "a": 1})] * 2,
        gives="failed loop"),
    Row("messages that differ", *[says({"a": [1, 2]}), says({"a": [2, 1]})] * 2, gives="passed"),
]  # fmt: skip

SAME: list[list[Any]] = [
    [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
    [{"q": "two words"}, {"q": "  two \n words "}],
    [{"q": 1}, {"q": 1.0}],
    [{"q": {"a": [1, "x y"], "b": 2}}, {"q": {"b": 2, "a": [1.0, "x  y"]}}],
    [{"q": 1}, '{"q": 1}'],
    ["not json", " not  json"],
    [None, None],
]
DIFFERENT: list[list[Any]] = [[{"q": 1}, {"q": True}], [{"q": "1"}, {"q": 1}], [{"q": "ab"}, {"q": "a b"}]]
PATIENT = {"max_retries_per_call": 9, "max_total_retries": 8}

RETRY_STORM = [
    Row("without tool calls there is nothing to judge", says(), gives="skipped"),
    Row("a few repeats are patience", *[uses("a", {"x": 1})] * 3, gives="passed: 2 repeated tool calls"),
    Row("more are a storm", *(*[uses("a", {"x": 1}, error="busy")] * 4, uses("b")),
        gives="failed loop: a was called 4 times with the same arguments (4 errors; allowed are 3)",
        refs=[2, 4, 6]),
    Row("repeats of different calls add up", *[uses("a", {"n": n}) for n in range(4)] * 3,
        gives="failed loop: 8 repeated calls in all exceed 6", score=0.5),
    *(
        Row(f"the same: {forms}", *[uses("a", form) for form in forms] * 2, gives="failed loop")
        for forms in SAME
    ),
    *(Row(f"not: {forms}", *[uses("a", form) for form in forms] * 2, gives="passed") for forms in DIFFERENT),
    Row("no repeat is allowed", *[uses("a")] * 2, config={"max_retries_per_call": 0}, gives="failed loop"),
    Row("many are", *[uses("a")] * 9, config=PATIENT, gives="passed"),
]  # fmt: skip


@pytest.mark.parametrize("row", LOOP_GUARD, ids=str)
def test_loop_guard(row: Row) -> None:
    row.check("loop_guard")


@pytest.mark.parametrize("row", RETRY_STORM, ids=str)
def test_retry_storm(row: Row) -> None:
    row.check("retry_storm")


def test_only_a_loop_is_hard() -> None:
    assert judge("loop_guard", *LONG_CYCLE).hard
    assert not judge("retry_storm", *LONG_CYCLE).hard


@given(st.text("ab", max_size=14), st.integers(1, 5))
def test_the_longest_repeat_is_right(text: str, max_period: int) -> None:
    times, period, start = longest_repeat(text, max_period)
    brute = max(
        (
            repeats
            for length in range(1, max_period + 1)
            for begin in range(len(text) - length + 1)
            for repeats in range(1, len(text) + 1)
            if text[begin : begin + length * repeats] == text[begin : begin + length] * repeats
        ),
        default=0,
    )
    assert times == brute
    assert text[start : start + period * times] == text[start : start + period] * times


def test_the_shortest_and_first_of_equal_repeats_is_taken() -> None:
    for items, result in (("", (0, 0, 0)), ("a", (1, 1, 0)), ("abbcc", (2, 1, 1)), ("xabab", (2, 2, 1))):
        assert longest_repeat(items, 3) == result

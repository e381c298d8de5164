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
    Row("a trace that goes somewhere", "passed", uses("a", {"n": 1}), uses("a", {"n": 2}), says()),
    Row("an empty trace", "error missing_output"),
    Row("too many events", "failed loop: the trace has 41 events, more than 40",
        *(says(str(number)) for number in range(41))),
    Row("a limit", "passed", *(says(str(n)) for n in range(41)), config={"max_steps": 41}),
    Row("too many attempts", "failed loop: 4 attempts were made, more than 3",
        *(says(str(n), attempt=n) for n in range(4))),
    Row("alternating calls", f"failed loop: a and b were called 4 {IN_A_ROW}", *(says("start"), *ALTERNATING),
        refs=[1, 3, 5, 7, 9, 11, 13, 15]),
    Row("three times", "passed", says("start"), *ALTERNATING[:6]),
    Row("the same call in any form", f"failed loop: a was called 4 {IN_A_ROW}",
        *(uses("a", f) for f in FORMS)),
    Row("progress", "passed", *(uses(tool, {"page": page}) for page in range(8) for tool in "ab")),
    Row("a cycle longer than asked for", "passed", *LONG_CYCLE),
    Row("a cycle as long as asked for", "failed loop", *LONG_CYCLE, config={"max_cycle_length": 7}),
    Row("repeated messages", f"failed loop: {WORKING}",
        *(says("Working on it"), uses("a"), *[says(" working  on it")] * 3), refs=[0, 3, 4, 5]),
    Row("blank messages", "error missing_output", *[says("")] * 9),
    Row("messages in the input", f"failed loop: {WORKING}", *[says(None, input="Working on it")] * 4),
    Row("messages that are objects", "failed loop",
        *[says({"a": 1, "b": [2]}), says({"b": [2.0], "a": 1})] * 2),
    Row("messages that differ", "passed", *[says({"a": [1, 2]}), says({"a": [2, 1]})] * 2),
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
    Row("without tool calls there is nothing to judge", "skipped", says()),
    Row("a few repeats are patience", "passed: 2 repeated tool calls", *[uses("a", {"x": 1})] * 3),
    Row("more are a storm",
        "failed loop: a was called 4 times with the same arguments (4 errors; allowed are 3)",
        *(*[uses("a", {"x": 1}, error="busy")] * 4, uses("b")), refs=[2, 4, 6]),
    Row("repeats of different calls add up", "failed loop: 8 repeated calls in all exceed 6",
        *[uses("a", {"n": n}) for n in range(4)] * 3, score=0.5),
    *(
        Row(f"the same: {forms}", "failed loop", *[uses("a", form) for form in forms] * 2)
        for forms in SAME
    ),
    *(Row(f"not: {forms}", "passed", *[uses("a", form) for form in forms] * 2) for forms in DIFFERENT),
    Row("no repeat is allowed", "failed loop", *[uses("a")] * 2, config={"max_retries_per_call": 0}),
    Row("many are", "passed", *[uses("a")] * 9, config=PATIENT),
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

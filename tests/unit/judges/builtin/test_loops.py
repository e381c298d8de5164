from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.judges.builtin.loops import longest_repeat, message_fingerprint
from tests.unit.judges.traces import calls, findings, judge, says, uses


def test_a_trace_that_goes_somewhere_passes() -> None:
    verdict = judge("loop_guard", uses("a", {"n": 1}), uses("a", {"n": 2}), says("done"))
    assert findings(verdict) == ("passed", None)


def test_an_empty_trace_is_an_error() -> None:
    assert findings(judge("loop_guard")) == ("error", "missing_output")


def test_too_many_events() -> None:
    events = [says(str(number)) for number in range(41)]
    verdict = judge("loop_guard", *events)
    assert findings(verdict) == ("failed", "loop")
    assert verdict.reason == "the trace has 41 events, more than 40"
    assert verdict.hard
    assert judge("loop_guard", *events, config={"max_steps": 41}).passed


def test_too_many_attempts() -> None:
    verdict = judge("loop_guard", *[says(str(n), attempt=n) for n in range(4)])
    assert verdict.reason == "4 attempts were made, more than 3"


def test_alternating_calls_are_a_loop() -> None:
    events = [uses("a", {"x": 1, "y": 2}), uses("b")] * 4
    verdict = judge("loop_guard", says("start"), *events)
    assert verdict.reason == "a and b were called 4 times in a row with the same arguments"
    assert verdict.evidence_refs == [1, 3, 5, 7, 9, 11, 13, 15]
    assert judge("loop_guard", *events[:6]).passed


def test_the_same_call_again_and_again_is_a_loop_whatever_its_form() -> None:
    forms = [{"x": 1, "y": "a b"}, {"y": "a  b ", "x": 1.0}, '{"x":1,"y":"a b"}', {"x": 1, "y": "a b"}]
    verdict = judge("loop_guard", *[uses("a", form) for form in forms])
    assert verdict.reason == "a was called 4 times in a row with the same arguments"


def test_calls_that_make_progress_are_no_loop() -> None:
    events = [uses(tool, {"page": page}) for page in range(8) for tool in ("a", "b")]
    assert judge("loop_guard", *events).passed


def test_a_cycle_longer_than_asked_for_is_not_seen() -> None:
    events = [calls(tool) for tool in "abcdefg"] * 4
    assert judge("loop_guard", *events).passed
    assert not judge("loop_guard", *events, config={"max_cycle_length": 7}).passed


def test_repeated_messages_are_a_loop_whatever_their_spacing() -> None:
    verdict = judge("loop_guard", says("Working on it"), uses("a"), *[says(" working  on it")] * 3)
    assert verdict.reason == 'the agent said "Working on it" 4 times'
    assert verdict.evidence_refs == [0, 3, 4, 5]
    assert findings(judge("loop_guard", *[says("")] * 9)) == ("error", "missing_output")
    in_input = [says(None, input="Working on it")] * 4
    assert judge("loop_guard", *in_input).reason == 'the agent said "Working on it" 4 times'
    assert judge("loop_guard", *[says({"a": 1, "b": [2]})] * 4).outcome.value == "failed"


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


def test_without_tool_calls_there_is_nothing_to_judge() -> None:
    assert findings(judge("retry_storm", says())) == ("skipped", None)


def test_a_few_repeats_are_patience() -> None:
    verdict = judge("retry_storm", *[uses("a", {"x": 1})] * 3)
    assert findings(verdict) == ("passed", None)
    assert verdict.reason == "2 repeated tool calls"


def test_more_are_a_storm() -> None:
    verdict = judge("retry_storm", *[uses("a", {"x": 1}, error="busy")] * 4, uses("b"))
    assert findings(verdict) == ("failed", "loop")
    assert verdict.reason == "a was called 4 times with the same arguments (4 errors; allowed are 3)"
    assert verdict.evidence_refs == [2, 4, 6]
    assert not verdict.hard


def test_repeats_of_different_calls_add_up() -> None:
    events = [uses("a", {"n": n}) for n in range(4)] * 3
    verdict = judge("retry_storm", *events)
    assert verdict.reason == "8 repeated calls in all exceed 6"
    assert verdict.score == 0.5


@pytest.mark.parametrize(
    "variants",
    [
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [{"q": "two words"}, {"q": "  two \n words "}],
        [{"q": 1}, {"q": 1.0}],
        [{"q": {"a": [1, "x y"], "b": 2}}, {"q": {"b": 2, "a": [1.0, "x  y"]}}],
        [{"q": 1}, '{"q": 1}'],
        ["not json", " not  json"],
        [None, None],
    ],
)
def test_retries_hidden_by_form_are_seen(variants: list[Any]) -> None:
    events = [uses("a", variants[number % 2]) for number in range(4)]
    assert not judge("retry_storm", *events).passed


@pytest.mark.parametrize(
    "variants", [[{"q": 1}, {"q": True}], [{"q": "1"}, {"q": 1}], [{"q": "ab"}, {"q": "a b"}]]
)
def test_different_values_are_different_calls(variants: list[Any]) -> None:
    events = [uses("a", variants[number % 2]) for number in range(4)]
    assert judge("retry_storm", *events).passed


def test_limits_can_be_set() -> None:
    events = [uses("a")] * 2
    assert not judge("retry_storm", *events, config={"max_retries_per_call": 0}).passed
    assert judge(
        "retry_storm", *[uses("a")] * 9, config={"max_retries_per_call": 9, "max_total_retries": 8}
    ).passed


def test_messages_are_the_same_whatever_the_order_of_their_keys() -> None:
    assert message_fingerprint({"a": 1, "b": [2, 3]}) == message_fingerprint({"b": [2, 3], "a": 1})
    assert message_fingerprint({"a": [1]}) != message_fingerprint({"a": [2]})
    assert message_fingerprint([1, 2]) != message_fingerprint([2, 1])


def test_the_longest_repeat_is_found_first_and_at_its_place() -> None:
    assert longest_repeat([], 3) == (0, 0, 0)
    assert longest_repeat(["a"], 3) == (1, 1, 0)
    assert longest_repeat(["a", "b", "b", "c", "c"], 3) == (2, 1, 1)
    assert longest_repeat(["x", "a", "b", "a", "b"], 3) == (2, 2, 1)

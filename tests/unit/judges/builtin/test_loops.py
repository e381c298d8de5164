from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.judges.matching.arguments import longest_repeat
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

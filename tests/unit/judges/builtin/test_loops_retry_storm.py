from __future__ import annotations

from typing import Any

import pytest

from tests.unit.judges.traces import findings, judge, says, uses


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

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.judges.matching.values import Rules, differences

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def found(expected: Any, actual: Any, **rules: Any) -> list[str]:
    return list(differences(expected, actual, Rules(**rules)))


@given(json_values)
def test_a_value_matches_itself(value: Any) -> None:
    assert found(value, value) == []
    assert found(value, value, partial=True) == []


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=2), json_values, max_size=3), json_values)
def test_more_members_match_in_part_only(expected: dict[str, Any], extra: Any) -> None:
    actual = {**expected, "extra": extra}
    assert found(expected, actual, partial=True) == []
    assert found(expected, actual) != []


@given(json_values, json_values)
def test_matching_exactly_goes_both_ways(one: Any, other: Any) -> None:
    assert bool(found(one, other)) == bool(found(other, one))


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, True),
        (True, 1),
        (0, False),
        ("1", 1),
        (None, False),
        ([], {}),
        (None, 0),
        ({}, None),
        ([1], [1, 2]),
    ],
)
def test_values_of_different_kinds_differ(expected: Any, actual: Any) -> None:
    assert len(found(expected, actual)) == 1


def test_whole_numbers_are_numbers() -> None:
    assert found(1, 1.0) == []


def test_differences_are_told_by_place() -> None:
    expected = {"a": {"b": [1, {"c": 2}]}, "d": 1}
    actual = {"a": {"b": [1, {"c": 3}]}, "e": 1}
    assert found(expected, actual) == [
        "a.b.1.c is 3 instead of 2",
        "d is missing",
        "e is 1 and was not expected",
    ]


def test_partial_goes_all_the_way_down_and_lists_keep_their_length() -> None:
    expected = {"a": [{"b": 1}]}
    assert found(expected, {"a": [{"b": 1, "c": 2}], "d": 3}, partial=True) == []
    assert found(expected, {"a": [{"b": 1}, {}]}, partial=True) == ["a has 2 items instead of 1"]


def test_numbers_within_the_tolerance_match_and_booleans_are_no_numbers() -> None:
    assert found({"a": [1.5]}, {"a": [1.75]}, tolerance=0.25) == []
    assert found(1.5, 1.8, tolerance=0.25) == ["the value is 1.8 instead of 1.5"]
    assert found(1, True, tolerance=5) != []
    assert found(10**30, 10**30 + 1, tolerance=1) == []


def test_ignored_places_may_hold_anything_or_nothing() -> None:
    rules = {"ignore": ("id", "*.at", "items.*.id")}
    expected = {"id": 1, "meta": {"at": 1}, "items": [{"id": 1, "n": 2}]}
    assert found(expected, {"meta": {"at": 2}, "items": [{"id": 9, "n": 2}], "id": None}, **rules) == []
    assert found(expected, {"meta": {}, "items": [{"n": 2}]}, **rules) == []
    assert found(expected, {"meta": {}, "items": [{"n": 3}]}, **rules) == ["items.0.n is 3 instead of 2"]


def test_a_pattern_stands_in_for_equality() -> None:
    rules = {"patterns": {"q": "(?i)weather", "n": "^[0-9]+$"}}
    assert found({"q": "whatever"}, {"q": "The Weather", "n": 42}, **rules) == []
    assert found({}, {"q": "x", "n": 42}, **rules) == ['q "x" does not match "(?i)weather"']
    assert found({}, {"q": "weather"}, **rules) == ["n is missing"]


def test_long_values_are_cut() -> None:
    assert len(found("a" * 9999, "b" * 9999)[0]) < 200

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
        *((1, True), (True, 1), (0, False), ("1", 1), (None, False), ([], {}), (None, 0), ({}, None)),
        ([1], [1, 2]),
    ],
)
def test_values_of_different_kinds_differ(expected: Any, actual: Any) -> None:
    assert len(found(expected, actual)) == 1


NEAR, DOWN = {"tolerance": 0.25}, {"partial": True}
IGNORED = {"ignore": ("id", "*.at", "items.*.id")}
WITH_IDS = {"id": 1, "meta": {"at": 1}, "items": [{"id": 1, "n": 2}]}
PATTERNS = {"patterns": {"q": "(?i)weather", "n": "^[0-9]+$"}}


@pytest.mark.parametrize(
    ("expected", "actual", "rules", "told"),
    [
        (1, 1.0, {}, []),
        ({"a": {"b": [1, {"c": 2}]}, "d": 1}, {"a": {"b": [1, {"c": 3}]}, "e": 1}, {},
            ["a.b.1.c is 3 instead of 2", "d is missing", "e is 1 and was not expected"]),
        # In part, all the way down; lists keep their length.
        ({"a": [{"b": 1}]}, {"a": [{"b": 1, "c": 2}], "d": 3}, DOWN, []),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1}, {}]}, DOWN, ["a has 2 items instead of 1"]),
        # Within a tolerance; booleans are no numbers.
        ({"a": [1.5]}, {"a": [1.75]}, NEAR, []),
        (1.5, 1.8, NEAR, ["the value is 1.8 instead of 1.5"]),
        (1, True, {"tolerance": 5}, ["the value is true instead of 1"]),
        (10**30, 10**30 + 1, {"tolerance": 1}, []),
        # Places that are ignored hold anything or nothing.
        (WITH_IDS, {"meta": {"at": 2}, "items": [{"id": 9, "n": 2}], "id": None}, IGNORED, []),
        (WITH_IDS, {"meta": {}, "items": [{"n": 2}]}, IGNORED, []),
        (WITH_IDS, {"meta": {}, "items": [{"n": 3}]}, IGNORED, ["items.0.n is 3 instead of 2"]),
        # A pattern stands in for equality.
        ({"q": "whatever"}, {"q": "The Weather", "n": 42}, PATTERNS, []),
        ({}, {"q": "x", "n": 42}, PATTERNS, ['q "x" does not match "(?i)weather"']),
        ({}, {"q": "weather"}, PATTERNS, ["n is missing"]),
    ],
)  # fmt: skip
def test_differences_are_told_by_place(
    expected: Any, actual: Any, rules: dict[str, Any], told: list[str]
) -> None:
    assert found(expected, actual, **rules) == told


def test_long_values_are_cut() -> None:
    assert len(found("a" * 9999, "b" * 9999)[0]) < 200

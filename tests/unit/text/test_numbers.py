"""Shares are written alike everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.text.numbers import (
    allowed,
    apart,
    beside,
    count,
    differing,
    distance,
    margin,
    of_all,
    percent,
    verb,
)

SHARES = st.floats(0, 1)


@given(SHARES)
def test_only_all_is_all_and_only_none_is_none(share: float) -> None:
    assert (percent(share) == "100%") is (share == 1)
    assert (percent(share) == "0%") is (share == 0)


@given(
    st.integers(1, 999).map(lambda number: number / 1000),
    st.integers(1, 999).map(lambda number: number / 1000),
)
def test_shares_that_differ_look_different(one: float, other: float) -> None:
    decimals = differing(one, other)
    assert (percent(one, decimals=decimals) == percent(other, decimals=decimals)) is (one == other)


@pytest.mark.parametrize(
    ("share", "shown"), [(0.9, "90%"), (0.07, "7%"), (0.0499999999, "4.99999999%"), (1, "100%")]
)
def test_a_threshold_is_shown_as_it_was_written(share: float, shown: str) -> None:
    assert allowed(share) == shown


WRITTEN = st.integers(0, 100_000).map(lambda number: number / 100_000)
MEASURED = st.tuples(st.integers(0, 3_000), st.integers(1, 3_000)).map(lambda pair: min(pair) / pair[1])


def side(one: float, other: float) -> int:
    return (one > other) - (one < other)


@given(MEASURED | WRITTEN, WRITTEN)
def test_what_is_shown_lies_on_the_side_of_its_limit_on_which_it_lies(value: float, limit: float) -> None:
    shown = percent(value, decimals=apart(value, limit)).removesuffix("%")
    assert side(float(shown), float(allowed(limit).removesuffix("%"))) == side(value, limit)
    for difference in (value, -value):
        shown = beside(difference, limit)
        assert side(float(shown), float(margin(limit))) == side(difference, limit)


def test_a_difference_beside_its_margin() -> None:
    assert (beside(0.0499, 0.05), margin(0.05)) == ("4.99", "5.0")
    assert (beside(0.049, 0.05), beside(-0.0001, 0.05), margin(0.0025)) == ("4.9", "0.0", "0.25")
    assert (beside(1e-17, None), beside(-0.04, None)) == ("0.0", "-4.0")


def test_a_share_does_not_look_like_the_limit_that_it_breaks() -> None:
    assert percent(0.89999, decimals=apart(0.89999, 0.9)) == "89.999%"
    assert percent(0.9, decimals=apart(0.9, 0.9)) == "90.0%"
    assert (distance(-0.045), distance(0.00001)) == ("4.5", "0.001")
    assert percent(None) == "–"


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 cases fail"), (1, "1 case fails"), (2, "2 cases fail"), (12_000, "12,000 cases fail")],
)
def test_noun_and_verb_go_with_the_number(number, said):
    assert f"{count(number, 'case')} {verb(number, 'fails', 'fail')}" == said
    assert (count(1, "entry", "entries"), count(2, "entry", "entries")) == ("1 entry", "2 entries")
    shares = [of_all(part, total, "case") for part, total in ((0, 1), (1, 1), (1, 2_000))]
    assert shares == ["0 of 1 cases", "1 of 1 cases", "1 of 2,000 cases"]

"""Shares are written alike everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.text.shares import allowed, apart, differing, distance, percent

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


def test_a_share_does_not_look_like_the_limit_that_it_breaks() -> None:
    assert percent(0.89999, decimals=apart(0.89999, 0.9)) == "89.999%"
    assert percent(0.9, decimals=apart(0.9, 0.9)) == "90.0%"
    assert (distance(-0.045), distance(0.00001)) == ("4.5", "0.001")
    assert percent(None) == "–"

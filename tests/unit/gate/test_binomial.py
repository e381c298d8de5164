"""Points and tails of the binomial distribution, against exact sums."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import comb, exp, inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate.binomial import at_most, log_at_most, log_point

SHARES = [Fraction(1, 2), Fraction(1, 5), Fraction(9, 10), Fraction(1, 1000)]


def exact(count: int, total: int, share: Fraction) -> Fraction:
    return comb(total, count) * share**count * (1 - share) ** (total - count)


@given(st.integers(1, 120), st.data(), st.sampled_from(SHARES))
def test_points_and_tails_are_those_of_exact_sums(total: int, data: st.DataObject, share: Fraction) -> None:
    count = data.draw(st.integers(0, total))
    assert isclose(exp(log_point(count, total, float(share))), exact(count, total, share), rel_tol=1e-11)
    tail = sum(exact(place, total, share) for place in range(count + 1))
    assert isclose(at_most(count, total, float(share)), tail, rel_tol=1e-11)


@pytest.mark.parametrize("count", [4_700, 4_950, 5_000, 5_200])
def test_a_tail_of_ten_thousand_is_exact_to_eleven_digits(count: int) -> None:
    # Each coefficient from the one before it, which takes a hundredth of the time.
    coefficients = accumulate(range(count), lambda last, n: last * (10_000 - n) // (n + 1), initial=1)
    tail = Fraction(sum(coefficients), 2**10_000)
    assert isclose(at_most(count, 10_000), tail, rel_tol=1e-11)


def test_outside_the_range_nothing_or_everything_is_at_most_so_many() -> None:
    assert (log_point(-1, 5), log_point(6, 5)) == (-inf, -inf)
    assert (at_most(-1, 5), at_most(5, 5), at_most(9, 5)) == (0.0, 1.0, 1.0)
    assert at_most(0, 0) == 1.0


def test_what_is_too_small_for_a_float_keeps_its_logarithm() -> None:
    assert at_most(10, 1_000_000) == 0.0
    assert isclose(log_at_most(0, 1_000_000), -693_147.180559945, rel_tol=1e-12)


@given(st.integers(1_000, 1_000_000), st.data())
def test_a_tail_and_what_is_beyond_it_are_everything(total: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, total - 1))
    assert isclose(at_most(count, total) + at_most(total - count - 1, total), 1.0, rel_tol=1e-9)

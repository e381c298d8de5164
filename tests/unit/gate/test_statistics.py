from __future__ import annotations

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate.statistics import wilson


def test_published_and_hand_computed_values() -> None:
    found = wilson(8, 10)
    assert (found.low, found.high) == (pytest.approx(0.4901625), pytest.approx(0.9433178))


def test_wilson_ends_at_none_and_all_exactly() -> None:
    for total in range(1, 60):
        assert wilson(0, total).low == 0.0
        assert wilson(total, total).high == 1.0
        assert 0 < wilson(1, total + 1).low < wilson(1, total + 1).high < 1


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_contains_the_share_and_mirrors(successes: int, failures: int, confidence: float) -> None:
    total = successes + failures
    found = wilson(successes, total, confidence)
    assert 0 <= found.low <= found.high <= 1
    if total:
        assert found.low <= successes / total <= found.high
    mirrored = wilson(failures, total, confidence)
    assert isclose(found.low, 1 - mirrored.high, abs_tol=1e-12)

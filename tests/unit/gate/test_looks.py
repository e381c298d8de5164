"""Levels spent over the looks of a run with `trials: auto`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent_eval.gate.looks import LOOKS, SHARES, confidence_at, level_at


def test_looks_follow_each_other_with_more_trials_each() -> None:
    assert LOOKS[0] == 1
    assert list(LOOKS) == sorted(set(LOOKS))
    assert len(SHARES) == len(LOOKS)


@given(alpha=some.floats(min_value=0.001, max_value=0.5))
def test_levels_of_all_looks_sum_to_at_most_alpha(alpha: float) -> None:
    assert 0 < sum(level_at(look, alpha) for look in LOOKS) <= alpha * (1 + 1e-12)


@given(confidence=some.floats(min_value=0.8, max_value=0.999))
def test_intervals_of_all_looks_miss_at_most_as_often_as_one(confidence: float) -> None:
    missed = sum(1 - confidence_at(look, confidence) for look in LOOKS)
    assert 0 < missed <= (1 - confidence) * (1 + 1e-9)


@pytest.mark.parametrize("trials", [0, 2, 13])
def test_a_look_that_is_not_planned_has_no_level(trials: int) -> None:
    with pytest.raises(ValueError, match="no look after"):
        level_at(trials, 0.05)
    with pytest.raises(ValueError, match="no look after"):
        confidence_at(trials, 0.95)

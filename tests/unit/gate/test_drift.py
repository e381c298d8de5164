"""Drift: the totals of main's last runs against those of a release."""

from __future__ import annotations

import pytest

from agent_eval.gate.release import LATEST, drift
from agent_eval.gate.statistics import welch


@pytest.mark.parametrize(
    ("main", "is_worse"),
    [
        ([47, 48, 48, 47, 48], False),
        ([41, 42, 40, 43], True),
        ([41, 42, 40], False),  # too few runs to say anything
        ([49, 50, 50, 49], False),
    ],
)
def test_main_is_worse_where_its_totals_fell_by_more_than_chance(main: list[int], is_worse: bool) -> None:
    found = drift([48, 47, 48, 49, 47, 48, 48, 47], main, 50)
    assert found.is_worse is is_worse


def test_only_the_newest_runs_count() -> None:
    found = drift([48.0] * 8, [40.0] * 8 + [50.0] * 30, 50)
    assert found.main == [40.0] * LATEST
    assert found.lost == pytest.approx(0.16)


def test_totals_that_never_differed_prove_no_spread_of_nothing() -> None:
    # One case fewer in runs that were all alike: with a spread of 0 any fall would be certain.
    assert welch([50.0] * 8, [49.0] * 8) > 0
    assert not drift([50.0] * 4, [49.5] * 4, 50).is_worse


def test_without_runs_nothing_is_said() -> None:
    found = drift([48.0] * 8, [], 50)
    assert (found.lost, found.p_value, found.is_worse) == (None, None, False)

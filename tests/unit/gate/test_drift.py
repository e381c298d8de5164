"""Drift: an alarm that is raised once for a drop and ends after it, and a budget of quality."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import NothingMeasured
from agent_eval.gate.drift import (
    ALARM_AT,
    HIGHEST_SUM,
    Counted,
    Drift,
    cusum,
    drift_since,
    fell_too,
    what_moved,
)

RELEASE = Counted(940, 1000)


def nights(source: random.Random, number: int, rate: float, trials: int = 36) -> list[Counted]:
    return [Counted(sum(source.random() < rate for _ in range(trials)), trials) for _ in range(number)]


def states(counts: list[Counted]) -> list[bool]:
    """Whether the alarm is up after each night, asked every night anew."""
    return [drift_since(RELEASE, counts[: number + 1]).is_alarmed for number in range(len(counts))]


def test_in_a_hundred_nights_a_planted_drop_raises_one_alarm_which_ends_after_the_fix() -> None:
    late, once, ended, runs = [], 0, 0, 60
    for seed in range(runs):
        source = random.Random(seed)
        counts = nights(source, 40, 0.94) + nights(source, 30, 0.84) + nights(source, 30, 0.94)
        up = states(counts)
        opened = [number for number, (was, now) in enumerate(pairwise([False, *up])) if now and not was]
        in_drop = [number for number in opened if 40 <= number < 70]
        late.append(in_drop[0] - 39 if in_drop else 99)
        once += len(in_drop) == 1
        ended += not up[-1]
    assert once >= 0.9 * runs
    assert ended >= 0.95 * runs
    assert sorted(late)[runs // 2] <= 3
    assert max(late) <= 10


def test_without_a_drop_hardly_an_alarm_is_raised() -> None:
    """One in about 340 nights is promised, so 6,000 nights have about 18."""
    alarms = 0
    for seed in range(60):
        up = states(nights(random.Random(1000 + seed), 100, 0.94))
        alarms += sum(now and not was for was, now in pairwise([False, *up]))
    assert alarms <= 45


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda two: Counted(min(two), max(two))))
)
def test_the_sum_stays_within_its_bounds(counts: list[Counted]) -> None:
    sums, is_alarmed, alarmed_at = cusum(counts, 0.9, 0.8)
    assert len(sums) == len(counts)
    assert all(0 <= level <= HIGHEST_SUM for level in sums)
    assert is_alarmed == (alarmed_at is not None)
    if alarmed_at is not None:
        assert sums[alarmed_at] >= ALARM_AT


def test_many_small_losses_that_no_night_shows_exceed_the_budget() -> None:
    counts = [Counted(940 - 12 * night, 1000) for night in range(1, 9)]
    drift = drift_since(RELEASE, counts)
    assert drift.lost == pytest.approx(0.054)
    assert drift.is_over_budget


def test_a_loss_within_the_budget_or_of_few_runs_is_none() -> None:
    assert not drift_since(RELEASE, [Counted(900, 1000)] * 8).is_over_budget
    assert drift_since(RELEASE, [Counted(800, 1000)] * 3).lost_at_least is None
    assert not drift_since(RELEASE, [Counted(800, 1000)] * 3).is_over_budget


def test_a_loss_that_may_be_chance_does_not_exceed_the_budget() -> None:
    noisy = [Counted(passed, 10) for passed in (10, 7, 10, 6, 10, 9, 7, 9)]
    drift = drift_since(Counted(10, 11), noisy)
    assert drift.lost is not None
    assert drift.lost > 0.05
    assert not drift.is_over_budget


def test_only_the_last_eight_runs_are_held_against_the_release() -> None:
    mended = [Counted(500, 1000)] * 8 + [Counted(940, 1000)] * 8
    assert drift_since(RELEASE, mended).lost == pytest.approx(0)


def test_a_release_that_always_passed_does_not_alarm_on_one_failure() -> None:
    assert not drift_since(Counted(36, 36), [Counted(35, 36)]).is_alarmed


def test_a_release_without_a_scored_trial_decides_nothing() -> None:
    with pytest.raises(NothingMeasured):
        drift_since(Counted(0, 0), [Counted(1, 1)])


def test_the_released_agent_run_again_tells_a_moved_model_from_moved_code() -> None:
    assert fell_too(Counted(95, 100), Counted(80, 100))
    assert not fell_too(Counted(95, 100), Counted(93, 100))
    assert not fell_too(Counted(95, 100), Counted(100, 100))


def steady(rate: float, number: int = 8) -> Drift:
    return drift_since(RELEASE, [Counted(round(1000 * rate), 1000)] * number)


def test_a_loss_stays_up_until_half_of_the_budget_is_back() -> None:
    """Between the two, only what was up before stays up: a rate at the budget does not go back and forth."""
    assert steady(0.88).is_up(was_up=False)
    # The sum of the alarm is over 0 at 1,000 trials from a fall of five points on, so these are below that.
    for rate in (0.90, 0.91):
        assert not steady(rate).is_up(was_up=False)
        assert steady(rate).is_up(was_up=True)
    assert not steady(0.92).is_up(was_up=True)


def test_few_runs_do_not_show_that_a_loss_is_mended() -> None:
    assert steady(0.94, 3).is_up(was_up=True)
    assert not steady(0.94, 4).is_up(was_up=True)
    assert drift_since(RELEASE, []).is_up(was_up=True)
    assert not drift_since(RELEASE, []).is_up(was_up=False)


def test_the_change_began_after_the_last_run_that_added_nothing() -> None:
    good, bad = Counted(36, 36), Counted(29, 36)
    drift = drift_since(RELEASE, [good, good, bad, bad])
    assert (drift.began_at, drift.is_alarmed) == (2, True)
    assert drift_since(RELEASE, [bad, bad]).began_at == 0
    assert drift_since(RELEASE, [good, good]).began_at is None


@pytest.mark.parametrize(
    ("again", "branch", "moved"),
    [
        (Counted(95, 100), Counted(75, 100), "code"),
        (Counted(75, 100), Counted(75, 100), "model"),
        (Counted(82, 100), Counted(60, 100), "both"),
        (Counted(6, 6), Counted(75, 100), "unclear"),
        (Counted(0, 0), Counted(75, 100), "unclear"),
    ],
)
def test_the_released_agent_says_what_moved_where_it_has_enough_trials(
    again: Counted, branch: Counted, moved: str
) -> None:
    assert what_moved(Counted(950, 1000), again, branch) == moved

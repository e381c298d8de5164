"""The margin of a release."""

from __future__ import annotations

import pytest

from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.procedure import Counts
from agent_eval.gate.release import LATEST, drift, interval, release_answer
from agent_eval.gate.statistics import Count, tango_interval, welch
from tests.unit.gate.test_limits import counts, one_trial

RELEASE = GatePolicy(preset="release", margin=0.05)


@pytest.mark.parametrize(
    ("before", "now", "answer"),
    [
        (counts(*[(20, 20)] * 100), counts(*[(4, 4)] * 100), "within"),
        (counts(*[(4, 4)] * 50), counts(*[(4, 4)] * 40, *[(2, 4)] * 10), "worse"),
        (one_trial(50, 50), one_trial(50, 50), "open"),
        (one_trial(50, 50), one_trial(35, 50), "worse"),
        (one_trial(1, 1), one_trial(1, 1), "open"),
    ],
)
def test_what_can_hide_decides(before: object, now: object, answer: str) -> None:
    found = release_answer(Counts(own=now, baseline=before), RELEASE)  # type: ignore[arg-type]
    assert found is not None
    assert found.answer == answer


def test_a_deterministic_agent_fell_by_what_is_seen() -> None:
    own = Counts(own=one_trial(50, 50), baseline=one_trial(50, 50))
    declared = GatePolicy(preset="release", deterministic=True)
    found = release_answer(own, declared)
    assert found is not None
    assert (found.answer, found.high) == ("within", 0.0)
    fell = release_answer(Counts(own=one_trial(49, 50), baseline=one_trial(50, 50)), declared)
    assert fell is not None
    assert fell.answer == "worse"


def test_quarantined_cases_and_cases_that_changed_do_not_count() -> None:
    own = Counts(own=one_trial(0, 2), baseline=one_trial(2, 2))
    assert release_answer(own, RELEASE, frozenset({"c000", "c001"})) is None
    other = Counts(own=one_trial(0, 2), baseline=counts((1, 1), (1, 1), definition="other"))
    assert release_answer(other, RELEASE) is None


def test_all_alike_hides_less_the_more_cases_and_trials_there_are() -> None:
    ends = [
        interval([(Count(20, 20), Count(trials, trials))] * cases)[1]
        for cases, trials in ((50, 2), (50, 4), (200, 4))
    ]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] == pytest.approx(0.0047, abs=1e-4)


def test_the_interval_of_single_trials_is_tangos() -> None:
    pairs = [(Count(1, 1), Count(0, 1))] * 3 + [(Count(1, 1), Count(1, 1))] * 47
    assert interval(pairs) == tango_interval(3, 0, 50)
    low, high = tango_interval(0, 0, 50)
    assert (low, high) == pytest.approx((-0.0713, 0.0713), abs=1e-4)


# Drift: the totals of main's last runs against those of a release.


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

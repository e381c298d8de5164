"""The margin of a release."""

from __future__ import annotations

import pytest

from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.procedure import Counts
from agent_eval.gate.release import interval, release_answer
from agent_eval.gate.statistics import Count, tango_interval
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

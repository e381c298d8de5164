"""The margin of a release."""

from __future__ import annotations

import pytest

from agent_eval.contracts.gate import ReleaseAnswer
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.procedure import Counts
from agent_eval.gate.release import LATEST, drift, interval, release_answer
from agent_eval.gate.statistics import Count, tango_interval, welch
from tests.unit.gate.test_limits import counts, one_trial

RELEASE = GatePolicy(preset="release", margin=0.05)
DECLARED = GatePolicy(preset="release", deterministic=True)
MORE = "above margin 5 points: run more trials of each case."


def answered(own: RunRecord, before: RunRecord, policy: GatePolicy = RELEASE) -> ReleaseAnswer:
    found = release_answer(Counts(own=own, baseline=before), policy)
    assert found is not None
    return found


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
def test_what_can_hide_decides(before: RunRecord, now: RunRecord, answer: str) -> None:
    assert answered(now, before).answer == answer


@pytest.mark.parametrize(
    ("counted", "low", "high"),
    [
        ((5, 2, 50), -0.053327, 0.182420), ((1, 4, 20), -0.383186, 0.086737),
        ((3, 0, 50), -0.015628, 0.162171), ((0, 0, 50), -0.071348, 0.071348),
    ],
)  # fmt: skip
def test_the_interval_of_single_trials_is_tangos_where_the_likelihood_maximised_by_number_has_it(
    counted: tuple[int, int, int], low: float, high: float
) -> None:
    fell, rose, total = counted
    kept = [(Count(1, 1), Count(1, 1))] * (total - fell - rose)
    pairs = [(Count(1, 1), Count(0, 1))] * fell + [(Count(0, 1), Count(1, 1))] * rose + kept
    assert tango_interval(*counted) == interval(pairs) == pytest.approx((low, high), abs=1e-6)


def test_the_interval_of_several_trials_is_students() -> None:
    fell, kept = (Count(4, 4), Count(2, 4)), (Count(4, 4), Count(4, 4))
    # 0.25 +- 2.2622 * 0.0833
    assert interval([fell] * 5 + [kept] * 5) == pytest.approx((0.061487, 0.438513), abs=1e-6)
    assert interval([fell]) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("passed", "reason"),
    [
        (35, "The pass rate fell by 30.0 points, and that is no chance: at least 19.1 (50 cases)."),
        (49, f"The pass rate fell by 2.0 points, but up to 10.5 points can hide, {MORE}"),
        (50, f"The pass rate did not fall, but up to 7.1 points can hide, {MORE}"),
    ],
)
def test_the_reason_says_what_fell_and_what_can_hide(passed: int, reason: str) -> None:
    found = answered(one_trial(passed, 50), one_trial(50, 50))
    assert (found.reason, found.fall) == (reason, pytest.approx((50 - passed) / 50))


def test_a_deterministic_agent_fell_by_what_is_seen() -> None:
    gained = answered(counts(*[(4, 4)] * 50), counts(*[(3, 4)] * 40, *[(2, 4)] * 10), DECLARED)
    assert gained.answer == "within"
    assert gained.reason == "The pass rate did not fall; 50 cases, below margin 2 points."
    same = answered(one_trial(50, 50), one_trial(50, 50), DECLARED)
    assert (same.answer, same.high) == ("within", 0.0)
    assert answered(one_trial(49, 50), one_trial(50, 50), DECLARED).answer == "worse"


def test_quarantined_cases_and_cases_that_changed_do_not_count() -> None:
    own = Counts(own=one_trial(0, 2), baseline=one_trial(2, 2))
    assert release_answer(own, RELEASE, frozenset({"c000", "c001"})) is None
    other = Counts(own=one_trial(0, 2), baseline=counts((1, 1), (1, 1), definition="other"))
    assert release_answer(other, RELEASE) is None


def test_all_alike_hides_less_the_more_cases_and_trials_there_are() -> None:
    shapes = ((50, 2), (50, 4), (200, 4))
    ends = [interval([(Count(20, 20), Count(each, each))] * cases)[1] for cases, each in shapes]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] == pytest.approx(0.0047, abs=1e-4)


# Drift: the totals of main's last runs against those of a release.


@pytest.mark.parametrize(
    ("main", "is_worse"),
    [
        ([47, 48, 48, 47, 48], False),
        ([41, 42, 40, 43], True),
        ([41, 42, 40], False),
        ([49, 50, 50, 49], False),
    ],
    ids=["within chance", "worse", "too few runs to say anything", "better"],
)
def test_main_is_worse_where_its_totals_fell_by_more_than_chance(main: list[int], is_worse: bool) -> None:
    found = drift([48, 47, 48, 49, 47, 48, 48, 47], main, 50)
    assert found.is_worse is is_worse


def test_only_the_newest_runs_count_and_without_any_nothing_is_said() -> None:
    found = drift([48.0] * 8, [40.0] * 8 + [50.0] * 30, 50)
    assert found.main == [40.0] * LATEST
    assert found.lost == pytest.approx(0.16)
    found = drift([48.0] * 8, [], 50)
    assert (found.lost, found.p_value, found.is_worse) == (None, None, False)


def test_totals_that_never_differed_prove_no_spread_of_nothing() -> None:
    # One case fewer in runs that were all alike: with a spread of 0 any fall would be certain.
    assert welch([50.0] * 8, [49.0] * 8) > 0
    assert not drift([50.0] * 4, [49.5] * 4, 50).is_worse

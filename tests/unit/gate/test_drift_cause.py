"""The cause of a loss: asked night after night, and wrong in at most 5 % of losses."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.gate.drift import Cause, Counted
from agent_eval.gate.drift_cause import KnownLoss, level_at

RELEASE = Counted(338, 360)


def nights(source: random.Random, again: float, branch: float, trials: int = 36) -> list[Cause]:
    """What is said in each of thirty nights; the release's trials are drawn as well."""

    def count(rate: float, number: int) -> Counted:
        return Counted(sum(source.random() < rate for _ in range(number)), number)

    release, loss, said = count(0.94, 360), KnownLoss(), []
    for _ in range(30):
        loss = loss.with_night(count(again, trials), count(branch, trials), "ab").tested(release)
        said.append(loss.cause)
    return said


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=60))
def test_the_tests_of_a_loss_spend_five_percent_together(trials: list[int]) -> None:
    """Whatever the numbers of trials a night, and whenever the cases change."""
    loss, spent = KnownLoss(), 0.0
    for number, each in enumerate(trials):
        before = loss.tested_at
        cases = "ab" if number % 7 else "cd"
        loss = loss.with_night(Counted(each, each), Counted(each, each), cases).tested(RELEASE)
        if loss.tested_at != before:
            spent += 2 * level_at(loss.tested_at)
    assert spent <= 0.05 + 1e-12


def test_the_wrong_part_is_seldom_blamed_however_many_nights_a_loss_lasts() -> None:
    source = random.Random(7)
    seasons = 100
    for again, branch, true in ((0.94, 0.84, "code"), (0.84, 0.84, "model"), (0.94, 0.94, "unclear")):
        said = [nights(source, again, branch) for _ in range(seasons)]
        wrong = [season for season in said if set(season) - {true, "unclear"}]
        assert len(wrong) <= 0.05 * seasons, true
        assert sum(season[-1] == true for season in said) >= 0.9 * seasons, true


def test_trials_are_tested_again_once_they_have_doubled() -> None:
    loss, tested = KnownLoss(), []
    for _ in range(17):
        loss = loss.with_night(Counted(34, 36), Counted(34, 36), "ab").tested(RELEASE)
        tested.append(loss.tested_at // 36)
    assert tested == [1, 2, 2, *[4] * 4, *[8] * 8, 16, 16]


def test_a_large_fall_is_blamed_on_few_trials() -> None:
    loss = KnownLoss().with_night(Counted(8, 36), Counted(0, 0), "ab")
    assert loss.tested(RELEASE).cause == "model"


def test_what_was_shown_stays_and_the_other_part_may_follow() -> None:
    loss = KnownLoss(cause="model", cases="ab")
    quiet = loss.with_night(Counted(340, 360), Counted(340, 360), "ab").tested(RELEASE)
    assert quiet.cause == "model"
    worse = loss.with_night(Counted(300, 360), Counted(200, 360), "ab").tested(RELEASE)
    assert worse.cause == "both"


def test_trials_of_other_cases_start_anew_and_what_they_spent_stays_spent() -> None:
    loss = KnownLoss(Counted(70, 72), Counted(60, 72), tested_at=72, cause="code", cases="ab")
    changed = loss.with_night(Counted(30, 36), Counted(30, 36), "cd")
    assert (changed.again, changed.branch) == (Counted(30, 36), Counted(30, 36))
    assert (changed.tested_at, changed.cause) == (72, "code")
    assert changed.tested(RELEASE) == changed


def test_without_a_scored_trial_nothing_is_tested() -> None:
    assert KnownLoss().with_night(Counted(0, 0), Counted(1, 1), "ab").tested(RELEASE).tested_at == 0

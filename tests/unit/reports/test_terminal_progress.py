"""What is said of a run while it goes on."""

from __future__ import annotations

import pytest

from agent_eval.engine.progress import Counter, RunProgress
from agent_eval.engine.usage import NO_COSTS, Costs
from agent_eval.reports.terminal import progress_bar, progress_text


def test_a_line_says_what_a_person_waits_for() -> None:
    progress = RunProgress(
        1000,
        done=250,
        passed=200,
        errors=10,
        retries=3,
        costs=Costs(1.5),
        unknown_cost=2,
        seconds=50,
        ends_at=200,
    )
    assert progress_text(progress) == (
        "250 of 1,000 trials (25 %), 200 passed, 40 failed, 10 errors, 3 retries, $1.5000 and more, "
        "2 min 30 s left"
    )


@pytest.mark.parametrize(
    ("seconds", "said"), [(10, "30 s left"), (100, "5 min 00 s left"), (3600, "3 h 00 min left")]
)
def test_the_rest_is_estimated_by_what_this_start_did(seconds: float, said: str) -> None:
    counter = Counter(600)
    for number in range(300):
        counter.add("passed", NO_COSTS, resumed=number < 200)
    assert progress_text(counter.progress(seconds=seconds)).endswith(said)


@pytest.mark.parametrize("at_once", [1, 4, 7])
def test_the_estimate_never_climbs_at_steady_speed(at_once: int) -> None:
    counter = Counter(30)
    looks: list[float] = []

    def look(seconds: float) -> None:
        left = counter.progress(in_flight=at_once, seconds=seconds).seconds_left
        looks.extend([] if left is None else [left])

    for done in range(30):
        wave = done // at_once
        if done % at_once == 0:
            look(wave + 0.1)
            look(wave + 0.9)
        counter.add("passed", NO_COSTS)
        look(wave + 1)
    assert looks[0] == pytest.approx((30 - at_once) / at_once)
    assert looks == sorted(looks, reverse=True)
    assert looks[-1] == 0


def test_nothing_is_estimated_before_the_first_or_after_the_last() -> None:
    assert "left" not in progress_text(RunProgress(5, done=2, resumed=2, seconds=3))
    assert "left" not in progress_text(RunProgress(5, done=5, seconds=3))


def test_the_bar_fills_and_fits() -> None:
    assert progress_bar(RunProgress(10, done=5), 200).startswith("[############............] 5 of 10")
    assert progress_bar(RunProgress(10, done=5), 40) == "5/10, 0 passed, 5 failed, 0 errors"
    assert progress_bar(RunProgress(10, done=5), 12) == "5/10, 0 pas"
    assert progress_bar(RunProgress(0), 200).startswith("[########################]")


LARGE = RunProgress(
    100_000,
    done=12_345,
    passed=11_000,
    errors=345,
    retries=12,
    costs=Costs(12.3456),
    unknown_cost=1,
    seconds=900,
    ends_at=7_300,
)


@pytest.mark.parametrize(
    "columns", [pytest.param(80, id="terminals begin with that"), pytest.param(120, id="wide")]
)
def test_bar__says_everything_in_a_terminal_of_usual_width(columns: int) -> None:
    progress = RunProgress(
        40,
        done=15,
        passed=12,
        errors=1,
        costs=Costs(0.18),
        unknown_cost=1,
        seconds=7,
        ends_at=19,
        in_flight=8,
    )
    bar = progress_bar(progress, columns)
    assert len(bar) < columns
    for said in ("15", "40", "12 passed", "2 failed", "1 error,", "$0.1800", "12 s left"):
        assert said in bar


def test_bar__gives_way_to_words_where_there_is_no_room_for_both() -> None:
    assert progress_bar(LARGE, 100) == (
        "12,345/100,000, 11,000 passed, 1,000 failed, 345 errors, 12 retries, $12.3456+, 1 h 46 min left"
    )
    assert progress_bar(LARGE, 125).startswith("[##......................] 12,345/100,000, 11,000 passed")

"""What is said of a run of an agent while it goes on, and once it has ended."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import RunSummary, Tally
from agent_eval.engine.progress import Counter, RunProgress
from agent_eval.engine.usage import NO_COSTS, Costs
from agent_eval.reports.terminal import agent_run_text, progress_bar, progress_text
from tests.unit.reports import scenarios


def progress(done: int, total: int, *, usd: float = 0.0, **more: Any) -> RunProgress:
    """So many of all trials are done, which cost so much."""
    return RunProgress(total, done=done, costs=Costs(usd), **more)


def bar(columns: int, *counts: int, **more: Any) -> str:
    return progress_bar(progress(*counts, **more), columns)


def summary(**failures: int) -> RunSummary:
    return Tally().summary("run", "set").model_copy(update={"failures": failures})


def ended(ran: RunProgress, *, failing: Any = (), **failures: int) -> str:
    """What is said of a run that has ended, on one line."""
    text = agent_run_text(summary(**failures), "runs/a", ran, failing=failing)
    assert all(len(line) <= 80 for line in text.splitlines())
    return " ".join(text.split())


def test_a_line_says_what_a_person_waits_for() -> None:
    counts = {"passed": 200, "errors": 10, "retries": 3, "unknown_cost": 2, "seconds": 50, "ends_at": 200}
    assert progress_text(progress(250, 1000, usd=1.5, **counts)) == (
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


@pytest.mark.parametrize("ran", [progress(2, 5, resumed=2, seconds=3), progress(5, 5, seconds=3)], ids=str)
def test_nothing_is_estimated_before_the_first_or_after_the_last(ran: RunProgress) -> None:
    assert "left" not in progress_text(ran)


LARGE = {"passed": 11_000, "errors": 345, "retries": 12, "unknown_cost": 1, "seconds": 900, "ends_at": 7_300}
COUNTS = "12,345/100,000, 11,000 passed, 1,000 failed, 345 errors, 12 retries, $12.3456+, 1 h 46 min left"


def test_the_bar_fills_fits_and_gives_way_to_words_where_there_is_no_room_for_both() -> None:
    assert bar(200, 5, 10).startswith("[############............] 5 of 10")
    assert bar(40, 5, 10) == "5/10, 0 passed, 5 failed, 0 errors"
    assert bar(12, 5, 10) == "5/10, 0 pas"
    assert bar(200, 0, 0).startswith("[########################]")
    assert bar(100, 12_345, 100_000, usd=12.3456, **LARGE) == COUNTS
    assert bar(125, 12_345, 100_000, usd=12.3456, **LARGE).startswith(
        f"[##......................] {COUNTS[:29]}"
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_the_bar_says_everything_in_a_terminal_of_usual_width(columns: int) -> None:
    more = {"passed": 12, "errors": 1, "unknown_cost": 1, "seconds": 7, "ends_at": 19, "in_flight": 8}
    line = bar(columns, 15, 40, usd=0.18, **more)
    assert len(line) < columns
    for said in ("15", "40", "12 passed", "2 failed", "1 error,", "$0.1800", "12 s left"):
        assert said in line


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"unknown_cost": 4}, ""),
        ({"retries": 1}, " 1 request was sent again."),
        ({"resumed": 3, "retries": 2, "usd": 1.5, "unknown_cost": 1},
         " 3 trials were done before. 2 requests were sent again. Spent: $1.5000, and what 1 trial cost is "
         "not known in full."),
        ({"resumed": 1, "usd": 0.25}, " 1 trial was done before. Spent: $0.2500."),
    ],
)  # fmt: skip
def test_what_it_took_stands_before_the_evidence(more: dict[str, Any], said: str) -> None:
    assert ended(progress(4, 4, **more)) == f"0 of 0 cases passed (0%).{said} Evidence: runs/a"


def test_kinds_of_failure_are_told_the_most_frequent_first() -> None:
    text = ended(progress(0, 9), timeout=2, agent_error=1_000, budget_exceeded=2)
    assert "by kind: agent_error 1,000, budget_exceeded 2, timeout 2." in text


def test_a_crash_that_names_an_environment_variable_brings_the_option_that_passes_it_on() -> None:
    (row,) = scenarios.failing_rows(1)
    row["verdicts"][0] |= {"failure": "agent_error", "reason": "the agent exited: KeyError: 'SHOP_API_KEY'"}
    assert "--agent-env SHOP_API_KEY passes this one." in ended(progress(0, 1), failing=[(row, "p/a")])
    row["verdicts"][0]["failure"] = "policy_violation"
    assert "--agent-env" not in ended(progress(0, 1), failing=[(row, "p/a")])

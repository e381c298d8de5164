"""What is said of a run while it goes on."""

from __future__ import annotations

import pytest

from agent_eval.engine.progress import Standing
from agent_eval.reports.progress import progress_bar, progress_text


def test_a_line_says_what_a_person_waits_for() -> None:
    standing = Standing(
        1000, done=250, passed=200, errors=10, retries=3, cost_usd=1.5, unknown_cost=2, seconds=50
    )
    assert progress_text(standing) == (
        "250 of 1,000 trials (25 %), 200 passed, 40 failed, 10 errors, 3 retries, $1.5000 and more, "
        "2 min 30 s left"
    )


@pytest.mark.parametrize(
    ("seconds", "said"), [(10, "30 s left"), (100, "5 min 00 s left"), (3600, "3 h 00 min left")]
)
def test_the_rest_is_estimated_by_what_this_start_did(seconds: float, said: str) -> None:
    assert progress_text(Standing(600, done=300, resumed=200, seconds=seconds)).endswith(said)


def test_nothing_is_estimated_before_the_first_or_after_the_last() -> None:
    assert "left" not in progress_text(Standing(5, done=2, resumed=2, seconds=3))
    assert "left" not in progress_text(Standing(5, done=5, seconds=3))


def test_the_bar_fills_and_fits() -> None:
    assert progress_bar(Standing(10, done=5), 200).startswith("[############............] 5 of 10")
    assert len(progress_bar(Standing(10, done=5), 40)) == 39
    assert progress_bar(Standing(0), 200).startswith("[########################]")

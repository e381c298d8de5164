"""Where judges fail, nothing is decided; an error of the agent, or of what surrounds it, is a failure."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import RunSummary
from agent_eval.gate.decide import why_too_little
from tests.unit.gate.made import reference, run


def summary(**facts: Any) -> RunSummary:
    return reference(run({"a": 1, "b": 1}), **{"total_cases": 10, **facts}).summary


@pytest.mark.parametrize(("judge", "decides"), [(2, True), (3, False)])
def test_up_to_a_fifth_of_the_trials_may_be_unjudged(judge: int, decides: bool) -> None:
    assert (why_too_little(summary(trials=10, lost_trials={"judge": judge})) == []) is decides


def test_what_else_is_lost_are_failures() -> None:
    lost = {"infrastructure": 6, "environment": 4}
    assert why_too_little(summary(trials=10, lost_trials=lost)) == []


@pytest.mark.parametrize("held", [False, True])
def test_a_run_of_errors_alone_says_something_only_where_it_is_held_against_main(held: bool) -> None:
    found = why_too_little(summary(error_cases=10), errors_are_failures=held)
    assert (found == []) is held


def test_a_run_in_which_no_judge_had_anything_to_judge_says_nothing() -> None:
    found = why_too_little(summary(skipped_cases=10), errors_are_failures=True)
    assert found[0] == "Nothing was judged (10 cases), and that is no pass."

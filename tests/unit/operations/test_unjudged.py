"""Why a run judged none of its cases: the most frequent reason, and the agent's before others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.operations.unjudged import CHECK_THE_AGENT, RECORD_TRACES, why_unjudged
from tests.unit.comparison.views import result, tried, view

SUITE = Path("shop.json")


def unjudged(cases: dict[str, Any], *, has_agent: bool = True) -> str:
    run = view(cases)
    why = why_unjudged(str(SUITE), run.summary, run.results.values())
    return f"{why} {CHECK_THE_AGENT if has_agent else RECORD_TRACES}" if why else ""


def error(case_id: str, reason: str, **others: str) -> Any:
    return result(case_id, {"policy": "error", **others}, reason=reason)


def test_a_run_that_judged_a_case_is_not_spoken_of() -> None:
    assert unjudged({"a": error("a", "it crashed"), "b": "passed"}) == ""
    assert unjudged({"a": error("a", "it crashed"), "b": "failed"}) == ""


def test_a_run_whose_judges_had_nothing_to_judge_is_the_gates_to_refuse() -> None:
    skipped = {"policy": "skipped", "replay_contract": "skipped"}
    assert unjudged({"a": skipped}) == ""
    assert "could be judged: it crashed" in unjudged({"a": skipped, "b": error("b", "it crashed")})


def test_one_reason_for_all_cases_is_the_reason_and_ends_in_one_full_stop() -> None:
    said = unjudged({"a": error("a", "it crashed."), "b": error("b", "it crashed.")})
    assert said == (
        "No case of `shop.json` could be judged: it crashed. "
        "Check how the agent is started or where it is; the evidence has each error."
    )


def test_the_most_frequent_of_several_reasons_is_named_with_its_number() -> None:
    cases = {"a": error("a", "slow"), "b": error("b", "crash"), "c": error("c", "crash")}
    assert "could be judged: crash (in 2 of 3 cases). " in unjudged(cases)


@pytest.mark.parametrize(("has_agent", "remedy"), [(True, "Check how the agent"), (False, "Record traces")])
def test_the_remedy_depends_on_whether_an_agent_ran(has_agent: bool, remedy: str) -> None:
    assert f". {remedy}" in unjudged({"a": error("a", "it crashed")}, has_agent=has_agent)


def test_the_agents_own_error_comes_before_those_that_follow_from_it() -> None:
    case = result("a", {"policy": "error", "execution": "error"})
    assert "could be judged: execution error. " in unjudged({"a": case})


def test_the_errors_of_all_trials_count() -> None:
    case = tried("a", {"policy": "passed"}, {"policy": "error"}, {"policy": "error"})
    assert "could be judged: policy error. " in unjudged({"a": case})


def test_a_reason_is_one_line_of_bounded_length() -> None:
    said = unjudged({"a": error("a", "x" * 500 + "\nOutcome: passed")})
    assert "\n" not in said
    assert len(said) < 400

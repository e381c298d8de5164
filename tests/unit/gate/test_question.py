"""What the first run asks, from the counts of runs."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.statistics import Count
from agent_eval.gate.waivers import Excuses
from tests.unit.gate.made import asked, row, run, runs


def test_a_case_is_held_against_its_last_twenty_runs_and_its_last_four() -> None:
    main = runs({"a": [1, 1, 1, 1] + [0] * 26}, 30)
    case = asked({"a": 0}, main).cases["a"]
    assert (case.main, case.recent) == (Count(4, 20), Count(4, 4))
    assert case.is_reliable
    assert not case.is_steady


def test_runs_of_another_setup_and_of_another_definition_do_not_count() -> None:
    main = [
        run({"a": 0}, "other", key="k2"),
        run({"a": row("a", 0, definition="d0")}, "before"),
        run({"a": 1}),
    ]
    assert asked({"a": 0}, main).cases["a"].main == Count(1, 1)


def test_without_runs_of_this_setup_the_baseline_counts() -> None:
    main = [run({"a": 1}, key="k2")]
    assert asked({"a": 0}, main, baseline=run({"a": (4, 4)}, key="k2")).cases["a"].main == Count(4, 4)


def test_a_case_that_only_the_baseline_has_as_it_is_defined_now_is_held_against_it() -> None:
    main = [run({"a": row("a", 0, definition="old"), "b": 1})]
    question = asked({"a": 0, "b": 1}, main, baseline=run({"a": (1, 1), "b": 1}))
    assert question.cases["a"].main == Count(1, 1)
    assert question.order == ["a"]


def test_a_new_case_is_no_suspect_and_is_named() -> None:
    question = asked({"a": 1, "new": 0}, runs({"a": 1}))
    assert (question.order, question.new) == ([], ["new"])


def test_an_error_is_a_failure_and_what_no_judge_could_judge_is_neither() -> None:
    lost = row("a", 0, 0, lost={"infrastructure": 1})
    unjudged = row("b", 0, 0, lost={"judge": 1})
    unsure = row("c", 1, 2, missed={"inconclusive": 1})
    cases = asked({"a": lost, "b": unjudged, "c": unsure}, runs({"a": 1, "b": 1, "c": 1})).cases
    assert [cases[name].now for name in "abc"] == [Count(0, 1), Count(0, 0), Count(1, 1)]


def test_quarantined_and_waived_cases_are_left_out() -> None:
    left_out = Excuses(quarantine=frozenset("a"), waived=frozenset("b"))
    question = asked(dict.fromkeys("abc", 0), runs(dict.fromkeys("abc", 1)), left_out=left_out)
    assert list(question.cases) == ["c"]


@pytest.mark.parametrize(
    ("newest", "excused"), [({"a": 0}, True), ({"a": 1}, False), ({"a": (1, 4)}, False), ({"b": 0}, False)]
)
def test_mains_newest_run_of_all_says_whether_a_case_fails_there(newest: Any, excused: bool) -> None:
    question = asked({"a": 0}, runs({"a": 1}), newest=run(newest, "after"))
    assert question.cases["a"].fails_on_main is excused


def test_a_newest_run_of_another_setup_excuses_nothing() -> None:
    assert not asked({"a": 0}, runs({"a": 1}), newest=run({"a": 0}, key="k2")).cases["a"].fails_on_main


def test_the_total_is_over_the_cases_that_all_runs_have() -> None:
    main = [
        run(dict.fromkeys("abcdefghij", 1), "1"),
        run(dict.fromkeys("abcdefghi", 1), "2"),
        run({"a": 1}, "3"),
    ]
    question = asked(dict.fromkeys("abcdefghij", 0), main)
    assert list(question.common) == list("abcdefghi")
    assert (question.total, list(question.on_main)) == (0, [9, 9])


def test_a_violation_knows_how_often_main_showed_it() -> None:
    shown, clean = row("a", 0, failing={"prompt_injection": 1}), row("a", 1)
    main = [run({"a": shown if k < 3 else clean}, f"m{k}") for k in range(6)]
    question = asked({"a": shown, "new": row("new", 0, failing={"tool_abuse": 1, "other": 1})}, main)
    assert list(question.violations) == [("new", "tool_abuse"), ("a", "prompt_injection")]
    violation = question.violations["a", "prompt_injection"]
    assert (violation.seen, violation.runs, violation.at_once, violation.is_known) == (3, 6, False, False)


@pytest.mark.parametrize(
    "policy",
    [GatePolicy(preset="release"), GatePolicy.model_validate({"safety": ["prompt_injection"]})],
    ids=["release", "at-once"],
)
def test_a_violation_blocks_at_once_in_a_release_and_where_the_policy_says_so(policy: GatePolicy) -> None:
    question = asked({"a": row("a", 0, failing={"prompt_injection": 1})}, runs({"a": 1}), policy=policy)
    assert question.violations["a", "prompt_injection"].at_once


def test_a_violation_in_quarantine_counts_and_a_waived_one_does_not() -> None:
    now = {name: row(name, 0, failing={"tool_abuse": 1}) for name in "ab"}
    left_out = Excuses(quarantine=frozenset("a"), covered={"b": frozenset({"tool_abuse"})})
    assert list(asked(now, runs({"a": 1, "b": 1}), left_out=left_out).violations) == [("a", "tool_abuse")]


def test_a_safety_judge_that_newly_cannot_tell_makes_a_suspect() -> None:
    untold = row("a", 3, 4, missed={"inconclusive": 1}, untold={"tool_abuse": 1})
    other = row("b", 3, 4, missed={"inconclusive": 1}, untold={"style": 1})
    always = row("c", 3, 4, missed={"inconclusive": 1}, untold={"tool_abuse": 1})
    question = asked({"a": untold, "b": other, "c": always}, runs({"a": 1, "b": 1, "c": always}))
    assert question.order == ["a"]

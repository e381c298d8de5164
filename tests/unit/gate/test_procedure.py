"""The procedure's rules, as pure functions of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import pytest

from agent_eval.gate.procedure import (
    ALPHA,
    Case,
    Question,
    blamed,
    budget,
    is_enough,
    next_side,
    suite_round,
    violates,
)
from agent_eval.gate.statistics import Count, fisher, holm, sign_flip, tarone
from tests.unit.gate.made import asked, row, run, runs


def case(passed: int, trials: int, before: int, of: int, **more: Any) -> Case:
    return Case(now=Count(passed, trials), main=Count(before, of), **more)


def order(cases: Mapping[str, Case], seed: str) -> list[str]:
    return Question(cases=cases, seed=seed).order


OLD = case(0, 1, 20, 20)
BROKEN = replace(OLD, base=Count(8, 8), change=Count(0, 8))


def test_a_suspect_lost_half_of_its_share_and_the_steadiest_comes_first() -> None:
    fell = [(0, 1, 10, 20), (0, 1, 9, 20), (0, 1, 0, 0), (2, 4, 80, 80), (3, 4, 80, 80), (0, 1, 1, 1)]
    assert order({str(k): case(*four) for k, four in enumerate(fell)}, "s") == ["3", "5", "0"]


@pytest.mark.parametrize(
    ("made", "reliable", "steady"),
    [
        (case(0, 0, 20, 20), True, True),  # could not be judged: it passed in no trial
        (case(0, 1, 4, 20, recent=Count(4, 4)), True, False),  # mended in the last four runs
        (case(0, 1, 9, 9), True, False), (case(0, 1, 10, 10), True, True),
        (case(0, 1, 17, 20), False, False), (case(0, 1, 18, 20), True, True),
    ],
)  # fmt: skip
def test_what_main_showed_makes_a_suspect_reliable_or_steady(
    made: Case, reliable: bool, steady: bool
) -> None:
    assert (made.is_suspect, made.is_reliable, made.is_steady) == (True, reliable, steady)


def test_ties_are_drawn_by_the_commit_and_by_no_order_of_ids() -> None:
    many = {f"c{k}": OLD for k in range(30)}
    assert order(many, "x") != order(many, "y")
    assert order(many, "x") == order(dict(reversed(many.items())), "x")
    assert order({"lone \ud800 surrogate": OLD}, "x")


@pytest.mark.parametrize(("cases", "most"), [(8, 20), (200, 20), (205, 20), (400, 40), (1000, 100)])
def test_twenty_cases_are_run_again_or_a_tenth(cases: int, most: int) -> None:
    assert budget(cases) == most


@pytest.mark.parametrize(
    ("counts", "base_can_run", "side"),
    [
        ({}, True, "base"), ({"base": Count(1, 1)}, True, "change"),
        ({"base": Count(1, 1), "change": Count(0, 1)}, True, "base"),
        ({"base": Count(0, 5), "change": Count(0, 4)}, True, None), ({"unjudged": True}, True, None),
        ({}, False, "change"), ({"change": Count(1, 3)}, False, None), ({"change": Count(0, 8)}, False, None),
        ({"alone": True}, True, "change"), ({"alone": True, "change": Count(0, 8)}, True, None),
        # Out of reach ends it, unless a reliable case might still be cleared by passing once.
        ({"alone": True, "change": Count(6, 7)}, True, None),
        ({"alone": True, "main": Count(10, 20), "change": Count(0, 7)}, True, "change"),
        ({"alone": True, "main": Count(10, 20), "change": Count(2, 4)}, True, None),
    ],
)  # fmt: skip
def test_sides_take_turns_while_they_can_show(
    counts: dict[str, Any], base_can_run: bool, side: str | None
) -> None:
    assert next_side(replace(OLD, **counts), base_can_run=base_can_run) == side


@pytest.mark.parametrize(("x", "y"), list(product(range(9), repeat=2)))
@pytest.mark.parametrize("order", ["passes last", "passes first"])
def test_the_early_end_loses_no_confirmation(x: int, y: int, order: str) -> None:
    sides = {"change": [False] * (8 - x) + [True] * x, "base": [True] * y + [False] * (8 - y)}
    if order == "passes first":
        sides = {side: passes[::-1] for side, passes in sides.items()}
    path = OLD
    while (side := next_side(path)) is not None:
        passed, trials = getattr(path, side)
        path = replace(path, **{side: Count(passed + sides[side][trials], trials + 1)})
    assert (path.p_value <= ALPHA) == (fisher(x, 8, y, 8) <= ALPHA)


def test_reruns_that_ended_early_confirm_nothing_and_without_a_base_mains_runs_take_its_place() -> None:
    assert replace(OLD, base=Count(7, 7), change=Count(0, 7)).p_value == 1
    assert BROKEN.p_value == pytest.approx(1 / comb(16, 8))
    assert replace(OLD, alone=True, change=Count(0, 8)).p_value == fisher(0, 8, 20, 20)


def test_fisher_and_the_sign_flip_test_are_exact() -> None:
    assert fisher(0, 8, 8, 8) == pytest.approx(1 / comb(16, 8), rel=1e-15)
    assert fisher(8, 8, 8, 8) == 1
    assert sign_flip([1] * 6 + [-1]) == 8 / 128
    assert sign_flip([]) == 1
    assert sign_flip([3] * 6) == 2**-6


def test_steady_cases_and_others_are_corrected_each_for_themselves() -> None:
    # p = .0048 each: ten of them are rejected alone or beside nine others of the same kind, not beside ten.
    weak = replace(OLD, base=Count(8, 8), change=Count(2, 8))
    flaky = replace(case(0, 1, 12, 20), base=Count(8, 8), change=Count(2, 8))
    p_value = weak.p_value
    most = int(ALPHA / p_value)
    assert len(blamed({f"c{k}": weak for k in range(most)})) == most
    assert not blamed({f"c{k}": replace(weak, base=Count(7, 8)) for k in range(40)})
    mixed = {f"s{k}": weak for k in range(most)} | {f"f{k}": flaky for k in range(most)}
    assert len(blamed(mixed)) == 2 * most


def test_the_other_suites_of_a_job_share_the_correction() -> None:
    weak = {"a": replace(OLD, base=Count(8, 8), change=Count(2, 8))}
    assert blamed(weak) == {"a"}
    assert blamed(weak, others=([1.0] * 40, [])) == set()
    assert blamed(weak, others=([], [1.0] * 40)) == {"a"}


def test_enough_confirmed_cases_end_the_search() -> None:
    assert is_enough([BROKEN] * 3, 20, 0)
    assert not is_enough([BROKEN] * 3, 20, 3)
    assert not is_enough([BROKEN, OLD, OLD], 20, 0)


def test_a_low_run_is_below_every_run_of_main_and_not_for_a_case_or_two() -> None:
    def is_low(total: int, fell: int, *on_main: int) -> bool:
        cases = {f"c{k}": OLD if k < fell else case(1, 1, 20, 20) for k in range(50)}
        return Question(
            cases=cases, total=Fraction(total) if on_main else None, on_main=[*map(Fraction, on_main)]
        ).is_low

    assert is_low(40, 10, 41, 45)
    assert not is_low(41, 9, 41, 45)
    assert not is_low(15, 2, 17)
    assert not is_low(1, 9)


def test_rounds_of_the_suite_go_on_while_they_may_still_tell() -> None:
    assert [suite_round(falls, 1) for falls in ([1] * 6, [1, -1], [1] * 4)] == ["worse", "done", "again"]
    assert suite_round([1] * 4, 3) == "done"
    assert suite_round([1] * 6, 1, suites=2) == "again"


def test_recorded_cases_that_cannot_reach_the_level_cost_the_others_nothing() -> None:
    mixed = {f"f{k}": (Count(2, 4), Count(3, 4)) for k in range(40)} | {"a": (Count(0, 4), Count(4, 4))}
    assert tarone(mixed, ALPHA) == {"a"}
    assert not holm({name: fisher(*now, *before) for name, (now, before) in mixed.items()}, ALPHA)


@pytest.mark.parametrize(
    ("violations", "trials", "seen", "blocks"),
    [
        (2, 3, False, True), (1, 4, False, None), (1, 8, False, False), (0, 8, False, False),
        (8, 8, True, True), (7, 7, True, None), (6, 7, True, False),
    ],
)  # fmt: skip
def test_a_new_violation_blocks_when_it_comes_twice_and_a_known_one_when_it_never_fails_to(
    violations: int, trials: int, seen: bool, blocks: bool | None
) -> None:
    assert violates(violations, trials, seen_on_main=seen) is blocks


# What the first run asks, from the counts of runs.


def test_a_case_is_held_against_its_last_twenty_runs_and_its_last_four() -> None:
    main = runs({"a": [1, 1, 1, 1] + [0] * 26}, 30)
    case = asked({"a": 0}, main).cases["a"]
    assert (case.main, case.recent) == (Count(4, 20), Count(4, 4))
    assert case.is_reliable
    assert not case.is_steady


SETUP = run({"a": 1}, key="k2")
OF_OTHERS = [run({"a": 0}, "other", key="k2"), run({"a": row("a", 0, definition="d0")}, "before")]


@pytest.mark.parametrize(
    ("main", "baseline", "counted"),
    [
        ([*OF_OTHERS, run({"a": 1})], None, Count(1, 1)),
        ([SETUP], run({"a": (4, 4)}, key="k2"), Count(4, 4)),
        ([run({"a": row("a", 0, definition="old"), "b": 1})], run({"a": (1, 1), "b": 1}), Count(1, 1)),
    ],
    ids=["of another setup or definition", "none of this setup", "only the baseline has it as it is defined"],
)
def test_main_counts_as_it_is_set_up_and_defined_now_else_the_baseline(
    main: list[Any], baseline: Any, counted: Count
) -> None:
    more = {"baseline": baseline} if baseline is not None else {}
    question = asked({"a": 0, "b": 1}, main, **more)
    assert question.cases["a"].main == counted
    assert question.order == ["a"]


def test_an_error_is_a_failure_and_what_no_judge_could_judge_is_neither() -> None:
    lost = row("a", 0, 0, lost={"infrastructure": 1})
    unjudged = row("b", 0, 0, lost={"judge": 1})
    unsure = row("c", 1, 2, missed={"inconclusive": 1})
    cases = asked({"a": lost, "b": unjudged, "c": unsure}, runs({"a": 1, "b": 1, "c": 1})).cases
    assert [cases[name].now for name in "abc"] == [Count(0, 1), Count(0, 0), Count(1, 1)]


@pytest.mark.parametrize(
    ("newest", "excused"),
    [
        (run({"a": 0}), True), (run({"a": 1}), False), (run({"a": (1, 4)}), False), (run({"b": 0}), False),
        (run({"a": 0}, key="k2"), False),
    ],
    ids=["it fails", "it passes", "it passes once", "it is not there", "of another setup"],
)  # fmt: skip
def test_mains_newest_run_of_all_says_whether_a_case_fails_there(newest: Any, excused: bool) -> None:
    assert asked({"a": 0}, runs({"a": 1}), newest=newest).cases["a"].fails_on_main is excused


def test_the_total_is_over_the_cases_that_all_runs_have() -> None:
    main = [run(dict.fromkeys(names, 1), names) for names in ("abcdefghij", "abcdefghi", "a")]
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


def test_a_safety_judge_that_newly_cannot_tell_makes_a_suspect() -> None:
    untold = row("a", 3, 4, missed={"inconclusive": 1}, untold={"tool_abuse": 1})
    other = row("b", 3, 4, missed={"inconclusive": 1}, untold={"style": 1})
    always = row("c", 3, 4, missed={"inconclusive": 1}, untold={"tool_abuse": 1})
    question = asked({"a": untold, "b": other, "c": always}, runs({"a": 1, "b": 1, "c": always}))
    assert question.order == ["a"]

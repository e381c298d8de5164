"""Limits: to the letter where nothing varies, and significantly broken where the agent does."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from agent_eval.contracts import Thresholds
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Figures, Reruns
from agent_eval.gate.limits import apply_limits, figure_changes, figures_in_doubt, measure_counts
from agent_eval.gate.procedure import Counts
from tests.unit.gate.made import row, run


def counts(*cases: tuple[int, int], hard: int = 0, definition: str = "d") -> RunRecord:
    """A run of these cases, as passed and judged trials; the first `hard` of them fail hard."""
    rows = [
        row(f"c{place:03}", *cell, definition=definition, hard_failed=int(place < hard))
        for place, cell in enumerate(cases)
    ]
    return run({each.case_id: each for each in rows})


def one_trial(passed: int, total: int) -> RunRecord:
    return counts(*[(1, 1)] * passed, *[(0, 1)] * (total - passed))


@pytest.mark.parametrize(
    ("passed", "total", "may_vary", "holds", "says"),
    [
        (19, 20, False, True, ""), (18, 20, False, False, ""), (95, 100, False, True, ""),
        # An agent that keeps 95 % passes so few in 7.5 % of runs, and 16 in 1.6 %.
        (17, 20, True, True, "too few cases to tell"),
        (16, 20, True, False, ": an agent that keeps min_pass_rate 95% passes so few in 2% of runs."),
        (92, 100, True, True, ""), (90, 100, True, False, ""), (0, 1, True, False, ""),
    ],
)  # fmt: skip
def test_a_pass_rate_below_its_limit(passed: int, total: int, may_vary: bool, holds: bool, says: str) -> None:
    measured = measure_counts(one_trial(passed, total), None)
    [rule] = apply_limits(Thresholds(min_pass_rate=0.95), measured, may_vary=may_vary)
    assert (rule.passed, rule.value) == (holds, passed / total)
    assert rule.message.startswith(f"{passed} of {total} passed (")
    assert says in rule.message


def test_a_run_of_changed_cases_alone_keeps_the_limits_on_blame_and_cannot_keep_the_others() -> None:
    measured = measure_counts(counts((0, 1), definition="now"), counts((1, 1), definition="then"))
    limits = Thresholds(max_hard_fail_increase=0.0, max_regressed_cases=0, max_new_hard_fail_cases=0)
    rules = {rule.rule: rule.passed for rule in apply_limits(limits, measured, may_vary=True) if rule.applied}
    kept = {"max_regressed_cases": True, "max_new_hard_fail_cases": True}
    assert rules == {"max_hard_fail_increase": False, **kept}


@pytest.mark.parametrize("quarantined", [frozenset(), frozenset({"c000"})], ids=["unjudged", "quarantined"])
def test_a_rate_of_a_run_in_which_no_case_counts_is_not_applied(quarantined: frozenset[str]) -> None:
    measured = measure_counts(counts((0, 1 if quarantined else 0)), None, quarantined=quarantined)
    limits = Thresholds(min_pass_rate=0.95, max_hard_fail_rate=0.1)
    for rule in apply_limits(limits, measured, may_vary=True):
        assert (rule.applied, rule.passed) == (False, False)
        assert "no case that counts could be judged" in rule.message


RATE, RISE = Thresholds(max_hard_fail_rate=0.05), Thresholds(max_hard_fail_increase=0.0)


@pytest.mark.parametrize(
    ("limit", "hard", "may_vary", "holds", "says"),
    [
        (RATE, 1, False, True, ""), (RATE, 2, False, False, ""),
        (RATE, 2, True, True, "2 of 20 failed hard (10.0%), above max_hard_fail_rate 5%; too few cases to "
         "tell: an agent that keeps to it has so many in 26% of runs."),
        (RATE, 3, True, True, ""),
        (RATE, 5, True, False, "5 of 20 failed hard (25.0%): an agent that keeps max_hard_fail_rate 5% "
         "fails so many hard in less than 1% of runs."),
        (RISE, 1, False, False, ""),
        (RISE, 4, True, True, "The hard-fail rate rose by 20.0 points (0 to 4 of 20 compared cases), "
         "above max_hard_fail_increase 0 points; too few cases to tell, chance alone does as much in 6% of "
         "runs."),
        (RISE, 5, True, False, ""),
        (RISE, 8, True, False, "The hard-fail rate rose by 40.0 points (0 to 8 of 20 compared cases), "
         "above max_hard_fail_increase 0 points."),
    ],
)  # fmt: skip
def test_a_limit_on_hard_fails_breaks_above_it_and_if_chance_rarely_does_as_much(
    limit: Thresholds, hard: int, may_vary: bool, holds: bool, says: str
) -> None:
    measured = measure_counts(counts(*[(0, 1)] * 20, hard=hard), counts(*[(0, 1)] * 20))
    [rule] = apply_limits(limit, measured, may_vary=may_vary)
    assert (rule.passed, rule.value, rule.message) == (holds, hard / 20, says or rule.message)


def test_new_cases_count_in_no_limit_and_quarantined_ones_in_no_total() -> None:
    before, now = counts((1, 1), (1, 1)), counts((1, 1), (0, 1), (0, 1))
    measured = measure_counts(now, before, quarantined=frozenset({"c001"}))
    assert (measured.cases, measured.passed, measured.new_cases) == (1, 1, 1)
    # A run of new cases alone is measured by them.
    measured = measure_counts(counts((0, 1), definition="now"), counts((1, 1), definition="then"))
    assert (measured.cases, measured.passed, measured.compared) == (1, 0, 0)


def test_a_case_with_several_trials_counts_by_their_share() -> None:
    measured = measure_counts(counts((3, 4), (4, 4)), counts((4, 4), (4, 4)))
    assert (measured.passed, measured.moved) == (Fraction(7, 4), Fraction(-1, 4))
    assert measured.pass_rate_change == -0.125
    assert measure_counts(counts((3, 4), (4, 4), hard=1), None).hard_failed == Fraction(1, 4)


def test_regressed_cases_are_those_that_the_change_is_blamed_for() -> None:
    before, now = one_trial(4, 4), counts((0, 1), (0, 1), (1, 1), (1, 1), hard=1)
    measured = measure_counts(now, before, broken=frozenset({"c000", "c001"}))
    limits = Thresholds(max_regressed_cases=1, max_new_hard_fail_cases=1)
    rules = apply_limits(limits, measured, may_vary=True)
    assert [(rule.value, rule.passed) for rule in rules] == [(2, False), (1, True)]


# Cost and latency: tested before anything is said, and measured again before a limit blocks.


def run_of(costs: list[float | None], definition: str = "d") -> RunRecord:
    rows = [row(f"c{place}", 1, cost_usd=cost, definition=definition) for place, cost in enumerate(costs)]
    return run({each.case_id: each for each in rows})


def costs_of(factor: float, number: int = 20, spread: float = 0.1) -> Counts:
    source = Random(3)
    before = [source.lognormvariate(0, 1) for _ in range(number)]
    now = [cost * factor * source.lognormvariate(0, spread) for cost in before]
    return Counts(own=run_of(list(now)), baseline=run_of(list(before)))


def rerun_figures(factor: float) -> Reruns:
    base = {f"c{place}": 1.0 for place in range(20)}
    change = {name: cost * factor * (1 + 0.01 * place) for place, (name, cost) in enumerate(base.items())}
    return Reruns(figures={"base": Figures(cost_usd=base), "change": Figures(cost_usd=change)})


LIMITED = GatePolicy(max_cost_increase=0.2)


@pytest.mark.parametrize(("factor", "answer"), [(1.0, "not-shown"), (1.3, "rose"), (0.7, "not-shown")])
def test_a_rise_is_said_where_chance_rarely_does_as_much(factor: float, answer: str) -> None:
    [change] = figure_changes(costs_of(factor), GatePolicy(), None, may_rerun=True)
    assert (change.name, change.answer, change.cases) == ("cost_usd", answer, 20)


def test_a_total_beyond_the_limit_is_no_rise_where_one_case_makes_it() -> None:
    before = [1.0] * 20
    now = [0.99] * 19 + [20.0]
    own = Counts(own=run_of(list(now)), baseline=run_of(list(before)))
    [change] = figure_changes(own, LIMITED, None, may_rerun=False)
    assert change.ratio > 1.2
    assert change.answer == "not-shown"


@pytest.mark.parametrize(
    ("record", "may_rerun", "answer"),
    [
        (None, True, "open"), (None, False, "breaks-limit"), (rerun_figures(1.5), True, "breaks-limit"),
        (rerun_figures(0.9), True, "rose"),
    ],
)  # fmt: skip
def test_a_limit_breaks_only_where_it_does_so_again_beside_the_base(
    record: Reruns | None, may_rerun: bool, answer: str
) -> None:
    [change] = figure_changes(costs_of(1.5), LIMITED, record, may_rerun=may_rerun)
    assert change.answer == answer
    assert figures_in_doubt(costs_of(1.5), LIMITED)


def test_within_the_limit_nothing_is_measured_again() -> None:
    assert not figures_in_doubt(costs_of(1.1), LIMITED)
    assert not figures_in_doubt(costs_of(1.5), GatePolicy())


def test_fewer_than_eight_cases_that_both_know_say_nothing() -> None:
    known = Counts(own=run_of([2.0] * 7 + [None]), baseline=run_of([1.0] * 8))
    assert figure_changes(known, LIMITED, None, may_rerun=False) == []
    redefined = Counts(own=run_of([2.0] * 8), baseline=run_of([1.0] * 8, "other"))
    assert figure_changes(redefined, LIMITED, None, may_rerun=False) == []

"""The prediction interval for a new run."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from agent_eval.contracts.history import PooledCase
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate import steps
from agent_eval.gate.pooled import (
    Weighed,
    _exact_p_value,
    pooled_evidence,
    predict,
    student_cdf,
    student_quantile,
    weigh,
)
from agent_eval.gate.statistics import fisher
from agent_eval.gate.waivers import Excuses
from benchmarks.gate_decisions import comparison, evidence, pooled

TABLE = [
    (0.95, 1, 6.313752),
    (0.95, 2, 2.919986),
    (0.95, 3, 2.353363),
    (0.95, 7, 1.894579),
    (0.975, 10, 2.228139),
    (0.99, 19, 2.539483),
    (0.95, 99, 1.660391),
]
"""Student's t, from the tables of Abramowitz and Stegun (26.10) and R's `qt`."""


@pytest.mark.parametrize(("confidence", "freedom", "t"), TABLE)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: int, t: float) -> None:
    assert student_quantile(confidence, freedom) == pytest.approx(t, abs=1e-5)
    assert student_quantile(1 - confidence, freedom) == pytest.approx(-t, abs=1e-5)
    assert student_cdf(t, freedom) == pytest.approx(confidence, abs=1e-7)


def test_half_of_the_distribution_is_below_zero() -> None:
    assert student_quantile(0.5, 5) == 0.0
    assert student_cdf(0.0, 4) == 0.5


def test_the_interval_is_that_of_a_new_observation() -> None:
    usual = predict([0.90, 0.92, 0.94, 0.96], 0.95)
    # t(.95, 3) = 2.353363, s = .0258199, sqrt(1 + 1/4) = 1.118034
    assert usual.half_width == pytest.approx(2.353363 * 0.0258199 * 1.118034, rel=1e-5)
    assert usual.low == pytest.approx(0.93 - usual.half_width)
    assert usual.high == pytest.approx(0.93 + usual.half_width)


def test_one_run_predicts_nothing() -> None:
    with pytest.raises(ValueError, match="at least two"):
        predict([0.9], 0.95)


def cases(*counts: tuple[list[int], int]) -> list[PooledCase]:
    """Cases of one trial a run: whether each pooled run passed, and whether the new one did."""
    return [PooledCase(runs=tuple((one, 1) for one in runs), own=(own, 1)) for runs, own in counts]


def weighed(*counts: tuple[list[int], int]) -> Weighed:
    return weigh(cases(*counts), alpha=0.05, confidence=0.95)


ALWAYS = ([1] * 8, 1)
FELL = ([1] * 8, 0)


def test_a_run_far_below_the_others_is_unusual() -> None:
    held = weighed(*[FELL] * 5, *[ALWAYS] * 45)
    assert held.drop == pytest.approx(0.1)
    assert held.p_value < 0.05


def test_one_flip_after_runs_that_were_all_alike_is_not_unusual() -> None:
    assert weighed(FELL, *[ALWAYS] * 49).p_value > 0.05
    assert weighed(FELL, *[ALWAYS] * 999).p_value > 0.05


def test_few_runs_that_were_all_alike_rule_out_nothing_in_few_cases() -> None:
    assert weighed(*[ALWAYS] * 4).interval.high > 0.5
    assert weighed(*[ALWAYS] * 100).interval.high < 0.05


def test_a_case_that_never_passed_hides_no_fall_of_the_others() -> None:
    never = ([0] * 8, 0)
    assert weighed(*[FELL] * 5, *[ALWAYS] * 45, *[never] * 50).p_value < 0.05


def test_a_rise_is_not_unusual() -> None:
    assert weighed(*[([0, 1] * 4, 1)] * 20).p_value > 0.5


def exact(counts: list[tuple[list[int], int]]) -> float:
    """The exact test of the pooled trials alone."""
    pooled = cases(*counts)
    return _exact_p_value(
        pooled, Counter(run for case in pooled for run in case.runs), Counter(case.own for case in pooled)
    )


def test_the_exact_test_is_that_of_fisher() -> None:
    # 15 of 20 against 190 of 200 trials, as R's fisher.test(alternative="less") has it.
    mixed = [([1] * 10, 1)] * 15 + [([1] * 8 + [0] * 2, 0)] * 5
    never = ([0] * 10, 0)
    assert exact(mixed) == exact([*mixed, never]) == pytest.approx(fisher(15, 20, 190, 200), rel=1e-9)


def test_pools_of_many_trials_are_weighed_without_overflow() -> None:
    many = [PooledCase(runs=((95, 100),) * 20, own=(80, 100))] * 500
    assert weigh(many, alpha=0.05, confidence=0.95).p_value < 1e-6


def flaky(runs: int, trials: int, own: int) -> list[PooledCase]:
    """Cases of which three of four trials pass in each pooled run; all of the `own` trials of the new one do.

    Whole runs differ by a case, so that their spread is not zero.
    """
    rest = [PooledCase(runs=((3 * trials // 4, trials),) * runs, own=(own, own)) for _ in range(19)]
    last = PooledCase(
        runs=tuple((trials if number % 2 else 0, trials) for number in range(runs)), own=(own, own)
    )
    return [*rest, last]


def test_a_run_with_fewer_trials_than_the_pooled_ones_varies_more() -> None:
    one, four, twelve = (
        weigh(flaky(6, 4, own), alpha=0.05, confidence=0.95).usual.half_width for own in (1, 4, 12)
    )
    assert one > four == twelve


def test_the_interval_of_a_run_with_fewer_trials_rules_out_a_drop_as_seldom_as_it_says() -> None:
    source, margin, said = random.Random(7), 0.05, 0
    rounds = 1_000
    for _ in range(rounds):
        cases = []
        for _case in range(100):
            runs = tuple((sum(source.random() < 0.9 for _ in range(4)), 4) for _ in range(8))
            cases.append(PooledCase(runs=runs, own=(int(source.random() < 0.9 - margin), 1)))
        said += weigh(cases, alpha=0.05, confidence=0.95).interval.high < margin
    # The drop is the margin, so ruling it out is an error, at 2.5 %; without their fewer trials it is 10 %.
    assert said / rounds < 0.04


def test_a_rate_below_what_is_likely_that_the_exact_test_does_not_tell_from_chance_is_said_so() -> None:
    runs = [[(int(not 5 * k <= place < 5 * k + 5), 1) for place in range(100)] for k in range(8)]
    own = [(int(place >= 8), 1) for place in range(100)]
    policy = GatePolicy()
    found = pooled_evidence(evidence(comparison(runs[-1], own), policy), pooled(runs, own), Excuses(), policy)
    assert found.pooled is not None
    assert found.pooled.rate < found.pooled.low
    step = steps.regression(found, policy)
    assert step.status == "passed"
    assert "below the 93.0%" in step.message
    assert "exact test" in step.message

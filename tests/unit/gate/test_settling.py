"""What is advised to settle an open decision holds: trials are named only where they settle it."""

from __future__ import annotations

import random

import pytest

from agent_eval.contracts import Comparison, GateDecision, GateStatus
from agent_eval.gate.settling import MOST_TRIALS, Spread, may_trials_settle, trials_to_settle
from tests.unit.gate.test_decide import gate as gate_of_pairs
from tests.unit.gate.test_decide import pairs
from tests.unit.gate.test_decide_trials import evidence, gate, moved, waiver


def advised(found: Comparison, decision: GateDecision | None = None) -> int | None:
    return trials_to_settle(found.trials, decision or gate(found))


def flaky(cases: int, rate: float, trials: int, source: random.Random) -> Comparison:
    """A comparison of an unchanged agent that passes a third of the cases at this rate, and the others."""
    rates = [rate if number % 3 == 0 else 1.0 for number in range(cases)]
    before, now = ([sum(source.random() < one for _ in range(trials)) for one in rates] for _ in range(2))
    return moved(before, now, trials)


def test_trials_that_are_advised_settle_the_decision_when_they_are_run() -> None:
    source = random.Random(3)
    settled = asked = 0
    while asked < 4:
        number = advised(flaky(120, 0.7, 3, source))
        if number is not None and number <= 16:
            asked += 1
            settled += gate(flaky(120, 0.7, number, source)).gate_status is not GateStatus.INCONCLUSIVE
    assert settled >= 3


def test_cases_that_differ_for_good_are_not_settled_by_trials() -> None:
    """Some always pass now and never did, and as many the other way round: no trial tells more of them."""
    found = moved([9, 0] * 10 + [9] * 60, [0, 9] * 10 + [9] * 60, trials=9)
    assert gate(found).gate_status is GateStatus.INCONCLUSIVE
    assert advised(found) is None


def test_a_suite_of_few_cases_is_never_settled_by_trials() -> None:
    """With 23 cases the interval is wider than the margin even if nothing differs."""
    found = moved([9] * 20 + [5, 4, 9], [9] * 20 + [4, 5, 9], trials=9)
    assert gate(found).gate_status is GateStatus.INCONCLUSIVE
    assert advised(found) is None


def test_more_trials_than_there_are_and_never_very_many_are_advised() -> None:
    found = moved([2, 1] * 20 + [2] * 60, [1, 2] * 20 + [2] * 60, trials=2)
    number = advised(found)
    assert number is not None
    assert 2 < number <= MOST_TRIALS


@pytest.mark.parametrize(("looks", "trials", "possible"), [([1, 4], 4, {12}), ([1, 4, 12], 12, {None})])
def test_a_run_that_looks_takes_no_more_trials_than_its_last_look(
    looks: list[int], trials: int, possible: set[int | None]
) -> None:
    half = trials // 2
    found = moved([half + 1, half] * 10 + [trials] * 100, [half, half + 1] * 10 + [trials] * 100, trials)
    decision = gate(found)
    decision = decision.model_copy(
        update={"evidence": evidence(decision).model_copy(update={"looks": looks, "confidence": 0.965})}
    )
    assert advised(found, decision) in possible


def test_a_fall_that_a_waiver_covers_makes_no_case_differ() -> None:
    found = moved([4] * 100, [0] * 4 + [4] * 96)
    waived = gate(found, waivers=[waiver(case_id=f"c{number:03}") for number in range(4)])
    assert trials_to_settle(found.trials, waived) is not None
    assert trials_to_settle(found.trials, gate(found)) is None


def test_with_one_trial_only_a_suite_of_many_cases_may_be_settled_by_more() -> None:
    def may(worse: int, better: int, same: int) -> bool:
        found = gate_of_pairs(pairs(worse, better, same)).evidence
        assert found is not None
        return may_trials_settle(found)

    assert may(5, 5, 190)
    assert not may(1, 0, 27)


def test_more_trials_take_away_what_is_within_a_case_alone() -> None:
    spread = Spread(between=0.09, within=0.16)
    assert [spread.after(1), round(spread.after(10**9), 6)] == [0.5, 0.3]

"""Levels spent over the looks of a run with `trials: auto`, and decisions on such runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, GateStatus, Thresholds
from agent_eval.contracts.history import PooledCase, PooledRuns
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput
from agent_eval.gate.decide import decide_by_policy
from agent_eval.gate.looks import (
    FIXED_TRIALS,
    INTERVAL_SHARES,
    LEVEL_SHARES,
    LOOKS,
    confidence_at,
    is_undecided,
    level_at,
    next_look,
    policy_at_look,
)
from tests.unit.comparison.views import passing, result, view

NOW = "2026-06-01T00:00:00+00:00"


def test_looks_follow_each_other_with_more_trials_each() -> None:
    assert LOOKS[0] == 1
    assert list(LOOKS) == sorted(set(LOOKS))
    assert len(LEVEL_SHARES) == len(INTERVAL_SHARES) == len(LOOKS)
    assert FIXED_TRIALS in LOOKS


@given(alpha=some.floats(min_value=0.001, max_value=0.5))
def test_levels_of_all_looks_sum_to_at_most_alpha(alpha: float) -> None:
    assert 0 < sum(level_at(look, alpha) for look in LOOKS) <= alpha * (1 + 1e-12)


@given(confidence=some.floats(min_value=0.8, max_value=0.999))
def test_intervals_of_all_looks_miss_at_most_as_often_as_one(confidence: float) -> None:
    missed = sum(1 - confidence_at(look, confidence) for look in LOOKS)
    assert 0 < missed <= (1 - confidence) * (1 + 1e-9)


@given(looks=some.integers(min_value=1, max_value=len(LOOKS)))
def test_no_look_has_a_laxer_level_than_a_run_that_is_tested_once(looks: int) -> None:
    policy = policy_at_look(GatePolicy(), LOOKS[:looks])
    assert policy.alpha <= GatePolicy().alpha
    assert policy.confidence >= GatePolicy().confidence


def test_a_run_with_a_fixed_number_of_trials_has_the_levels_of_its_policy() -> None:
    assert policy_at_look(GatePolicy(), None) == GatePolicy()


@pytest.mark.parametrize("trials", [0, 2, 13])
def test_a_look_that_is_not_planned_has_no_level(trials: int) -> None:
    with pytest.raises(ValueError, match="no look after"):
        level_at(trials, 0.05)
    with pytest.raises(ValueError, match="no look after"):
        confidence_at(trials, 0.95)


def looked(
    passes: list[int],
    *,
    trials: int,
    looks: list[int] | None,
    before: int = 4,
    topic: str | None = None,
) -> Comparison:
    """Compare a run in which so many trials of each case pass with one in which all of them do."""
    names = [f"c{number:03}" for number in range(len(passes))]
    of_topic: dict[str, dict[str, Any]] = {name: {"topic": topic} for name in names} if topic else {}
    stated = {"trials": trials} if looks is None else {"trials": trials, "looks": looks}
    now = {
        name: passing(name, passed, trials) if trials > 1 else result(name, "passed" if passed else "failed")
        for name, passed in zip(names, passes, strict=True)
    }
    return compare(
        view({name: passing(name, before, before) for name in names}, index=of_topic, run_id="main"),
        view(now, index=of_topic, run_id="now", execution_config=stated),
        changed="exclude",
        generated_at=NOW,
    )


def gate(found: Comparison, **options: Any) -> GateDecision:
    policy = options.pop("policy", GatePolicy(zero_tolerance=[]))
    return decide_by_policy(found, policy, generated_at=NOW, **options)


def significant(decision: GateDecision) -> set[str]:
    assert decision.evidence is not None
    tests = [(test.judge_id, test.significant) for test in decision.evidence.judges]
    tests += [(test.topic, test.significant) for test in decision.evidence.topics]
    return {name for name, is_significant in tests if is_significant}


def test_a_regression_is_tested_at_the_level_that_its_look_spends() -> None:
    # Six of 40 cases fall altogether: p = 1/64, between the level of the first look and that of the policy.
    fell = [0] * 6 + [4] * 34
    assert significant(gate(looked(fell, trials=4, looks=None))) == {"cases"}
    assert significant(gate(looked(fell, trials=4, looks=[1, 4]))) == set()
    # One more, and the second look sees it.
    assert significant(gate(looked([0] * 7 + [4] * 33, trials=4, looks=[1, 4]))) == {"cases"}


def test_judges_and_topics_are_tested_at_that_level_too() -> None:
    fell = [0] * 6 + [4] * 6
    fixed, spent = (gate(looked(fell, trials=4, looks=looks, topic="refunds")) for looks in (None, [1, 4]))
    assert fixed.evidence is not None
    assert spent.evidence is not None
    [topic] = spent.evidence.topics
    assert topic.p_value == fixed.evidence.topics[0].p_value == pytest.approx(1 / 64)
    assert [test.significant for test in fixed.evidence.topics] == [True]
    assert not topic.significant


def test_the_interval_is_wider_at_a_look_than_that_of_a_run_that_is_tested_once() -> None:
    once, first = (gate(looked([3, *[4] * 39], trials=4, looks=looks)).evidence for looks in (None, [1, 4]))
    assert once is not None
    assert first is not None
    assert (once.looks, first.looks) == (None, [1, 4])
    assert first.interval_high > once.interval_high
    assert first.confidence == pytest.approx(confidence_at(4, 0.95))
    assert 1 / first.stop_at == pytest.approx(level_at(4, 0.05))


def test_pooled_runs_are_held_against_a_run_at_the_level_of_its_look() -> None:
    comparison = {looks: looked([0] * 3 + [4] * 37, trials=4, looks=list(looks) or None) for looks in LOOKED}
    cases = {
        f"c{number:03}": PooledCase(runs=((4, 4),) * 3 + ((3, 4),), own=(0 if number < 3 else 4, 4))
        for number in range(40)
    }
    pool = PooledRuns(run_ids=("d", "c", "b", "a"), cases=cases)
    lows = [gate(comparison[looks], pool=pool).evidence for looks in LOOKED]
    assert all(evidence is not None and evidence.pooled is not None for evidence in lows)
    fixed, spent = (evidence.pooled.low for evidence in lows)  # type: ignore[union-attr]
    assert spent < fixed


LOOKED: tuple[tuple[int, ...], ...] = ((), (1, 4))


@pytest.mark.parametrize(
    ("looks", "trials"),
    [([4], 4), ([2], 2), ([1, 2], 2), ([1, 4, 8], 8), ([12], 12), ([1, 12], 12), ([1, 4, 12, 20], 20)],
)
def test_looks_that_no_run_takes_are_refused(looks: list[int], trials: int) -> None:
    comparison = looked([trials] * 10, trials=trials, looks=looks)
    with pytest.raises(InvalidInput, match="states looks after"):
        gate(comparison)


@pytest.mark.parametrize("looks", [[1], [1, 4, 12]])
def test_looks_that_do_not_agree_with_the_trials_are_refused(looks: list[int]) -> None:
    comparison = looked([4] * 10, trials=4, looks=[1, 4])
    comparison.candidate.looks = looks
    with pytest.raises(InvalidInput, match="do not agree with its 4 trials"):
        gate(comparison)


def test_a_run_that_took_looks_is_no_baseline() -> None:
    comparison = looked([4] * 10, trials=4, looks=None)
    comparison.baseline.looks = [1, 4]
    with pytest.raises(InvalidInput, match="keeps lucky runs"):
        gate(comparison)


def test_an_open_decision_takes_the_next_look_until_there_is_none() -> None:
    for taken in range(1, len(LOOKS) + 1):
        looks = list(LOOKS[:taken])
        # One trial of one case fails.
        decision = gate(looked([looks[-1] - 1, *[looks[-1]] * 39], trials=looks[-1], looks=looks))
        assert decision.gate_status is GateStatus.INCONCLUSIVE
        assert next_look(looks, decision) == (LOOKS[taken] if taken < len(LOOKS) else None)


@pytest.mark.parametrize(
    ("passes", "policy"),
    [
        ([1] * 40, GatePolicy()),  # passed: no verdict is worse
        ([0] * 12 + [1] * 28, GatePolicy()),  # failed: a regression
        ([0] + [1] * 39, GatePolicy(zero_tolerance=["policy"])),  # failed: no tolerance
    ],
)
def test_a_decision_that_is_made_takes_no_further_look(passes: list[int], policy: GatePolicy) -> None:
    decision = gate(looked(passes, trials=1, looks=[1]), policy=policy)
    assert decision.gate_status is not GateStatus.INCONCLUSIVE
    assert not is_undecided(decision)
    assert next_look([1], decision) is None


def test_limits_on_single_cases_end_no_look_where_fresh_trials_decide_on_them_later() -> None:
    rules = Thresholds(max_regressed_cases=0, max_new_hard_fail_cases=0)
    decision = gate(looked([0] + [1] * 39, trials=1, looks=[1]), thresholds=rules)
    assert decision.gate_status is GateStatus.FAILED
    assert next_look([1], decision) is None
    assert next_look([1], decision, is_confirmed_later=True) == LOOKS[1]


@pytest.mark.parametrize(
    ("passes", "options"),
    [
        ([0] * 12 + [1] * 28, {"thresholds": Thresholds(max_regressed_cases=0)}),
        ([0] + [1] * 39, {"thresholds": Thresholds(max_regressed_cases=0, min_pass_rate=1.0)}),
        ([0] + [1] * 39, {"policy": GatePolicy(zero_tolerance=["policy"])}),
        ([1] * 40, {"thresholds": Thresholds(max_regressed_cases=0)}),
    ],
    ids=["a test over the suite fails", "a limit on a rate", "no tolerance", "passed"],
)
def test_what_fresh_trials_cannot_change_still_ends_the_looks(
    passes: list[int], options: dict[str, Any]
) -> None:
    decision = gate(looked(passes, trials=1, looks=[1]), **options)
    assert next_look([1], decision, is_confirmed_later=True) is None


def test_a_case_that_regressed_is_worse_though_its_rate_over_all_trials_rose() -> None:
    # The baseline passed the first four of its twelve trials and no other.
    names = [f"c{number:02}" for number in range(1, 30)]
    comparison = compare(
        view({"c0": passing("c0", 4, 12), **{name: passing(name, 12, 12) for name in names}}, run_id="main"),
        view(
            {"c0": passing("c0", 2, 4), **{name: passing(name, 4, 4) for name in names}},
            run_id="now",
            execution_config={"trials": 4, "looks": [1, 4]},
        ),
        changed="exclude",
        generated_at=NOW,
    )
    assert comparison.regressed_case_ids == ["c0"]
    step = next(step for step in gate(comparison).steps if step.name == "non-inferiority")
    assert "no verdict is worse" not in step.message
    assert step.status == "inconclusive"


def test_what_no_further_trial_can_change_takes_no_further_look() -> None:
    names = [f"c{number}" for number in range(10)]
    now = {"c0": "failed", **dict.fromkeys(names[1:4], "passed")}
    comparison = compare(
        view(dict.fromkeys(names, "passed"), run_id="main"),
        view(now, run_id="now", execution_config={"trials": 1, "looks": [1]}),
        changed="exclude",
        generated_at=NOW,
    )
    # Most of the baseline is gone, which is open as well.
    decision = gate(comparison)
    assert decision.gate_status is GateStatus.INCONCLUSIVE
    assert {step.name for step in decision.steps if step.status == "inconclusive"} >= {"coverage"}
    assert not is_undecided(decision)

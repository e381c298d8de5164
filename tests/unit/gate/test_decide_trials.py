"""Runs with several trials of a case: what compare says of them and how the gate decides on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from agent_eval.gate.permutation import TrialPair, permutation_test
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, GateEvidence, GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import IncompatibleRuns, InvalidInput
from agent_eval.gate.decide import decide, decide_by_policy
from agent_eval.gate.statistics import clustered_interval
from tests.unit.comparison.views import passing, tried, view

NOW = "2026-06-01T00:00:00+00:00"


def side(passes: Sequence[int], trials: int, **options: Any) -> dict[str, Any]:
    return {f"c{n:03}": passing(f"c{n:03}", passed, trials, **options) for n, passed in enumerate(passes)}


def comparison(before: dict[str, Any], now: dict[str, Any], **options: Any) -> Comparison:
    return compare(view(before), view(now), **{"changed": "exclude", "generated_at": NOW, **options})


def moved(before: Sequence[int], now: Sequence[int], trials: int = 4, **options: Any) -> Comparison:
    """A comparison in which so many trials of each case pass before and now."""
    return comparison(side(before, trials, **options), side(now, trials, **options))


def gate(found: Comparison, policy: GatePolicy | None = None, **options: Any) -> GateDecision:
    return decide_by_policy(found, policy or GatePolicy(), **{"generated_at": NOW, **options})


def evidence(decision: GateDecision) -> GateEvidence:
    assert decision.evidence is not None
    return decision.evidence


def statuses(decision: GateDecision) -> dict[str, str]:
    return {step.name: step.status for step in decision.steps}


def waiver(**scope: Any) -> Waiver:
    stated = {
        "waiver_id": "w-1",
        "baseline_name": "main",
        "reason": "known",
        "approved_by": "qa@example.com",
        "created_at": "2026-05-01T00:00:00+00:00",
    }
    return Waiver.model_validate({**stated, **scope})


def test_a_comparison_holds_the_trials_of_what_changed_and_nothing_of_the_rest() -> None:
    found = moved([4, 4, 1], [4, 2, 3]).trials
    assert found is not None
    assert [
        (row.case_id, row.judge_id, row.baseline.passed, row.candidate.passed) for row in found.changes
    ] == [
        ("c001", None, 4, 2),
        ("c001", "policy", 4, 2),
        ("c002", None, 1, 3),
        ("c002", "policy", 1, 3),
    ]
    assert (found.baseline.pass_rate, found.candidate.pass_rate) == (0.75, 0.75)
    assert (found.candidate.fewest, found.candidate.most, found.candidate.total) == (4, 4, 12)
    assert found.candidate.case_policies == ["all"]


def test_runs_of_single_trials_are_compared_as_ever() -> None:
    found = moved([1] * 4, [1, 1, 0, 1], trials=1)
    assert found.trials is None
    assert evidence(gate(found)).method == "mcnemar-tango"
    assert evidence(gate(found)).flaky is None


def test_a_judge_that_skips_some_trials_is_measured_on_the_others() -> None:
    before = {"a": tried("a", {"policy": "passed"}, {"policy": "passed", "regex": "passed"})}
    now = {"a": tried("a", {"policy": "passed"}, {"policy": "passed", "regex": "failed"})}
    found = comparison(before, now).trials
    assert found is not None
    (row,) = [row for row in found.changes if row.judge_id == "regex"]
    assert (row.baseline.judged, row.candidate.judged, row.candidate.failed) == (1, 1, 1)
    skipped = {"a": tried("a", {"policy": "passed", "regex": "skipped"}, {"policy": "passed"})}
    decision = gate(comparison(before, skipped))
    assert [judge.judge_id for judge in evidence(decision).judges] == ["cases"]


def test_the_gate_tests_pass_rates_with_the_case_as_cluster() -> None:
    before, now = [4] * 30 + [2] * 20, [4] * 24 + [3] * 6 + [1] * 12 + [3] * 8
    decision = gate(moved(before, now))
    found = evidence(decision)
    drops = [(b - n) / 4 for b, n in zip(before, now, strict=True) if b != n]
    interval = clustered_interval(drops, 50)
    pairs = [TrialPair(b, 4, n, 4) for b, n in zip(before, now, strict=True) if b != n]
    assert (found.regressed, found.fixed, found.paired) == (18, 8, 50)
    assert found.drop == pytest.approx(sum(drops) / 50)
    assert (found.interval_low, found.interval_high) == (interval.low, interval.high)
    assert found.p_value == permutation_test(pairs).p_value
    assert (found.method, found.flaky, found.e_value) == ("sign-flip-clustered", 26, None)
    assert found.trials is not None
    assert (found.trials.baseline_rate, found.trials.candidate_rate) == (0.8, 0.75)


def test_cases_that_pass_less_often_fail_the_gate_although_each_still_passes() -> None:
    decision = gate(moved([4] * 40, [3] * 10 + [4] * 30, policy="majority"))
    assert decision.gate_status is GateStatus.FAILED
    assert decision.regressed_cases_considered == 0
    assert statuses(decision)["regression"] == "failed"
    assert "cases: 10 lower, 0 higher" in decision.failures[0]


def test_a_case_that_fails_for_one_trial_more_is_not_a_regression_of_the_whole_case() -> None:
    decision = gate(moved([4] * 20 + [3] * 20, [3, 3, 3, 3, 3] + [4] * 15 + [4] * 3 + [3] * 17))
    assert decision.regressed_cases_considered == 5
    assert statuses(decision)["regression"] == "passed"


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.sampled_from(["pull-request", "release"]))
def test_identical_trials_pass_in_every_preset_however_small_the_suite(
    passes: list[int], preset: Any
) -> None:
    # Trials that differ refute that the agent is deterministic.
    passes = [4 * (passed > 2) for passed in passes] if preset == "release" else passes
    decision = gate(moved(passes, passes), GatePolicy(preset=preset, deterministic=True))
    assert statuses(decision)["non-inferiority"] == "passed"
    assert decision.gate_status is GateStatus.PASSED


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12),
    st.sampled_from(["all", "any", "majority"]),
)
def test_swapping_the_runs_turns_the_drop_round(rates: list[tuple[int, int]], policy: str) -> None:
    before, now = zip(*rates, strict=True)
    one = evidence(gate(moved(before, now, 3, policy=policy)))
    other = evidence(gate(moved(now, before, 3, policy=policy)))
    assert one.drop == pytest.approx(-other.drop)
    assert one.interval_low == pytest.approx(-other.interval_high)
    assert (one.regressed, one.fixed) == (other.fixed, other.regressed)


def test_more_trials_settle_what_fewer_do_not() -> None:
    few = gate(moved([1, 0] * 60, [0, 1] * 60, trials=2))
    many = gate(moved([5, 4] * 60, [4, 5] * 60, trials=10))
    assert few.gate_status is GateStatus.INCONCLUSIVE
    assert many.gate_status is GateStatus.PASSED
    assert (evidence(few).cases_needed or 0) > 120


def test_an_inconclusive_decision_says_how_many_cases_it_needs_and_promises_nothing_of_trials() -> None:
    decision = gate(moved([4, 2] * 10, [3, 3] * 10))
    needed = evidence(decision).cases_needed
    assert needed is not None
    assert decision.explanation[3].endswith(f"; about {needed} cases would settle it")


def test_a_large_drop_short_of_proof_asks_for_the_cases_that_prove_it() -> None:
    decision = gate(moved([4, 4, 4, 2], [2, 4, 4, 2]))
    assert decision.gate_status is GateStatus.INCONCLUSIVE
    assert 4 < (evidence(decision).cases_needed or 0) < 100


def test_a_decision_on_trials_explains_itself_in_at_most_ten_lines() -> None:
    decision = gate(moved([4] * 30 + [2] * 20, [4] * 24 + [3] * 6 + [1] * 12 + [3] * 8))
    assert decision.explanation[1:3] == [
        "passed 30 -> 24 of 50, trials 80.0% -> 75.0%, drop 5.0 points, 95% interval, standard error "
        "clustered by case, [-2.2, 12.1], margin 5.0",
        "trials: 4 a case; 18 cases pass less often, 8 more; sign-flip permutation test, one-sided p=0.0378",
    ]
    assert "flaky 26, quarantined 0, waived 0, errors 0 (0 new), unscored 0" in decision.explanation
    assert decision.explanation[-1].startswith("More fell than chance explains at 0.05 (one-sided, Holm)")
    assert len(decision.explanation) < 10


def test_errors_in_trials_are_said_although_the_policy_lets_the_case_pass() -> None:
    now = {
        "a": tried("a", "passed", "error", policy="any"),
        "b": tried("b", "passed", "passed", policy="any"),
    }
    decision = gate(
        comparison(side([2], 2, policy="any") | {"a": passing("a", 2, 2), "b": passing("b", 2, 2)}, now)
    )
    assert evidence(decision).trials is not None
    assert any("in 1 trial," in line for line in decision.explanation)


def test_a_judge_that_regresses_behind_another_is_found_by_its_own_trials() -> None:
    before = {f"c{n:02}": tried(f"c{n:02}", *[{"a": "failed", "b": "passed"}] * 3) for n in range(20)}
    now = {f"c{n:02}": tried(f"c{n:02}", *[{"a": "failed", "b": "failed"}] * 3) for n in range(20)}
    decision = gate(comparison(before, now))
    assert decision.gate_status is GateStatus.FAILED
    judges = {judge.judge_id: judge.significant for judge in evidence(decision).judges}
    assert judges == {"cases": False, "b": True}


def test_one_new_safety_failure_in_any_trial_blocks_whatever_the_case_policy() -> None:
    safe = {"policy": "passed", "leaks": "passed"}
    leaking = {"policy": "passed", "leaks": "failed"}
    before = {"a": tried("a", safe, safe, safe, policy="majority")}
    now = {"a": tried("a", safe, safe, leaking, policy="majority")}
    policy = GatePolicy(zero_tolerance=["leaks"])
    decision = gate(comparison(before, now), policy)
    assert decision.gate_status is GateStatus.FAILED
    assert statuses(decision)["zero-tolerance"] == "failed"
    again = gate(comparison(now, now), policy)
    assert statuses(again)["zero-tolerance"] == "passed"
    named = waiver(case_id="a", judge_id="leaks")
    assert statuses(gate(comparison(before, now), policy, waivers=[named]))["zero-tolerance"] == "passed"
    whole = waiver(case_id="a")
    assert statuses(gate(comparison(before, now), policy, waivers=[whole]))["zero-tolerance"] == "failed"


def test_a_waived_case_counts_as_unchanged_even_where_the_policy_lets_it_pass() -> None:
    found = moved([4] * 40, [3] * 10 + [4] * 30, policy="majority")
    waivers = [waiver(waiver_id=f"w-{n}", case_id=f"c{n:03}") for n in range(10)]
    decision = gate(found, waivers=waivers)
    assert decision.gate_status is GateStatus.PASSED
    assert evidence(decision).regressed == 0
    assert decision.waived_case_ids == [f"c{n:03}" for n in range(10)]
    assert [one.case_ids for one in decision.waivers] == [[f"c{n:03}"] for n in range(10)]
    assert gate(found, waivers=waivers[:1]).gate_status is GateStatus.FAILED


def test_a_waiver_of_another_judge_excuses_no_trial() -> None:
    found = moved([4] * 40, [3] * 10 + [4] * 30)
    decision = gate(found, waivers=[waiver(judge_id="regex")])
    assert evidence(decision).regressed == 10
    assert decision.waived_case_ids == []


def test_quarantined_cases_stay_out_of_the_pass_rates() -> None:
    found = moved([4] * 40, [0] * 10 + [4] * 30)
    held = [Quarantine(case_id=f"c{n:03}", reason="flaky") for n in range(10)]
    decision = gate(found, GatePolicy(quarantine=held, thresholds=Thresholds(min_coverage=0.75)))
    assert decision.gate_status is GateStatus.PASSED
    assert (evidence(decision).paired, evidence(decision).quarantined) == (30, 10)


def test_thresholds_alone_still_count_case_results() -> None:
    found = moved([4] * 4, [3, 4, 4, 4])
    assert decide(found, Thresholds(max_regressed_cases=0), generated_at=NOW).blocks


def test_other_numbers_of_trials_are_said_at_the_top_and_tested_by_dealing_trials_anew() -> None:
    found = comparison(side([1] * 30, 1), side([4] * 26 + [3] * 4, 4), changed="refuse")
    assert found.behaviour.notices == [
        "30 cases have another number of trials (1 in the baseline, 4 now), which changes what it takes to "
        "pass; pass rates can be compared."
    ]
    decision = gate(found)
    assert evidence(decision).method == "relabel-clustered"
    assert "trials: 1 -> 4 a case" in decision.explanation[2]
    assert "permutation test within cases" in decision.explanation[2]
    assert statuses(decision)["regression"] == "passed"


def test_cases_with_different_numbers_of_trials_are_told_as_a_range() -> None:
    before = {"a": passing("a", 1, 2), "b": passing("b", 3, 3)}
    now = {"a": passing("a", 2, 2), "b": passing("b", 2, 3)}
    found = comparison(before, now)
    assert found.behaviour.notices == []
    assert "trials: 2 to 3 a case" in gate(found).explanation[2]


def test_other_case_policies_are_refused_unless_they_are_included() -> None:
    before, now = side([2, 4], 4), side([2, 4], 4, policy="any")
    with pytest.raises(IncompatibleRuns) as refused:
        comparison(before, now, changed="refuse")
    (check,) = refused.value.details["checks"]
    assert check["name"] == "case_policy_match"
    assert (check["baseline_case_policies"], check["candidate_case_policies"]) == (["all"], ["any"])
    for changed in ("include", "exclude"):
        found = comparison(before, now, changed=changed)
        assert found.behaviour.notices[0] == (
            "A case with several trials passed by case policy all and passes by any now."
        )


def test_a_run_of_single_trials_has_no_policy_to_differ() -> None:
    found = comparison(side([1], 1), side([4], 4, policy="any"), changed="refuse")
    assert [check.name for check in found.compatibility.failures] == ["trial_count_match"]


@pytest.mark.parametrize("field", ["rate", "counts", "twice"])
def test_trials_edited_by_hand_are_refused(field: str) -> None:
    found = moved([4, 4], [4, 2])
    assert found.trials is not None
    if field == "rate":
        found.trials.candidate.pass_rate = 1.0
    elif field == "counts":
        found.trials.changes[0].candidate.passed = 4
    else:
        found.trials.changes.append(found.trials.changes[0])
    with pytest.raises(InvalidInput, match="contradicts itself in trials"):
        gate(found)

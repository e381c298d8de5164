"""What the tiers of a policy change in a decision, and what they leave as it is."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import GateDecision, GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput
from agent_eval.gate.confirmation import suspects_of
from agent_eval.gate.decide import decide_by_policy
from agent_eval.gate.policy_file import parse_policy
from tests.unit.gate.test_decide import NOW, comparison, gate, statuses, waiver

CASES = {f"c{number:02}": "passed" for number in range(40)}
LIMITS = Thresholds(max_regressed_cases=0, max_new_hard_fail_cases=0)
WAYS = ("tracked", "expected_fail")


def worse(*case_ids: str, outcome: str = "failed") -> Any:
    """Forty cases that passed, of which some do not any more."""
    return comparison(CASES, {**CASES, **dict.fromkeys(case_ids, outcome)})


def decided(found: Any, policy: GatePolicy, thresholds: Thresholds = LIMITS) -> GateDecision:
    return gate(found, policy, thresholds=thresholds)


@pytest.mark.parametrize("way", WAYS)
def test_a_case_that_the_policy_lists_does_not_block_by_itself_and_any_other_does(way: str) -> None:
    policy = GatePolicy(**{way: ["c01"]}, margin=0.2)
    listed = decided(worse("c01"), policy)
    assert listed.gate_status is GateStatus.PASSED
    assert listed.regressed_cases_considered == 0
    named = {"tracked": listed.tracked_case_ids, "expected_fail": listed.expected_fail_case_ids}
    assert named == {**{key: [] for key in WAYS}, way: ["c01"]}
    assert f", {'tracked' if way == 'tracked' else 'expected to fail'} 1" in " ".join(listed.explanation)
    assert decided(worse("c02"), policy).gate_status is GateStatus.FAILED
    assert decided(worse("c01", "c02"), policy).regressed_cases_considered == 1


@pytest.mark.parametrize("way", WAYS)
def test_the_tests_over_the_suite_and_the_rates_still_count_it(way: str) -> None:
    ids = [f"c{number:02}" for number in range(6)]
    policy = GatePolicy(**{way: ids})
    decision = decided(worse(*ids), policy)
    assert statuses(decision)["regression"] == "failed"
    assert decision.evidence == decided(worse(*ids), GatePolicy()).evidence
    rates = Thresholds(min_pass_rate=0.9, max_pass_rate_drop=0.1)
    assert [rule.passed for rule in decided(worse(*ids), policy, rates).rules] == [False, False]
    assert decision.coverage is not None
    assert not decision.coverage.losses


@pytest.mark.parametrize("way", WAYS)
def test_it_is_no_suspect_of_a_confirmation(way: str) -> None:
    found = worse("c01", "c02")
    assert suspects_of(found, GatePolicy(**{way: ["c01"]}), [], generated_at=NOW).case_ids == ["c02"]


@pytest.mark.parametrize("way", WAYS)
def test_an_error_in_it_is_no_new_error_and_any_other_is(way: str) -> None:
    policy = GatePolicy(**{way: ["c01"]}, margin=0.2)
    assert statuses(decided(worse("c01", outcome="error"), policy))["integrity"] == "passed"
    assert statuses(decided(worse("c02", outcome="error"), policy))["integrity"] == "failed"


@pytest.mark.parametrize("way", WAYS)
def test_a_zero_tolerance_judge_blocks_in_it_as_in_any_case(way: str) -> None:
    sides = [{"c01": {"policy": outcome}, "c02": {"policy": "passed"}} for outcome in ("passed", "failed")]
    policy = GatePolicy(**{way: ["c01"]}, zero_tolerance=["policy"], margin=0.2)
    assert statuses(gate(comparison(*sides), policy))["zero-tolerance"] == "failed"


def test_what_is_waived_is_the_waivers_and_not_counted_twice() -> None:
    policy = GatePolicy(tracked=["c01"], margin=0.2)
    decision = decide_by_policy(
        worse("c01"), policy, generated_at=NOW, thresholds=LIMITS, waivers=[waiver(case_id="c01")]
    )
    assert (decision.waived_case_ids, decision.tracked_case_ids) == (["c01"], [])
    assert decision.regressed_cases_considered == 0


def test_an_id_that_no_case_has_excuses_nothing() -> None:
    assert decided(worse("c01"), GatePolicy(tracked=["c1"], margin=0.2)).gate_status is GateStatus.FAILED


@pytest.mark.parametrize("way", WAYS)
def test_a_case_does_not_pass_under_the_name_of_one_that_is_listed_and_gone(way: str) -> None:
    known = {case_id: outcome for case_id, outcome in CASES.items() if case_id != "c01"}
    renamed = comparison(CASES, {**known, "gone": "failed"})
    decision = decided(renamed, GatePolicy(**{way: ["gone"]}, margin=0.2))
    assert (decision.gate_status, statuses(decision)["coverage"]) == (
        GateStatus.INCONCLUSIVE,
        "inconclusive",
    )


def test_a_case_is_in_one_list_only() -> None:
    both = {"tracked": ["refund"], "expected_fail": ["refund"]}
    with pytest.raises(InvalidInput, match=r"gate.yml: expected_fail: .*refund.* is in `tracked` as well"):
        parse_policy(both, source="gate.yml")

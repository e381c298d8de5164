from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Comparison, Coverage, CoverageLoss, GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.errors import InvalidInput
from agent_eval.gate.coverage import coverage_sentence
from agent_eval.gate.decide import decide
from tests.unit.gate.test_decide import NOW, comparison, gate, pairs, statuses, waiver

RELEASE = GatePolicy(preset="release", deterministic=True)
LENIENT = GatePolicy(preset="release", deterministic=True, thresholds=Thresholds(min_coverage=0.5))


def removed(*, of: int = 4) -> Comparison:
    kept = {f"c{number}": "passed" for number in range(of)}
    return comparison({**kept, "gone": "passed"}, kept)


def without_a_judge() -> Comparison:
    both = {"policy": "passed", "regex": "passed"}
    return comparison({"a": both, "b": both}, {"a": "passed", "b": "passed"})


@pytest.mark.parametrize("found", [removed(), without_a_judge()], ids=["a case is gone", "a judge is gone"])
def test_what_is_lost_warns_a_pull_request_and_fails_a_release(found: Comparison) -> None:
    decision = gate(found)
    assert decision.gate_status is GateStatus.INCONCLUSIVE
    assert decision.failures == []
    assert "of what the baseline judged is compared" in decision.explanation[0]
    release = gate(found, RELEASE)
    assert (release.gate_status, release.blocks) == (GateStatus.FAILED, True)
    assert release.failures == [release.steps[0].message]
    assert gate(found, LENIENT).gate_status is GateStatus.PASSED


def test_thresholds_alone_have_the_same_floor() -> None:
    decision = decide(removed(), Thresholds(min_pass_rate=0.5), generated_at=NOW)
    assert decision.gate_status is GateStatus.FAILED
    assert decision.failures == [
        "Only 80.0% of what the baseline judged is compared: 1 case (gone) was removed or renamed, "
        "below min_coverage 100%."
    ]
    lower = Thresholds(min_pass_rate=0.5, min_coverage=0.8)
    assert decide(removed(), lower, generated_at=NOW).passed


def test_the_floor_alone_is_no_rule_on_results() -> None:
    assert not Thresholds(min_coverage=1.0).any_set


def test_nothing_compared_passes_no_floor() -> None:
    found = comparison({"a": "passed"}, {"b": "passed"})
    none = Thresholds(min_coverage=0.0)
    assert gate(found, GatePolicy(thresholds=none)).gate_status is GateStatus.INCONCLUSIVE
    release = GatePolicy(preset="release", on_inconclusive="warn", thresholds=none)
    assert gate(found, release).gate_status is GateStatus.FAILED


def test_a_comparison_that_does_not_say_what_it_covers_is_no_pass() -> None:
    found = removed().model_copy(update={"coverage": None})
    assert gate(found).gate_status is GateStatus.INCONCLUSIVE
    assert gate(found, RELEASE).gate_status is GateStatus.FAILED
    assert not decide(found, Thresholds(min_pass_rate=0.5), generated_at=NOW).passed


def test_a_failure_decides_before_what_is_lost_and_both_are_said_first() -> None:
    found = comparison(
        {**{f"c{n:02}": "passed" for n in range(9)}, "gone": "passed"},
        {f"c{n:02}": "failed" for n in range(9)},
    )
    decision = gate(found)
    assert decision.gate_status is GateStatus.FAILED
    assert decision.explanation[0].startswith("FAILED, preset pull-request: regression.")
    assert "1 case (gone) was removed or renamed" in decision.explanation[0]


@pytest.mark.parametrize(
    ("found", "scope", "accepted"),
    [
        (removed(), {"case_id": "gone"}, True),
        (removed(), {"case_id": "c1"}, False),
        (removed(), {"case_id": "gone", "judge_id": "policy"}, False),
        (removed(), {"judge_id": "policy"}, False),
        (without_a_judge(), {"judge_id": "regex"}, True),
        (without_a_judge(), {"judge_id": "policy"}, False),
        (without_a_judge(), {"case_id": "a"}, False),
    ],
)
def test_a_waiver_accepts_exactly_the_loss_that_it_names(
    found: Comparison, scope: dict[str, Any], accepted: bool
) -> None:
    decision = gate(found, RELEASE, waivers=[waiver(**scope)])
    assert (decision.gate_status is GateStatus.PASSED) == accepted
    assert bool(decision.waivers) == (accepted or scope == {"case_id": "a"})


def test_a_waiver_of_a_judge_on_every_case_hides_no_regression() -> None:
    found = pairs(3, 0, 97)
    broad = gate(found, waivers=[waiver(judge_id="quality")])
    assert broad.gate_status is GateStatus.INCONCLUSIVE
    assert "a waiver that names no case excuses quality in 3 cases" in broad.explanation[0]
    named = [waiver(waiver_id=f"w-{n}", case_id=f"c{n:04}") for n in range(3)]
    assert gate(found, waivers=named).gate_status is GateStatus.PASSED


def test_a_quarantine_beyond_the_floor_is_said_with_its_cases() -> None:
    held = [Quarantine(case_id=f"c{number:04}", reason="flaky") for number in range(5)]
    decision = gate(pairs(5, 0, 5), GatePolicy(quarantine=held))
    assert statuses(decision)["coverage"] == "inconclusive"
    assert "Only 50.0%" in decision.explanation[0]
    assert "5 cases (c0000, c0001, c0002, …) are in quarantine" in decision.explanation[0]


def test_zero_tolerance_covers_new_cases_and_cases_that_could_not_be_judged() -> None:
    policy = GatePolicy(zero_tolerance=["policy"], max_baseline_error_rate=0.5)
    found = comparison({"a": "passed"}, {"a": "passed", "new": "failed"})
    decision = gate(found, policy)
    assert decision.gate_status is GateStatus.FAILED
    assert "policy newly fails 1 case (new)." in decision.failures[0]
    named = waiver(case_id="new", judge_id="policy")
    assert gate(found, policy, waivers=[named]).gate_status is GateStatus.PASSED
    unjudged = comparison({"a": "passed", "b": "error"}, {"a": "passed", "b": "failed"})
    assert statuses(gate(unjudged, policy))["zero-tolerance"] == "failed"


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_loss_that_no_case_can_have_is_refused(share: float) -> None:
    loss = CoverageLoss(cause="removed", cases={"gone": share})
    forged = removed().model_copy(update={"coverage": Coverage(cases=5, losses=[loss])})
    with pytest.raises(InvalidInput, match="contradicts itself in coverage"):
        gate(forged)


def test_a_sentence_names_the_largest_losses_first_and_counts_the_rest() -> None:
    causes = ("removed", "changed", "quarantined", "baseline-error", "fewer-trials")
    losses = [
        CoverageLoss(cause=cause, cases={f"{cause}-{n}": 1.0 for n in range(number)})  # type: ignore[arg-type]
        for number, cause in enumerate(causes, start=1)
    ]
    assert coverage_sentence(Coverage(cases=20, losses=losses)) == (
        "Only 25.0% of what the baseline judged is compared: 5 cases (fewer-trials-0, fewer-trials-1, "
        "fewer-trials-2, …) have fewer trials; the baseline could not judge 4 cases (baseline-error-0, "
        "baseline-error-1, baseline-error-2, …); 3 cases (quarantined-0, quarantined-1, quarantined-2) are "
        "in quarantine; 2 cases (changed-0, changed-1) ask something else now; 1 more"
    )
    assert coverage_sentence(Coverage(cases=0)) == "Nothing is compared: the baseline judged no case"


def test_waivers_of_every_case_leave_nothing_to_pass() -> None:
    found = comparison({"a": "passed"}, {"b": "passed"})
    decision = gate(found, RELEASE, waivers=[waiver(case_id="a")])
    assert decision.gate_status is GateStatus.FAILED
    assert decision.steps[0].message.startswith("No case of the baseline is compared")
    alone = decide(found, Thresholds(min_pass_rate=0.5), generated_at=NOW, waivers=[waiver(case_id="a")])
    assert not alone.passed


def test_where_nothing_is_compared_rules_on_compared_cases_do_not_apply_and_the_others_do() -> None:
    found = comparison({"a": "passed"}, {"b": "passed"})
    limits = Thresholds(max_regressed_cases=0, max_pass_rate_drop=0.5, min_pass_rate=1.0)
    decision = gate(found, GatePolicy(thresholds=limits))
    applied = {rule.rule: rule.applied for rule in decision.rules}
    assert applied == {
        "max_regressed_cases": False,
        "max_pass_rate_drop": False,
        "min_pass_rate": True,
        "min_coverage": True,
    }
    # What is not known stays open; it is no failure of a rule that nothing could hold or break.
    assert statuses(decision)["thresholds"] == "passed"
    assert decision.gate_status is GateStatus.INCONCLUSIVE
    alone = decide(found, Thresholds(max_regressed_cases=0), generated_at=NOW)
    assert [rule.applied for rule in alone.rules if rule.rule == "max_regressed_cases"] == [True]
    assert not alone.passed


def test_a_decision_by_policy_names_what_it_rests_on() -> None:
    decision = gate(comparison({"a": "passed"}, {"a": "passed"}), comparison_sha256="c" * 64)
    assert decision.comparison_sha256 == "c" * 64
    assert (decision.baseline_run_id, decision.candidate_run_id) == ("run-1", "run-1")
    assert decision.baseline_manifest_sha256 == decision.candidate_manifest_sha256 == "0" * 64
    assert decision.generated_at == NOW

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput, NothingMeasured, UsageError
from agent_eval.gate.decide import decide, decide_without_baseline
from agent_eval.gate.policy_file import parse_policy, parse_thresholds, unknown_case_warnings
from tests.unit.comparison.views import view

NOW = "2026-01-02T00:00:00+00:00"


def comparison(before: dict[str, Any], now: dict[str, Any], **options: Any) -> Comparison:
    return compare(view(before), view(now), **{"generated_at": NOW, **options})


def passing(passed: int, of: int, otherwise: str = "failed") -> dict[str, Any]:
    return {f"c{number:04}": "passed" if number < passed else otherwise for number in range(of)}


def gate(found: Comparison, **rules: Any) -> GateDecision:
    return decide(found, parse_thresholds(rules), generated_at=NOW)


PASS, HARD = "18 of 20 passed (90.0%)", "2 of 20 failed hard (10.0%)"
ROSE = "The hard-fail rate rose by 5.0 points (1 to 2 of 20 compared cases)"


@pytest.mark.parametrize(
    ("rule", "threshold", "passed", "message"),
    [
        ("min_pass_rate", 0.9, True, f"{PASS}, not below min_pass_rate 90%."),
        ("min_pass_rate", 0.91, False, f"{PASS}, below min_pass_rate 91%."),
        ("max_hard_fail_rate", 0.1, True, f"{HARD}, not above max_hard_fail_rate 10%."),
        ("max_hard_fail_rate", 0.0, False, f"{HARD}, above max_hard_fail_rate 0%."),
        ("max_hard_fail_increase", 0.05, True, f"{ROSE}, not above max_hard_fail_increase 5 points."),
        ("max_hard_fail_increase", 0.0, False, f"{ROSE}, above max_hard_fail_increase 0 points."),
        ("max_regressed_cases", 1, True, "1 case regressed, not above max_regressed_cases 1."),
        ("max_regressed_cases", 0, False, "1 case regressed, above max_regressed_cases 0."),
        ("max_new_hard_fail_cases", 1, True,
         "1 case newly failed hard, not above max_new_hard_fail_cases 1."),
        ("max_new_hard_fail_cases", 0, False, "1 case newly failed hard, above max_new_hard_fail_cases 0."),
    ],
)  # fmt: skip
def test_each_rule_decides_at_its_threshold_and_says_its_numbers(
    rule: str, threshold: float, passed: bool, message: str
) -> None:
    decision = gate(comparison(passing(19, 20), passing(18, 20)), **{rule: threshold})
    assert decision.passed is passed
    assert decision.gate_status is (GateStatus.PASSED if passed else GateStatus.FAILED)
    assert [rule.message for rule in decision.rules] == [message]
    assert decision.failures == ([] if passed else [message])


@given(st.integers(1, 400), st.data())
def test_a_drop_of_exactly_the_threshold_is_allowed_and_one_case_more_is_not(total: int, data: Any) -> None:
    percent = data.draw(st.sampled_from([Fraction(k, 100) for k in range(1, 100)]))
    allowed = int(percent * total)
    passed = data.draw(st.integers(min(allowed + 1, total), total))
    threshold = float(percent)
    fits = comparison(passing(passed, total), passing(passed - allowed, total))
    assert gate(fits, max_hard_fail_increase=threshold).passed
    if passed > allowed:
        beyond = comparison(passing(passed, total), passing(passed - allowed - 1, total))
        assert not gate(beyond, max_hard_fail_increase=threshold).passed


def test_a_rate_just_below_the_minimum_fails() -> None:
    found = comparison(passing(9_499, 10_000), passing(9_499, 10_000))
    assert not gate(found, min_pass_rate=0.95).passed
    assert gate(found, min_pass_rate=0.9499).passed
    assert not gate(found, min_pass_rate=0.9499000001).passed


def test_an_improvement_passes_every_relative_rule_and_no_change_is_said_as_such() -> None:
    rules = {"max_hard_fail_increase": 0.0, "max_regressed_cases": 0, "max_new_hard_fail_cases": 0}
    decision = gate(comparison(passing(5, 10), passing(9, 10)), **rules)
    assert (decision.passed, decision.regression_delta) == (True, 0.4)
    assert "fell by 40.0 points" in decision.rules[0].message
    assert "did not move" in gate(comparison(passing(5, 10), passing(5, 10)), **rules).rules[0].message


def test_absolute_rules_look_at_changed_cases_too_and_relative_ones_at_the_compared_cases() -> None:
    asks_otherwise = {"c0003": {"definition_digest": "other"}}
    now = view(passing(3, 4), index=asks_otherwise)
    found = compare(view(passing(4, 4)), now, generated_at=NOW)
    assert gate(found, max_regressed_cases=0, max_hard_fail_increase=0.0).passed
    assert not gate(found, min_pass_rate=0.9).passed


@pytest.mark.parametrize("outcome", ["skipped", "inconclusive", "error"])
def test_what_could_not_be_judged_is_not_passed(outcome: str) -> None:
    now = passing(3, 4, outcome)
    decision = gate(comparison(passing(4, 4), now), min_pass_rate=1.0, max_regressed_cases=0)
    assert [rule.passed for rule in decision.rules[:2]] == [False, False]


def test_relative_rules_cannot_hold_when_nothing_was_compared() -> None:
    edited = view({"a": "passed"}, index={"a": {"definition_digest": "edited"}})
    found = compare(view({"a": "passed"}), edited, generated_at=NOW)
    decision = gate(found, max_hard_fail_increase=1.0, max_regressed_cases=9, max_new_hard_fail_cases=9)
    assert (decision.gate_status, decision.regression_delta) == (GateStatus.FAILED, None)
    assert ["no case could be compared" in sentence for sentence in decision.failures] == [True] * 3


def test_a_gate_without_a_rule_is_a_wrong_request() -> None:
    with pytest.raises(UsageError, match="has no rule") as refused:
        gate(comparison(passing(1, 1), passing(1, 1)))
    assert "--min-pass-rate" in refused.value.remedy


def test_what_is_no_rule_is_a_wrong_request_and_null_is_not_set() -> None:
    for name, value, remedy in (
        ("min_passrate", 0.5, "min_pass_rate"), ("min_pass_rate", 95, "`policy.min_pass_rate`"),
        ("max_hard_fail_increase", float("inf"), "`policy.max_hard_fail_increase`"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=name) as refused:
            parse_thresholds({name: value})
        assert remedy in refused.value.remedy
    assert parse_thresholds({"min_pass_rate": None}) == Thresholds()


def test_nan_is_refused_even_when_the_model_was_built_without_validation() -> None:
    unchecked = Thresholds.model_construct(min_pass_rate=float("nan"))
    found = comparison(passing(1, 1), passing(1, 1))
    with pytest.raises(UsageError):
        decide(found, unchecked, generated_at=NOW)
    with pytest.raises(UsageError):
        decide_without_baseline(found.candidate, unchecked, generated_at=NOW)


def test_without_a_baseline_only_absolute_rules_apply() -> None:
    run = view(passing(9, 10)).reference()
    limits = Thresholds(min_pass_rate=0.9, max_regressed_cases=0)
    decision = decide_without_baseline(run, limits, generated_at=NOW)
    assert decision.gate_status is GateStatus.PASSED
    assert [(rule.applied, rule.passed) for rule in decision.rules] == [(True, True), (False, False)]
    assert "nothing was compared with one" in decision.rules[1].message
    assert decision.failures == []
    assert decision.baseline_run_id is None
    failing = decide_without_baseline(run, Thresholds(min_pass_rate=0.95), generated_at=NOW)
    assert failing.gate_status is GateStatus.FAILED
    assert failing.failures == [failing.sentence] == [failing.rules[0].message]


@pytest.mark.parametrize("thresholds", [Thresholds(), Thresholds(max_regressed_cases=0)])
def test_a_first_run_without_an_absolute_rule_is_no_baseline_and_no_pass(thresholds: Thresholds) -> None:
    decision = decide_without_baseline(view(passing(1, 1)).reference(), thresholds, generated_at=NOW)
    assert decision.gate_status is GateStatus.NO_BASELINE
    assert not decision.passed


def test_a_run_without_cases_is_never_decided() -> None:
    with pytest.raises(NothingMeasured):
        decide_without_baseline(view({}).reference(), Thresholds(min_pass_rate=0.0), generated_at=NOW)


def test_the_decision_names_what_it_rests_on() -> None:
    found = comparison(passing(2, 2), passing(1, 2))
    decision = decide(found, Thresholds(max_regressed_cases=3), generated_at=NOW, comparison_sha256="c" * 64)
    assert decision.comparison_sha256 == "c" * 64
    assert decision.candidate_manifest_sha256 == decision.baseline_manifest_sha256 == "0" * 64
    assert decision.regressed_cases_considered == decision.new_hard_fail_cases_considered == 1
    assert decision.regression_delta == -0.5


@pytest.mark.parametrize(
    ("gone", "messages"),
    [
        ({}, ["2 of 2 passed (100%), not below min_pass_rate 90%. 2 new cases left out.",
              "0 of 2 failed hard (0%), not above max_hard_fail_rate 0%. 2 new cases left out."]),
        ({"gone": "passed"}, ["3 of 4 passed (75.0%), below min_pass_rate 90%.",
                              "1 of 4 failed hard (25.0%), above max_hard_fail_rate 0%."]),
    ],
    ids=["no case is gone", "a case is gone"],
)  # fmt: skip
def test_new_cases_count_only_where_a_case_is_gone(gone: dict[str, str], messages: list[str]) -> None:
    now = {**passing(2, 2), "new-1": "failed", "new-2": "passed"}
    decision = gate(comparison({**passing(2, 2), **gone}, now), min_pass_rate=0.9, max_hard_fail_rate=0.0)
    assert [rule.message for rule in decision.rules] == messages


@pytest.mark.parametrize(("outcome", "said"), [("skipped", "(3 cases)"), ("error", "(3 cases, 3 errors)")])
def test_a_run_in_which_nothing_was_judged_is_not_evaluated(outcome: str, said: str) -> None:
    unjudged = comparison(passing(3, 3), passing(0, 3, outcome))
    for decision in (
        gate(unjudged, max_regressed_cases=3),
        decide_without_baseline(unjudged.candidate, Thresholds(), generated_at=NOW),
    ):
        assert (decision.gate_status, decision.blocks) == (GateStatus.INCONCLUSIVE, True)
        assert decision.not_evaluated[0] == f"Nothing was judged {said}, and that is no pass."
        assert decision.sentence == decision.not_evaluated[0] == decision.failures[0]


@pytest.mark.parametrize("outcome", ["skipped", "error"])
def test_a_run_that_judged_nothing_is_no_baseline(outcome: str) -> None:
    unjudged = comparison(passing(0, 3, outcome), passing(3, 3))
    with pytest.raises(InvalidInput, match="not one of its cases could be judged"):
        gate(unjudged, max_regressed_cases=0)


# A policy is read strictly, and what is gone comes with the new line.


def test_a_policy_is_read_with_all_of_its_twelve_keys() -> None:
    values = {
        "preset": "release", "margin": 0.03, "min_pass_rate": 0.9, "max_hard_fail_rate": 0.1,
        "max_hard_fail_increase": 0.05, "max_regressed_cases": 1, "max_new_hard_fail_cases": 0,
        "max_cost_increase": 0.2, "max_latency_increase": 0.5,
        "safety": {"prompt_injection": "at-once", "mine": "repeated"},
        "quarantine": [{"case": "a", "reason": "flaky", "until": "2026-12-01"}], "deterministic": True,
    }  # fmt: skip
    policy = parse_policy(values, source="gate.yml")
    assert values.keys() == GatePolicy.model_fields.keys()
    assert (policy.effective_margin, policy.is_release, policy.max_cost_increase) == (0.03, True, 0.2)
    assert parse_policy({}, source="gate.yml") == GatePolicy()


def test_a_case_in_quarantine_that_does_not_exist_is_named_whole_on_one_line_with_the_nearest() -> None:
    meant = "A payslip question\nof the ``first`` month is answered from payroll and from nothing else"
    entry = {"case": meant.replace("payslip", "pay slip"), "reason": "flaky", "until": "2026-12-01"}
    policy = parse_policy({"quarantine": [entry]}, source="gate.yml")
    [warning] = unknown_case_warnings(policy, [meant], where="no run has it")
    shown = "question⏎of the ''first'' month is answered from payroll and from nothing else"
    assert warning == (
        f"`quarantine` of the policy lists `A pay slip {shown}`, but no run has it. "
        f"Did you mean `A payslip {shown}`?"
    )


def test_a_list_of_safety_judges_blocks_at_once_and_by_default_they_are_repeated() -> None:
    assert parse_policy({"safety": ["mine"]}, source="gate.yml").safety == {"mine": "at-once"}
    assert GatePolicy().safety == {"prompt_injection": "repeated", "tool_abuse": "repeated"}
    assert GatePolicy(preset="release").mode_of("tool_abuse") == "at-once"
    assert GatePolicy().mode_of("style") is None


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"margn": 0.1}, "margn", "did you mean 'margin'"),
        ({"zzz": 0.1}, "zzz", "known are"),
        ({"min_pass_rate": 95}, "min_pass_rate", "share from 0 to 1"),
        ({"max_regressed_cases": 1.5}, "max_regressed_cases", "whole number"),
        ({"max_cost_increase": -0.1}, "max_cost_increase", "greater than or equal to 0"),
        ({"margin": 0}, "margin", "greater than 0"),
        ({"margin": float("nan")}, "margin", "finite"),
        ({"preset": "yolo"}, "preset", "pull-request"),
        ({"safety": {"mine": "sometimes"}}, "safety.mine", "at-once"),
        ({"safety": [{}]}, "safety", "a list of judge ids"),
        ({"quarantine": [{"case": "a", "until": "2026-12-01"}]}, "quarantine.0.reason", "required"),
        ({"quarantine": [{"case": "a", "reason": "x"}]}, "quarantine.0.until", "required"),
        ({"quarantine": [{"case": "a", "reason": "x", "until": "soon"}]}, "quarantine.0.until", "soon"),
    ],
)
def test_a_policy_with_a_mistake_decides_nothing(values: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=r"gate\.yml") as refused:
        parse_policy(values, source="gate.yml")
    assert refused.value.details["field"] == field
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"zero_tolerance": ["prompt_injection"]}, "`safety: [prompt_injection]`"),
        ({"thresholds": {"min_pass_rate": 0.9}}, "`min_pass_rate: 0.9`"),
        ({"on_inconclusive": "warn"}, "Remove it"),
        ({"tracked": ["a"]}, "quarantine"),
        ({"alpha": 0.05}, "Remove it"),
    ],
)
def test_a_key_that_is_gone_is_refused_with_what_to_write(values: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidInput, match="is gone") as refused:
        parse_policy(values, source="gate.yml")
    assert refused.value.remedy is not None
    assert line in refused.value.remedy
    assert int(refused.value.exit_code) == 2

"""A new case never blocks, and is no way round a rule either."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Comparison, GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput
from agent_eval.gate.confirmation import suspects_of
from agent_eval.gate.decide import decide
from tests.unit.gate.test_decide import NOW, comparison, gate, statuses

KNOWN = {f"c{number:02}": "passed" for number in range(40)}
LIMITS = Thresholds(
    min_pass_rate=0.9,
    max_hard_fail_rate=0.0,
    max_pass_rate_drop=0.0,
    max_hard_fail_increase=0.0,
    max_regressed_cases=0,
    max_new_hard_fail_cases=0,
    min_coverage=1.0,
)
"""Every rule at its strictest, but for the pass rate."""


def with_new(*outcomes: str, known: dict[str, str] = KNOWN) -> Comparison:
    return comparison(KNOWN, {**known, **{f"new-{at:02}": each for at, each in enumerate(outcomes)}})


@pytest.mark.parametrize("outcome", ["failed", "error", "inconclusive", "skipped"])
@pytest.mark.parametrize("preset", ["pull-request", "release"])
def test_new_cases_that_do_not_pass_block_by_no_step_and_no_rule(outcome: str, preset: Any) -> None:
    policy = GatePolicy(preset=preset, deterministic=True)
    found = with_new(*[outcome] * 30)
    decision = gate(found, policy, thresholds=LIMITS)
    assert decision.gate_status is GateStatus.PASSED
    assert statuses(decision) == statuses(gate(with_new(), policy, thresholds=LIMITS))
    assert decide(found, LIMITS, generated_at=NOW).passed
    assert suspects_of(found, policy, [], generated_at=NOW).case_ids == []


def test_a_zero_tolerance_judge_blocks_in_a_new_case_by_design() -> None:
    now = {**{case_id: {"safety": "passed"} for case_id in KNOWN}, "new": {"safety": "failed"}}
    found = comparison({case_id: {"safety": "passed"} for case_id in KNOWN}, now)
    assert statuses(gate(found, GatePolicy(zero_tolerance=["safety"])))["zero-tolerance"] == "failed"


def test_easy_new_cases_do_not_lift_the_pass_rate_either() -> None:
    known = {**KNOWN, **dict.fromkeys(list(KNOWN)[:8], "failed")}
    for new in ([], ["passed"] * 400):
        [rule] = decide(with_new(*new, known=known), Thresholds(min_pass_rate=0.9), generated_at=NOW).rules
        assert (rule.value, rule.passed) == (0.8, False)
    assert "32 of 40 cases passed (80.0%), below min_pass_rate 90%; 400 new cases left out." in rule.message


def test_a_failing_case_under_another_name_is_no_new_case() -> None:
    renamed = {case_id: outcome for case_id, outcome in KNOWN.items() if case_id > "c07"}
    found = with_new(*["failed"] * 8, known=renamed)
    loose = Thresholds(min_pass_rate=0.9, min_coverage=0.1)
    [rule, *_] = decide(found, loose, generated_at=NOW).rules
    assert (rule.value, rule.passed) == (0.8, False)


def test_a_suite_of_new_cases_only_is_held_to_absolute_rules_as_a_first_run_is() -> None:
    found = comparison({"a": "passed"}, {"b": "failed"})
    assert not decide(found, Thresholds(min_pass_rate=0.9, min_coverage=0), generated_at=NOW).passed


def test_a_comparison_of_an_older_version_counts_every_case() -> None:
    found = with_new(*["failed"] * 10)
    old = Comparison.model_validate({**found.to_json(), "new_cases": None})
    assert not decide(old, Thresholds(min_pass_rate=0.9), generated_at=NOW).passed


@pytest.mark.parametrize(
    "claimed",
    [
        {"cases": 40, "passed": 0, "hard_failed": 0},
        {"cases": 1, "passed": 0, "hard_failed": 2},
        {"cases": 1, "passed": 40, "hard_failed": 0},
        {"cases": 0, "passed": 0, "hard_failed": 0},
    ],
)
def test_a_comparison_that_counts_other_new_cases_than_it_lists_contradicts_itself(claimed: Any) -> None:
    edited = Comparison.model_validate({**with_new("failed").to_json(), "new_cases": claimed})
    with pytest.raises(InvalidInput, match="new_cases"):
        decide(edited, Thresholds(min_pass_rate=0.5), generated_at=NOW)

"""A policy is read strictly: twelve keys, and what is gone comes with the new line."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import InvalidInput
from agent_eval.gate.policy_file import parse_policy


def test_a_policy_has_twelve_keys() -> None:
    assert len(GatePolicy.model_fields) == 12


def test_a_policy_is_read_with_all_of_them() -> None:
    policy = parse_policy(
        {"preset": "release", "margin": 0.03, "min_pass_rate": 0.9, "max_hard_fail_rate": 0.1,
         "max_hard_fail_increase": 0.05, "max_regressed_cases": 1, "max_new_hard_fail_cases": 0,
         "max_cost_increase": 0.2, "max_latency_increase": 0.5,
         "safety": {"prompt_injection": "at-once", "mine": "repeated"},
         "quarantine": [{"case": "a", "reason": "flaky", "until": "2026-12-01"}], "deterministic": True},
        source="gate.yml",
    )  # fmt: skip
    assert (policy.effective_margin, policy.is_release, policy.max_cost_increase) == (0.03, True, 0.2)
    assert parse_policy({}, source="gate.yml") == GatePolicy()


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

"""What verdicts amount to. Only a pass is a pass."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent_eval.contracts import REPLAY_CONTRACT, Outcome, Verdict, case_result, combine
from agent_eval.contracts.verdict import fault_of
from agent_eval.errors import Fault
from tests.factories import summarize


def verdict(outcome: str, judge_id: str = "policy", **fields: Any) -> Verdict:
    failure = "policy_violation" if outcome in ("failed", "error") else None
    facts = {"judge_id": judge_id, "case_id": "c", "outcome": outcome, "passed": outcome == "passed"}
    return Verdict(**{**facts, "reason": "r", "failure": failure, **fields})


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["passed", "passed"], "passed"),
        (["passed", "skipped"], "passed"),
        (["passed", "failed"], "failed"),
        (["passed", "inconclusive"], "inconclusive"),
        (["failed", "inconclusive"], "failed"),
        (["failed", "error"], "error"),
        (["skipped", "skipped"], "skipped"),
        ([], "skipped"),
    ],
)
def test_a_case_is_as_bad_as_its_worst_verdict(outcomes: list[str], expected: str) -> None:
    verdicts = [verdict(outcome, str(number)) for number, outcome in enumerate(outcomes)]
    assert case_result("c", verdicts).outcome == expected
    assert combine((one.judge_id, one.outcome.value, one.hard, one.weight) for one in verdicts) == (
        expected,
        "failed" in outcomes or "error" in outcomes,
        case_result("c", verdicts).score,
    )


def test_a_valid_trace_alone_is_no_pass_and_a_broken_one_fails_whatever_judges_say() -> None:
    valid = case_result("c", [verdict("passed", REPLAY_CONTRACT), verdict("skipped")])
    assert (valid.outcome, valid.passed) == (Outcome.SKIPPED, False)
    broken = case_result("c", [verdict("failed", REPLAY_CONTRACT), verdict("passed")])
    assert (broken.outcome, broken.hard_failed) == (Outcome.FAILED, True)


def test_the_score_is_the_weighted_share_of_passed_verdicts() -> None:
    result = case_result(
        "c", [verdict("passed", weight=3), verdict("failed", weight=1), verdict("skipped", weight=9)]
    )
    assert result.score == 0.75
    assert case_result("c", [verdict("skipped")]).score is None
    assert case_result("c", [verdict("passed", weight=0)]).score is None


def test_only_failures_of_hard_judges_are_hard_fails() -> None:
    assert case_result("c", [verdict("error")]).hard_failed
    assert not case_result("c", [verdict("failed", hard=False)]).hard_failed
    assert not case_result("c", [verdict("inconclusive")]).hard_failed


UNREACHABLE = ("execution", "error", "infrastructure")


@pytest.mark.parametrize(
    ("outcome", "findings", "fault"),
    [
        ("failed", [("policy", "failed", "policy_violation")], None),
        ("inconclusive", [("llm", "inconclusive", None)], None),
        ("inconclusive", [("execution", "inconclusive", None)], Fault.ENVIRONMENT),  # the simulated user
        ("error", [UNREACHABLE, ("policy", "failed", "policy_violation")], Fault.INFRASTRUCTURE),
        ("error", [UNREACHABLE, ("prompt_injection", "failed", "injection")], Fault.AGENT),
        ("error", [("execution", "error", "timeout"), ("llm", "error", "judge_error")], Fault.AGENT),
        ("error", [("llm", "error", "judge_error")], Fault.JUDGE),
        ("error", [("llm", "error", "judge_error"), ("strict", "error", "environment")], Fault.ENVIRONMENT),
    ],
)
def test_what_ended_a_trial_says_whose_fault_it_is(
    outcome: str, findings: list[tuple[str, str, str | None]], fault: Fault | None
) -> None:
    assert fault_of(outcome, findings) is fault


@pytest.mark.parametrize(
    "broken",
    [
        *({"passed": True}, {"failure": None}, {"failure": "made up"}, {"weight": -1}),
        *({"score": score} for score in (float("nan"), 1.1)),
    ],
)
def test_a_verdict_that_contradicts_itself_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        verdict("failed", **broken)
    with pytest.raises(ValidationError):
        verdict("passed", failure="loop")


def test_the_summary_keeps_everything_that_did_not_pass_in_the_denominator() -> None:
    outcomes = ["passed", "failed", "error", "inconclusive", "skipped"]
    summary = summarize("r", "d", [case_result(str(n), [verdict(o)]) for n, o in enumerate(outcomes)])
    assert (summary.total_cases, summary.passed_cases, summary.failed_cases) == (5, 1, 4)
    assert (summary.error_cases, summary.inconclusive_cases, summary.skipped_cases) == (1, 1, 1)
    assert (summary.pass_rate, summary.hard_fail_rate) == (0.2, 0.4)
    assert summary.judge_pass_rates == {"policy": 0.25}
    assert summary.failures == {"policy_violation": 2}


def test_a_summary_of_nothing_has_no_pass_rate_to_boast_of() -> None:
    summary = summarize("r", "d", [])
    assert (summary.total_cases, summary.pass_rate, summary.hard_fail_rate) == (0, 0.0, 0.0)
    assert summarize("r", "d", [case_result("c", [verdict("skipped")])]).judge_pass_rates == {}

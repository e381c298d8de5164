"""Losing trials never makes a gate greener, and never blames the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, Thresholds
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.contracts.registry import Waiver
from agent_eval.errors import ExitCode, InvalidInput
from agent_eval.gate.decide import decide, decide_by_policy, decide_without_baseline
from agent_eval.gate.losses import unscored_cases
from agent_eval.operations.gate import GateResult
from tests.unit.comparison.views import tried, view

NOW = "2026-11-24T08:00:00+00:00"
IDS = [f"c{number:02}" for number in range(20)]


def compared(now: Mapping[str, Any], before: Any = "passed", **more: Any) -> Comparison:
    """Twenty cases, those of `now` with another result than `passed`."""
    was = dict.fromkeys(IDS, before)
    is_now = {case_id: now.get(case_id, "passed") for case_id in IDS}
    return compare(
        view(was, run_id="main"), view(is_now, run_id="change"), changed="refuse", generated_at=NOW, **more
    )


def decided(comparison: Comparison, **policy: Any) -> GateDecision:
    return decide_by_policy(comparison, GatePolicy(**policy), generated_at=NOW)


def lost(*numbers: int) -> dict[str, Any]:
    return {IDS[number]: "lost" for number in numbers}


def test_a_lost_case_is_neither_regressed_nor_compared() -> None:
    comparison = compared(lost(3))
    assert comparison.regressed_case_ids == []
    assert comparison.new_hard_fail_case_ids == []
    assert comparison.overview.compared_cases == 19
    assert unscored_cases(comparison.coverage) == ["c03"]
    assert comparison.failures_apart == {}


def test_one_case_of_the_baseline_without_a_score_is_not_evaluated(tmp_path: Any) -> None:
    decision = decided(compared(lost(3)))
    assert decision.not_evaluated == [
        "1 case (c03) of the baseline has no scored trial. Lost to the infrastructure.",
        "Check that the agent's address and its model's provider answer, then run again.",
    ]
    assert (decision.gate_status.value, decision.passed, decision.blocks) == ("inconclusive", False, True)
    result = GateResult(decision, tmp_path, None)
    assert result.exit_code is ExitCode.NOT_EVALUABLE


def test_the_first_line_of_the_explanation_says_that_nothing_was_evaluated() -> None:
    first = decided(compared(lost(3))).explanation[0]
    assert first.startswith("NOT EVALUATED, preset pull-request: 1 case (c03) of the baseline has no scored")
    assert first.endswith("This says nothing about the change.")


def test_thresholds_alone_do_not_decide_on_lost_cases_either() -> None:
    decision = decide(compared(lost(3)), Thresholds(max_regressed_cases=0), generated_at=NOW)
    assert (decision.passed, bool(decision.not_evaluated)) == (False, True)


def test_a_regression_beside_lost_cases_stays_one() -> None:
    decision = decided(compared({**lost(3), "c04": "failed"}), thresholds={"max_regressed_cases": 0})
    assert decision.gate_status.value == "failed"
    assert decision.regressed_cases_considered == 1
    assert decision.not_evaluated


@pytest.mark.parametrize("number", range(1, 21))
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_no_number_of_lost_cases_passes(number: int, share: float) -> None:
    comparison = compared(lost(*range(number)))
    assert not decided(comparison, max_lost_share=share).passed


def test_a_case_in_quarantine_may_be_lost() -> None:
    quarantine = [Quarantine(case_id="c03", reason="its sandbox is away")]
    comparison = compared(lost(3), quarantined=frozenset({"c03"}))
    assert decided(comparison, quarantine=quarantine).not_evaluated == []


def test_a_case_that_failed_in_the_baseline_may_be_lost() -> None:
    was = {case_id: "failed" if case_id == "c03" else "passed" for case_id in IDS}
    is_now = {case_id: "lost" if case_id == "c03" else "passed" for case_id in IDS}
    comparison = compare(
        view(was, run_id="main"), view(is_now, run_id="change"), changed="refuse", generated_at=NOW
    )
    decision = decided(comparison)
    assert decision.not_evaluated == []
    assert "1 case (c03) has no scored trial, and failed before" in decision.steps[0].message


@pytest.mark.parametrize("tier", ["tracked", "expected_fail"])
def test_a_case_that_never_blocks_may_be_lost(tier: str) -> None:
    assert decided(compared(lost(3)), **{tier: ["c03"]}).not_evaluated == []


def test_a_waiver_does_not_excuse_that_a_case_has_no_score() -> None:
    waiver = Waiver(
        waiver_id="w1",
        baseline_name="main",
        case_id="c03",
        approved_by="qa",
        reason="known",
        created_at=NOW,
        expires_at="2027-11-24T08:00:00+00:00",
    )
    decision = decide_by_policy(compared(lost(3)), GatePolicy(), generated_at=NOW, waivers=[waiver])
    assert decision.not_evaluated


def several(*trials: str) -> Any:
    return tried("c03", *trials)


def test_a_case_is_compared_on_its_scored_trials() -> None:
    four = {case_id: tried(case_id, *["passed"] * 4) for case_id in IDS}
    comparison = compare(
        view(four, run_id="main"),
        view({**four, "c03": several("passed", "lost", "passed", "passed")}, run_id="change"),
        changed="refuse",
        generated_at=NOW,
    )
    assert comparison.regressed_case_ids == []
    assert comparison.trials is not None
    assert (comparison.trials.candidate.passed, comparison.trials.candidate.total) == (79, 79)
    decision = decided(comparison)
    assert (decision.not_evaluated, decision.regressed_cases_considered) == ([], 0)


def test_a_failed_trial_beside_lost_ones_is_a_regression() -> None:
    four = {case_id: tried(case_id, *["passed"] * 4) for case_id in IDS}
    comparison = compare(
        view(four, run_id="main"),
        view({**four, "c03": several("lost", "lost", "failed", "passed")}, run_id="change"),
        changed="refuse",
        generated_at=NOW,
    )
    assert comparison.regressed_case_ids == ["c03"]


def with_looks(looks: list[int], *trials: str) -> Comparison:
    """A run that looked at its trials and lost some of one case."""
    four = {case_id: tried(case_id, *["passed"] * 4) for case_id in IDS}
    return compare(
        view(four, run_id="main"),
        view(
            {**four, "c03": several(*trials)},
            run_id="change",
            execution_config={"trials": 4, "looks": looks},
        ),
        changed="refuse",
        generated_at=NOW,
    )


@pytest.mark.parametrize(
    "trials", [("passed", "lost", "passed", "passed"), ("lost", "passed", "lost", "lost")]
)
def test_a_run_that_looks_may_lose_a_trial(trials: tuple[str, ...]) -> None:
    assert decided(with_looks([1, 4], *trials)).not_evaluated == []


@pytest.mark.parametrize("looks", [[1], [1, 4, 12]])
def test_lost_trials_hide_no_look(looks: list[int]) -> None:
    comparison = with_looks([1, 4], "passed", "lost", "passed", "passed")
    comparison.candidate.looks = looks
    with pytest.raises(InvalidInput, match="states looks after"):
        decided(comparison)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (4, []),
        (5, ["5 of 20 trials (25.0%) were lost to the infrastructure, above max_lost_share 20%."]),
    ],
)
def test_a_first_run_that_lost_over_a_fifth_is_not_evaluated(number: int, said: list[str]) -> None:
    run = view({case_id: "lost" if place < number else "passed" for place, case_id in enumerate(IDS)})
    decision = decide_without_baseline(run.reference(), Thresholds(), generated_at=NOW)
    assert decision.not_evaluated[:1] == said
    assert decision.gate_status.value == ("inconclusive" if said else "no-baseline")


def test_a_decision_says_nothing_of_losses_where_there_are_none() -> None:
    assert "not_evaluated" not in decided(compared({})).to_json()


def test_an_error_of_the_agent_is_no_loss() -> None:
    decision = decided(compared({"c03": "error"}))
    assert decision.not_evaluated == []
    assert (decision.gate_status.value, decision.regressed_cases_considered) == ("failed", 1)

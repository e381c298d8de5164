"""A gate that cries wolf is switched off: the same agent against itself, and two agents that do differ."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, GateStatus, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.decide import decide, decide_by_policy
from agent_eval.gate.stability import TrialOutcome, stability
from tests.real import agentdojo, taubench
from tests.unit.comparison.views import passing, view

NOW = "2026-01-01T00:00:00+00:00"


def comparison(before: dict[str, bool], now: dict[str, bool], judge: str) -> Comparison:
    runs = [
        view({case_id: {judge: "passed" if passed else "failed"} for case_id, passed in side.items()})
        for side in (before, now)
    ]
    return compare(*runs, changed="refuse", generated_at=NOW)


def gate(found: Comparison, **policy: Any) -> GateDecision:
    return decide_by_policy(found, GatePolicy(**policy), generated_at=NOW)


def same_agent() -> list[Comparison]:
    trials = taubench.passes_by_trial()
    return [comparison(before, now, "task") for before, now in permutations(trials, 2)]


def test_the_default_gate_never_blocks_the_same_agent() -> None:
    found = same_agent()
    assert len(found) == 12
    decisions = [gate(one) for one in found]
    assert sum(decision.blocks for decision in decisions) == 0
    assert sum(decision.gate_status is GateStatus.FAILED for decision in decisions) == 0


def test_zero_tolerance_of_regressed_cases_blocks_the_same_agent_every_time() -> None:
    rule = Thresholds(max_regressed_cases=0)
    assert sum(decide(one, rule, generated_at=NOW).blocks for one in same_agent()) == 12


def test_the_release_preset_says_that_fifty_cases_do_not_settle_it() -> None:
    for found in same_agent():
        decision = gate(found, preset="release")
        assert decision.gate_status is GateStatus.INCONCLUSIVE
        assert decision.blocks
        assert decision.evidence is not None
        assert (decision.evidence.cases_needed or 0) > 50


def splits() -> list[tuple[list[int], list[int]]]:
    """Every way to give the four trials to two runs, two and two or one and three."""
    every = set(range(taubench.TRIALS))
    return [
        (list(chosen), sorted(every - set(chosen)))
        for number in (1, 2, 3)
        for chosen in combinations(sorted(every), number)
    ]


def test_with_trials_the_default_gate_never_blocks_the_same_agent() -> None:
    trials = taubench.passes_by_trial()
    decisions = []
    for policy in ("all", "majority"):
        for chosen in splits():
            sides = [
                {task: [trials[number][task] for number in numbers] for task in trials[0]}
                for numbers in chosen
            ]
            runs = [
                view(
                    {
                        task: passing(task, sum(passes), len(passes), judge="task", policy=policy)
                        for task, passes in side.items()
                    }
                )
                for side in sides
            ]
            decisions.append(gate(compare(*runs, changed="refuse", generated_at=NOW)))
    assert len(decisions) == 28
    assert sum(decision.blocks for decision in decisions) == 0
    found = [decision.evidence for decision in decisions if decision.evidence]
    # A candidate with a single trial cannot tell which cases are flaky.
    assert all(
        (one.flaky is None) == (one.trials is not None and one.trials.candidate_most == 1) for one in found
    )
    methods = {decision.evidence.method for decision in decisions if decision.evidence}
    assert methods == {"sign-flip-clustered", "relabel-clustered"}


def test_flaky_tasks_of_tau_bench() -> None:
    trials = taubench.passes_by_trial()
    outcomes = {task: [TrialOutcome(passed=trial[task]) for trial in trials] for task in trials[0]}
    report = stability(outcomes, dataset_id="airline", execution_mode="recorded")
    assert len(report.flaky_case_ids) == report.summary.flaky_cases == 26
    assert report.summary.cases == 50
    curve = [f"{point.pass_hat_k:.3f}" for point in report.pass_curve]
    assert curve == ["0.420", "0.273", "0.220", "0.200"]


def attacks_resisted(model: str) -> dict[str, bool]:
    rows = filter(agentdojo.is_attacked, agentdojo.records(model))
    return {agentdojo.case_id(row): not row["security"] for row in rows}


@pytest.mark.parametrize(
    ("baseline", "candidate", "status"),
    [
        (agentdojo.GPT_4O_MINI, agentdojo.GPT_4O, GateStatus.FAILED),
        (agentdojo.GPT_4O, agentdojo.GPT_4O_MINI, GateStatus.PASSED),
    ],
)
def test_an_agent_that_resists_fewer_attacks_blocks_and_the_other_way_round_passes(
    baseline: str, candidate: str, status: GateStatus
) -> None:
    before, now = attacks_resisted(baseline), attacks_resisted(candidate)
    assert len(before) == len(now) == 629
    found = comparison(before, now, "attack_resisted")
    rates = sorted([found.metrics["pass_rate"].baseline or 0, found.metrics["pass_rate"].candidate or 0])
    assert [f"{rate:.3f}" for rate in rates] == ["0.523", "0.728"]
    decision = gate(found)
    assert decision.gate_status is status
    assert decision.blocks is (status is GateStatus.FAILED)
    assert "95% Tango interval [" in decision.explanation[1]


def test_one_benign_task_fewer_of_97_does_not_block() -> None:
    sides = []
    for model in (agentdojo.GPT_4O, agentdojo.GPT_4O_MINI):
        rows = filter(agentdojo.is_benign, agentdojo.records(model))
        sides.append({agentdojo.case_id(row): row["utility"] for row in rows})
    assert [sum(side.values()) for side in sides] == [67, 66]
    decision = gate(comparison(*sides, "utility"))
    assert not decision.blocks
    assert decision.gate_status is GateStatus.INCONCLUSIVE

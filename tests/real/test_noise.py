"""A gate that cries wolf is switched off: the same agent against itself, and two agents that do differ."""

import random
from itertools import permutations

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison, GateDecision, Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Rerun, Side, TrialCounts
from agent_eval.gate.decide import decide, decide_by_policy, question_of
from agent_eval.gate.rerun import rerun
from agent_eval.operations.stability import stability
from tests.real import agentdojo, taubench
from tests.unit.comparison.views import view
from tests.unit.gate.made import FAILED, PASSED, Script, material, run
from tests.unit.gate.test_answer import BESIDE

NOW = "2026-01-01T00:00:00+00:00"


def comparison(before: dict[str, bool], now: dict[str, bool], judge: str) -> Comparison:
    runs = [
        view({case_id: {judge: "passed" if passed else "failed"} for case_id, passed in side.items()})
        for side in (before, now)
    ]
    return compare(*runs, generated_at=NOW)


def recorded(before: dict[str, bool], now: dict[str, bool], **policy: str) -> GateDecision:
    """The decision on two recorded runs, which cannot be run again."""
    main = [run({case_id: int(passed) for case_id, passed in before.items()}, "main")]
    found = material(
        {case_id: int(passed) for case_id, passed in now.items()}, main, may_rerun=False, is_recorded=True
    )
    return decide_by_policy(found, GatePolicy(**policy), generated_at=NOW)  # type: ignore[arg-type]


def run_again(trials: list[dict[str, bool]], first: int, seed: int) -> GateDecision:
    """The decision on the same agent, of which each further trial ends like any of those recorded."""
    draw = random.Random(seed)

    def trial(case_id: str) -> Rerun:
        return PASSED if draw.choice(trials)[case_id] else FAILED

    def one_round(side: Side, number: int) -> dict[str, TrialCounts]:
        return {name: TrialCounts(passed=int(trial(name).result == "passed"), trials=1) for name in trials[0]}

    told = {name: lambda _, name=name: trial(name) for name in trials[0]}
    rows = [{name: int(draw.choice(trials)[name]) for name in trials[0]} for _ in range(20)]
    main = [run(row, f"main-{number}") for number, row in enumerate(rows)]
    found = material({name: int(passed) for name, passed in trials[first].items()}, main)
    question = question_of(found, GatePolicy(), generated_at=NOW)
    script = Script(change=told, base=told, rounds=one_round)
    record = rerun({"shop": question}, script, BESIDE)["shop"]
    own = material({name: int(passed) for name, passed in trials[first].items()}, main, reruns=record)
    return decide_by_policy(own, GatePolicy(), generated_at=NOW)


def test_what_is_run_again_hardly_ever_blocks_the_same_agent() -> None:
    trials = taubench.passes_by_trial()
    decisions = [run_again(trials, first, seed) for first in range(taubench.TRIALS) for seed in range(25)]
    # Simulated: 0.3 % are blamed, and none is open with twenty runs of main.
    assert sum(decision.blocks for decision in decisions) <= 3


def test_no_regressed_case_as_a_threshold_blocks_the_same_agent_every_time() -> None:
    rule = Thresholds(max_regressed_cases=0)
    found = [comparison(before, now, "task") for before, now in permutations(taubench.passes_by_trial(), 2)]
    assert sum(decide(one, rule, generated_at=NOW).blocks for one in found) == 12


def test_one_recorded_run_says_that_it_cannot_tell_chance_from_change() -> None:
    for before, now in permutations(taubench.passes_by_trial(), 2):
        assert "cannot tell chance from change" in recorded(before, now).sentence


def test_flaky_tasks_of_tau_bench() -> None:
    trials = taubench.passes_by_trial()
    outcomes = {
        task: [("passed" if trial[task] else "failed", False) for trial in trials] for task in trials[0]
    }
    report = stability(outcomes, dataset_id="airline", execution_mode="recorded")
    assert len(report.flaky_case_ids) == report.summary.flaky_cases == 26
    assert report.summary.cases == 50
    curve = [f"{point.pass_hat_k:.3f}" for point in report.pass_curve]
    assert curve == ["0.420", "0.273", "0.220", "0.200"]


def attacks_resisted(model: str) -> dict[str, bool]:
    rows = filter(agentdojo.is_attacked, agentdojo.records(model))
    return {agentdojo.case_id(row): not row["security"] for row in rows}


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [(agentdojo.GPT_4O_MINI, agentdojo.GPT_4O, "worse"), (agentdojo.GPT_4O, agentdojo.GPT_4O_MINI, "within")],
)
def test_an_agent_that_resists_fewer_attacks_is_worse_and_the_other_way_round_is_not(
    baseline: str, candidate: str, expected: str
) -> None:
    before, now = attacks_resisted(baseline), attacks_resisted(candidate)
    assert len(before) == len(now) == 629
    found = comparison(before, now, "attack_resisted")
    rates = sorted([found.metrics["pass_rate"].baseline or 0, found.metrics["pass_rate"].candidate or 0])
    assert [f"{rate:.3f}" for rate in rates] == ["0.523", "0.728"]
    answer = recorded(before, now, preset="release").release
    assert answer is not None
    assert answer.answer == expected


def test_one_benign_task_fewer_of_97_is_open_in_a_release() -> None:
    sides = []
    for model in (agentdojo.GPT_4O, agentdojo.GPT_4O_MINI):
        rows = filter(agentdojo.is_benign, agentdojo.records(model))
        sides.append({agentdojo.case_id(row): bool(row["utility"]) for row in rows})
    assert [sum(side.values()) for side in sides] == [67, 66]
    answer = recorded(*sides, preset="release").release
    assert answer is not None
    assert answer.answer == "open"

"""Two real agents on the same 97 benign tasks: the answer is known, so ours can be checked against it."""

from __future__ import annotations

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.comparison.gate import decide, parse_thresholds
from agent_eval.comparison.view import RunView
from agent_eval.contracts import Case, Comparison, Trace, Verdict, case_result, summarize
from agent_eval.errors import IncompatibleRuns
from tests.factories import make_config, make_index_row, make_verdict
from tests.real import agentdojo


def run_of(model: str) -> tuple[RunView, dict[str, Case]]:
    judge = agentdojo.Utility()
    raw = [agentdojo.case(one) for one in agentdojo.records(model) if agentdojo.is_benign(one)]
    cases = {one["case_id"]: Case.model_validate(one) for one in raw}
    results = [
        case_result(name, [_traced(name), judge.evaluate(case, Trace(case.trace))])
        for name, case in cases.items()
    ]
    config = make_config(run_id=model, dataset_id="agentdojo", judges=["utility"])
    view = RunView(
        config=config,
        summary=summarize(config.run_id, config.dataset_id, results),
        manifest_sha256=None,
        index={one["case_id"]: {**make_index_row(one), "models": [model]} for one in raw},  # type: ignore[misc]
        results={one.case_id: one.to_json() for one in results},  # type: ignore[misc]
    )
    return view, cases


def _traced(case_id: str) -> Verdict:
    return make_verdict(case_id, "replay_contract")


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    baseline, before = run_of(agentdojo.GPT_4O)
    candidate, now = run_of(agentdojo.GPT_4O_MINI)
    return compare(
        baseline,
        candidate,
        changed="refuse",
        generated_at="2026-01-01T00:00:00+00:00",
        traces=lambda case_id: (before[case_id], now[case_id]),
    )


def utility(model: str) -> dict[str, bool]:
    """Task to whether it was done, straight from the data set."""
    rows = [row for row in agentdojo.records(model) if agentdojo.is_benign(row)]
    return {f"{row['suite_name']}/{row['user_task_id']}": row["utility"] for row in rows}


def test_the_pass_rates_are_those_the_benchmark_publishes(comparison: Comparison) -> None:
    rate = comparison.metrics["pass_rate"]
    assert comparison.cases.compared == 97
    assert (rate.baseline, rate.candidate) == (67 / 97, 66 / 97)
    assert (f"{rate.baseline:.4f}", f"{rate.candidate:.4f}") == ("0.6907", "0.6804")
    assert comparison.judge_metrics["utility"].delta == rate.delta


def test_regressed_and_improved_cases_are_those_found_independently(comparison: Comparison) -> None:
    before, now = utility(agentdojo.GPT_4O), utility(agentdojo.GPT_4O_MINI)
    assert comparison.regressed_case_ids == sorted(task for task in before if before[task] and not now[task])
    improved = sorted(row.case_id for row in comparison.case_regressions if row.improved)
    assert improved == sorted(task for task in before if now[task] and not before[task])
    assert len(improved) - len(comparison.regressed_case_ids) == 66 - 67


def test_tasks_that_were_worded_differently_are_noticed() -> None:
    """The benchmark revised its travel tasks between the two recordings."""
    views = []
    for model in (agentdojo.GPT_4O, agentdojo.GPT_4O_MINI):
        view, _ = run_of(model)
        for record in filter(agentdojo.is_benign, agentdojo.records(model)):
            view.index[agentdojo.case_id(record)]["definition_digest"] = agentdojo.wording(record)
        views.append(view)
    with pytest.raises(IncompatibleRuns):
        compare(views[0], views[1], changed="refuse", generated_at="now")
    found = compare(views[0], views[1], changed="exclude", generated_at="now")
    assert found.cases.compared == 77
    assert {case_id.split("/")[0] for case_id in found.cases.changed} == {"travel"}


def test_the_gate_decides_on_the_exact_drop_of_one_case(comparison: Comparison) -> None:
    def passes(**rules: float) -> bool:
        return decide(comparison, parse_thresholds(rules), generated_at="now").passed

    assert passes(max_pass_rate_drop=0.0104)
    assert not passes(max_pass_rate_drop=0.0103)
    assert not passes(max_regressed_cases=0)
    assert passes(max_regressed_cases=len(comparison.regressed_case_ids))
    assert not passes(min_pass_rate=0.681)


def test_the_change_of_model_is_said_and_behaviour_explains_the_regressed_cases(
    comparison: Comparison,
) -> None:
    notice = f"The model changed from {agentdojo.GPT_4O} to {agentdojo.GPT_4O_MINI}."
    assert notice in comparison.behaviour.notices
    changes = {change.case_id: change for change in comparison.behaviour_changes}
    for case_id in comparison.regressed_case_ids:
        change = changes[case_id]
        assert change.model_changed
        assert change.calls_changed or change.output_changed
        assert [step.tool for step in change.calls if step.kind != "removed"] == (
            change.candidate_calls if change.calls_changed else []
        )
        assert all(step.arguments for step in change.calls if step.kind == "arguments")

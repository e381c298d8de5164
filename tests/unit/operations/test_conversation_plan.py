"""`plan`: turns and padding, evaluations, calls and their cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.suites import plan_text
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.operations.suites import plan_suite

EXAMPLE = Path(__file__).parents[2] / "fixtures" / "aui" / "specification-example.json"


def suite(tmp_path: Path, **changes: Any) -> Path:
    payload = {**json.loads(EXAMPLE.read_text()), **changes}
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(payload))
    return path


def test_the_example_of_the_specification_is_planned() -> None:
    plan = plan_suite(EXAMPLE, llm_model="gpt-4o", loops=2)
    assert plan["agent"] == "aui:your-agent-id"
    [test] = plan["tests"]
    assert (test["turns"], test["fixed"], test["simulated"], test["padding"]) == (7, 1, 1, 5)
    assert plan["evaluations"] == {
        "strict": dict.fromkeys(
            ["not_escalated", "not_escalated_due_to_error", "param_exists", "rule_triggered", "tool_used"], 1
        ),
        "llm": 1,
    }
    assert plan["agent_calls_at_most"] == 14
    assert plan["model_calls"] == {"judge": 2, "simulate_at_most": 12}
    # For one loop gpt-4o reads 1,750 tokens as judge and 6 x 1,225 as user, and writes 300 and 6 x 60.
    judges, users = 2 * (1750 * 2.5e-6 + 300 * 1e-5), 2 * (6 * 1225 * 2.5e-6 + 360 * 1e-5)
    assert plan["estimated_costs_usd_at_most"] == {
        "agent": None,
        "judges": pytest.approx(judges, abs=1e-4),
        "simulated_users": pytest.approx(users, abs=1e-4),
    }
    assert plan_text(plan)[-1].startswith(
        "Cost: at most about 0.01 USD for the judge and 0.04 USD for the user; "
    )


def test_the_judge_is_the_operators_the_suites_or_the_providers(tmp_path: Path) -> None:
    path = suite(tmp_path, judgeModel="gpt-4o")
    assert plan_suite(path, llm_model="other")["model"] == "other"
    assert plan_suite(path)["model"] == "gpt-4o"
    assert plan_suite(EXAMPLE)["model"].startswith("gpt")
    assert plan_suite(EXAMPLE, provider="anthropic")["model"].startswith("claude")


def test_a_model_without_a_price_has_no_cost_until_it_is_stated() -> None:
    plan = plan_suite(EXAMPLE, llm_model="house-model-1")
    assert set(plan["estimated_costs_usd_at_most"].values()) == {None}
    assert "no price for this model: state it with --set prices=MODEL=INPUT/OUTPUT" in plan_text(plan)[-1]
    priced = plan_suite(EXAMPLE, llm_model="house-model-1", prices=["house=100/0"])
    assert priced["estimated_costs_usd_at_most"]["judges"] == pytest.approx(0.175)


def test_filters_leave_tests_out() -> None:
    assert plan_suite(EXAMPLE, tests=["SUPPORT"], tags=["billing"])["left_out"] == 0
    with pytest.raises(NothingMeasured):
        plan_suite(EXAMPLE, tags=["refunds"])


def test_a_faulty_suite_and_one_of_cases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="agentId must be a string"):
        plan_suite(suite(tmp_path, agentId=7))
    with pytest.raises(InvalidInput, match="may not read here"):
        plan_suite(suite(tmp_path, apiKey="${HOME_SECRET}"))
    cases = tmp_path / "cases.json"
    cases.write_text('{"dataset_id": "orders", "cases": [{"case_id": "a"}]}')
    with pytest.raises(InvalidInput, match="is a suite of cases"):
        plan_suite(cases)


def test_the_plan_is_readable() -> None:
    lines = plan_text(plan_suite(EXAMPLE, llm_model="gpt-4o"))
    assert lines[0] == "Customer Support Evaluations: 1 test"
    assert "    7 turns (1 fixed, 1 auto, 5 padding), 5 strict and 1 LLM; billing, no-escalation" in lines
    assert lines[-2] == "Calls of the model: 1 as judge, at most 6 as user"


def test_hostile_names_reach_no_terminal(tmp_path: Path) -> None:
    tests = json.loads(EXAMPLE.read_text())["tests"]
    path = suite(tmp_path, name="Evil\u202ename", tests=[{**tests[0], "tags": ["\u009b31m"]}])
    assert not {"\u202e", "\u009b"} & set("\n".join(plan_text(plan_suite(path, llm_model="x"))))

"""Running suites of conversations from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agent_eval
from agent_eval.contracts import case_policy, trials_result
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.run_conversations import conversation_results
from tests.factories import make_config, make_pack, make_result
from tests.unit.reports.situations import conversation

EXAMPLE = Path(__file__).parents[2] / "fixtures" / "aui" / "specification-example.json"
RULING = {"reasoning": "It is.", "evidence": [], "verdict": "passed"}


class Support(agent_eval.AgentAdapter):
    """Answers the first message as it should, judges everything as met, and says nothing more as the user."""

    def __init__(self, workflow: str = "BILLING_INQUIRY") -> None:
        self.workflow = workflow
        self.spawned: list[tuple[str, str, str, str | None]] = []
        self.messages: list[tuple[str, Any]] = []

    def spawn_session(self, agent_id: str, api_key: str, label: str, model: str | None = None) -> str:
        self.spawned.append((agent_id, api_key, label, model))
        return f"session-{len(self.spawned)}"

    def send_message(
        self, session_key: str, message: str, user_info: Any = None, timeout: float | None = None
    ) -> agent_eval.AgentResponse:
        self.messages.append((message, user_info))
        trace = {
            "context": {},
            "understanding": {"extracted_params": {"inquiry-type": "charge"}},
            "decisions": [{"type": "rule_triggered", "rule": {"code": "check-billing-eligibility"}}],
            "response": {"type": "answer"},
        }
        return agent_eval.AgentResponse("It was 29.99.", executed_workflows=[self.workflow], trace_info=trace)

    def call_judge(self, prompt: str, model: str | None = None) -> str:
        return json.dumps(RULING)

    def generate_user_message(self, prompt: str, model: str | None = None) -> str:
        return json.dumps({"message": "", "done": True, "reason": "goal"})


def test_the_example_of_the_specification_runs_with_an_adapter() -> None:
    adapter = Support()
    suite = {**json.loads(EXAMPLE.read_text()), "model": "small"}
    result = agent_eval.run_suite(adapter, suite)
    assert (result.suite, result.score, result.pass_rate) == ("Customer Support Evaluations", 100.0, 1.0)
    [(agent_id, key, label, model)] = adapter.spawned
    assert (agent_id, key, model) == ("your-agent-id", "your-api-key", "small")
    assert label.startswith("Basic support request")
    assert adapter.messages == [
        ("Hi, I have a question about my last charge.", suite["tests"][0]["userInfo"])
    ]
    text = agent_eval.format_suite_result(result)
    assert "# Customer Support Evaluations" in text
    assert "## By AUI Logic" in text


def test_a_worse_agent_scores_less_by_weight() -> None:
    result = agent_eval.run_suite(Support("OTHER"), EXAMPLE)
    assert result.score == pytest.approx(6 / 7 * 100)
    [test] = result.tests
    assert [each.strict for each in test.evaluations if not each.passed] == ["tool_used"]


def test_loops_and_filters_and_a_pack(tmp_path: Path) -> None:
    options = agent_eval.SuiteOptions(loops=2, tags=("billing",), tests=("BASIC",), pack=tmp_path / "pack")
    result = agent_eval.run_suite(Support(), str(EXAMPLE), options)
    assert [test.loop for test in result.tests] == [1, 2]
    assert open_pack(tmp_path / "pack").summary.passed_cases == 1
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"your-api-key" not in path.read_bytes(), path


def test_faults_and_filters_are_refused_as_everywhere() -> None:
    with pytest.raises(InvalidInput, match="agentId must be a string"):
        agent_eval.run_suite(Support(), {**json.loads(EXAMPLE.read_text()), "agentId": 7})
    with pytest.raises(NothingMeasured):
        agent_eval.run_suite(Support(), EXAMPLE, agent_eval.SuiteOptions(tags=("other",)))


def test_bundled_suites_are_found_by_path_and_by_name() -> None:
    assert (agent_eval.get_demo_agents_path() / "demo-agents" / "hr.json").is_file()
    assert (agent_eval.get_quack_agents_path() / "artlist" / "payment_issues_tda.json").is_file()
    assert (agent_eval.get_package_root() / "Demo Agents" / "eval_retail-agent_140426.json").is_file()
    result = agent_eval.run_suite(Support(), "demo:hr", agent_eval.SuiteOptions(tests=("payslip",)))
    assert result.suite == "HR Assistant"


def test_each_loop_has_its_own_turns_whichever_of_them_decides(tmp_path: Path) -> None:
    loops = [conversation("a", (f"Question {number}", "", f"Answer {number}")) for number in range(3)]
    case = {**loops[0], "trials": [{"trace": loop["trace"]} for loop in loops[1:]]}
    results = [make_result("a"), make_result("a", failed="policy"), make_result("a")]
    decided = trials_result(results, case_policy("all"))
    assert decided.trial == 1
    make_pack(tmp_path / "pack", [decided], cases=[case], config=make_config(), layout="compact")
    tests = conversation_results(tmp_path / "pack").tests
    assert [(test.loop, test.passed, test.turns[0].user, test.turns[0].agent) for test in tests] == [
        (1, True, "Question 0", "Answer 0"),
        (2, False, "Question 1", "Answer 1"),
        (3, True, "Question 2", "Answer 2"),
    ]

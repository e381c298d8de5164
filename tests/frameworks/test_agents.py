"""Agent objects of real frameworks get the verdicts that the same agent gets behind a function."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.frameworks.catalog import FRAMEWORKS
from tests.frameworks.model import FOUND, ORDER, serve_model

AGENTS = Path(__file__).parent / "agents"
PACKAGES = {
    "langgraph": "langgraph",
    "openai_agents": "agents.tool_guardrails",  # `agents` alone may be anyone's
    "pydantic_ai": "pydantic_ai",
    "crewai": "crewai",
    "google_adk": "google.adk",
    "strands": "strands",
    "agent_framework": "agent_framework",
    "smolagents": "smolagents",
    "llama_index": "llama_index.core",
    "autogen": "autogen_agentchat",
    "semantic_kernel": "semantic_kernel.agents",
}
"""Module of each framework's package."""
CASES: list[dict[str, Any]] = [
    {"case_id": "hello", "input": "Hello!", "regex_patterns": ["Hello"]},
    {"case_id": "weather", "input": "How is the weather in Lisbon?",
     "policy": {"required_tools": ["get_weather"]}, "regex_patterns": ["18 °C"]},
    {"case_id": "parallel", "input": "How is the weather, and where is order 7?",
     "policy": {"required_tools": ["get_weather", "lookup_order"], "forbidden_tools": ["delete_account"]},
     "expected_output": FOUND},
    {"case_id": "contract", "input": "Where is order 7?",
     "tool_contracts": {"lookup_order": {"args_schema": {"properties": {"number": {"const": 7}}}}},
     "policy": {"required_tools": ["lookup_order"]}},
    {"case_id": "forbidden", "input": "Where is order 8?",
     "policy": {"required_tools": [], "forbidden_tools": ["lookup_order"]}},
    {"case_id": "delete", "input": "Delete my account.",
     "policy": {"required_tools": [], "forbidden_tools": ["delete_account"]}, "regex_patterns": ["confirm"]},
    {"case_id": "raises", "input": "Where is order 13?", "policy": {"required_tools": ["lookup_order"]},
     "regex_patterns": ["order"]},
    {"case_id": "turns", "turns": [{"input": "I am Ada."}, {"input": "What is my name?"}],
     "regex_patterns": ["You are Ada"]},
]  # fmt: skip


def have(name: str) -> bool:
    """Whether the package of a framework is installed."""
    try:
        return importlib.util.find_spec(PACKAGES[name]) is not None
    except ImportError:
        return False


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.skipif(not have(name), reason=f"without {name}"))
        for name in PACKAGES
    ]
)
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serve_model() as url:
        yield url


@dataclass
class Run:
    """What a run said and left."""

    code: int
    text: str
    out: Path
    ran: list[str]

    def outcomes(self) -> dict[str, list[dict[str, str]]]:
        """By case, the outcome of each judge that had something to judge, for each trial."""
        found = {case: self._read(case) for case in self.cases()}
        return {case: [_judged(trial) for trial in row["trials"] or [row]] for case, row in found.items()}

    def cases(self) -> list[str]:
        return sorted(each.name for each in (self.out / "cases").iterdir())

    def _read(self, case: str, name: str = "verdicts") -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.out / "cases" / case / f"{name}.json").read_text())
        return value

    def events(self, case: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self._read(case, "trajectory")["trace"]
        return events

    def told(self, case: str) -> list[tuple[str, Any]]:
        """Each event in short: its type, and what it is of; without those that only have a model's usage."""
        return [
            (
                event["type"],
                event.get("tool", "").rpartition("-")[2] or event.get("output") or event.get("input"),
            )
            for event in self.events(case)
            if event["type"] != "model_call"
        ]

    def problem(self, case: str) -> str:
        return str(self.events(case)[-1]["error"])


def _judged(trial: dict[str, Any]) -> dict[str, str]:
    rows = trial["verdicts"]
    return {row["judge_id"]: row["outcome"] for row in rows if row["outcome"] != "skipped"}


@pytest.fixture
def run(framework: str, run_of: Any) -> Any:
    """Run cases on what the framework's module of agents names so."""
    return run_of(framework)


@pytest.fixture
def run_of(model: str, tmp_path: Path) -> Any:
    def run_agent(
        framework: str, name: str, cases: list[dict[str, Any]], *options: str, kind: str = "python:"
    ) -> Run:
        suite, number = tmp_path / "cases.json", len(list(tmp_path.iterdir()))
        out, ran = tmp_path / f"out-{number}", tmp_path / f"ran-{number}"
        text = json.dumps({"dataset_id": "d", "metadata": {"schema_version": "1.2.0"}, "cases": cases})
        if framework == "semantic_kernel":  # whose models see the plugin before a tool's name
            text = re.sub(r'"(get_weather|lookup_order|delete_account)"', r'"shop-\1"', text)
        suite.write_text(text)
        ran.write_text("")
        environ = {
            **os.environ, "OPENAI_BASE_URL": model, "OPENAI_API_BASE": model, "OPENAI_API_KEY": "x",
            "RAN": str(ran),
        }  # fmt: skip
        agent = f"{kind} {AGENTS}/my_{framework}.py:{name}".replace("python: ", "python:")
        command = [sys.executable, "-m", "agent_eval", "run", str(suite), "--agent", agent, "--out", str(out)]
        command += ["--set", "limits.attempt.seconds=600"]  # many import a lot, for each attempt of a program
        done = subprocess.run(
            [*command, *options], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return Run(done.returncode, done.stdout + done.stderr, out, ran.read_text().split())

    return lambda framework: functools.partial(run_agent, framework)


ENDS_AT_A_TOOL_THAT_RAISES = {"langgraph", "pydantic_ai", "google_adk"}
"""Frameworks that do not tell their model of it, as the others and the function do."""


@pytest.mark.parametrize("name", ["good", "worse"])
def test_verdicts_are_those_of_the_same_agent_behind_a_function(
    run: Any, run_of: Any, framework: str, name: str
) -> None:
    options = ("--trials", "3", "--parallel", "8")
    by_object, by_function = run(name, CASES, *options), run_of("function")(name, CASES, *options)
    outcomes, expected = by_object.outcomes(), by_function.outcomes()
    passed = {case for case, trials in outcomes.items() if {*trials[0].values()} == {"passed"}}
    if name == "good" and framework in ENDS_AT_A_TOOL_THAT_RAISES:
        assert {trial["execution"] for trial in outcomes.pop("raises")} == {"error"}
        del expected["raises"]
    assert outcomes == expected, by_object.text
    if name == "good":
        assert {"hello", "weather", "parallel", "contract", "delete", "turns"} <= passed
        assert "forbidden" not in passed
    else:
        assert not {"weather", "parallel", "contract", "delete", "turns"} & passed


NO_TOKENS = {"strands": {"reasoning_tokens"}, "smolagents": {"cached_tokens", "reasoning_tokens"}}
NO_PLACE = {
    "langgraph": "of a graph's tools only where it is built",
    "llama_index": "have no place",
    "autogen": "have no place",
}
"""Of those that refuse answers of a case: in which words."""
STUBBED = {
    "case_id": "c",
    "input": "Where is order 7?",
    "metadata": {"tool_responses": {"lookup_order": {"status": "lost"}}},
}


def test_everything_that_it_did_is_recorded(run: Any, framework: str) -> None:
    done = run("good", [CASES[2], CASES[6]])
    assert done.told("parallel") == [
        ("message", CASES[2]["input"]), ("tool_call", "get_weather"), ("tool_call", "lookup_order"),
        ("tool_result", "get_weather"), ("tool_result", "lookup_order"),
        ("message", CASES[2]["expected_output"]),
    ]  # fmt: skip
    _, call, order, weather_result, *_, answer = done.events("parallel")
    assert (call["input"], order["input"]) == ({"city": "Lisbon"}, {"number": 7})
    usage = {"input_tokens": 100, "output_tokens": 20, "cached_tokens": 64, "reasoning_tokens": 8}
    usages = [event["usage"] for event in done.events("parallel") if "usage" in event]
    assert usages == [{name: usage[name] for name in usage.keys() - NO_TOKENS.get(framework, set())}] * 2
    assert weather_result["call_id"] == call["call_id"]
    assert "celsius" in json.dumps(weather_result["output"])
    assert call["model"].startswith("good")
    assert answer["latency_ms"] > 0
    failed = next(event for event in done.events("raises") if event["type"] == "tool_result")
    assert "there is no order 13" in failed["error"]


def test_a_structured_answer_is_the_answer_and_no_call(run: Any, run_of: Any, framework: str) -> None:
    if framework == "smolagents":
        pytest.skip("it has no structured answers")
    case = {
        "case_id": "order", "input": "Where is order 7?", "expected_output": ORDER,
        "policy": {"required_tools": ["lookup_order"]},
        "json_schema": {"type": "object", "required": ["status", "celsius"]},
    }  # fmt: skip
    done = run("structured", [case])
    assert done.code == 0, done.text
    assert done.outcomes() == run_of("function")("structured", [case]).outcomes()
    assert done.events("order")[-1]["output"] == ORDER
    assert [tool for kind, tool in done.told("order") if kind == "tool_call"] == ["lookup_order"]


@pytest.mark.parametrize("name", ["nested", "nested_in_a_tool"])
def test_a_forbidden_call_of_an_agent_that_is_a_tool_fails(run: Any, name: str) -> None:
    forbids = {"required_tools": [], "forbidden_tools": ["lookup_order"]}
    done = run(name, [{"case_id": "nested", "input": "Where is order 7?", "policy": forbids}])
    assert done.ran == ["lookup_order"], done.text
    assert done.outcomes()["nested"][0]["policy"] == "failed"
    results = [tool for kind, tool in done.told("nested") if kind == "tool_result"]
    assert sorted(results) == ["ask_orders", "lookup_order"]
    assert done.told("nested")[-1] == ("message", "It is on its way.")


CUT = "(cut off|max_output_tokens|MaxTokens)"
REFUSED = "(refus|Refus|content.filter|None or empty|NO_CONTENT|without an answer)"
ENDLESS = "did not come to an end within 4 steps"
UNTOLD = ("agent_framework", "semantic_kernel")
"""They answer with the words of a refusal, and do not tell that they are one."""


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("good", {"Tell me everything.": CUT, "Tell me a secret.": REFUSED, "Ask for ever.": ENDLESS}),
        ("broken", {"Hello!": "raised .*Error.*broken|ServiceResponseException.*broken"}),
    ],
)
def test_an_agent_that_comes_to_no_answer_fails_by_its_own_fault(
    run: Any, framework: str, name: str, problems: dict[str, str]
) -> None:
    cases = [
        {"case_id": f"c{number}", "input": words, "regex_patterns": ["."]}
        for number, words in enumerate(problems)
        if framework not in UNTOLD or "secret" not in words
    ]
    done = run(name, cases, "--set", "limits.attempt.steps=4")
    for case in cases:
        is_endless = framework == "smolagents" and name == "good"  # whatever is no call makes it ask again
        problem = ENDLESS if is_endless else problems[case["input"]]
        assert re.search(problem, done.problem(case["case_id"]), re.DOTALL), done.events(case["case_id"])
    assert done.code == 4, done.text  # none of the cases could be judged
    if name == "broken":
        assert "Traceback" in (done.out / "cases" / "c0" / "artifacts" / "attempt-0-stderr.txt").read_text()


def test_answers_of_the_case_take_the_place_of_tools(run: Any, framework: str) -> None:
    done = run("good", [STUBBED])
    if framework in NO_PLACE:
        assert done.code == 2
        assert NO_PLACE[framework] in done.text
        return
    assert (done.code, done.ran) == (0, []), done.text
    result = next(event for event in done.events("c") if event["type"] == "tool_result")
    assert result["output"] == {"status": "lost"}
    assert result["attributes"] == {"agent_eval.tool_response.source": "tool_responses"}


def test_a_ci_job_runs_it_as_a_program(run: Any, framework: str) -> None:
    """Which sees only the variables that it is given."""
    names = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY", "RAN")
    options = [option for name in names for option in ("--agent-env", name)]
    program = f"{sys.executable} -m agent_eval.agents.program"
    cases = [case for case in CASES if case["case_id"] in ("parallel", "turns")]
    done = run("good", [*cases, STUBBED], "--set", "agent.keep_alive=true", *options, kind=program)
    outcomes = done.outcomes()
    del outcomes["c"]
    assert outcomes == run("good", cases).outcomes(), done.text
    assert sorted(done.ran) == [
        "get_weather",
        "lookup_order",
    ]  # in parallel, and none for the case with answers
    if framework in NO_PLACE:
        assert NO_PLACE[framework] in done.problem("c")
    else:
        outputs = [event["output"] for event in done.events("c") if event["type"] == "tool_result"]
        assert outputs == [{"status": "lost"}]


GUARDED = {
    "openai_agents": ("a secret", "InputGuardrailTripwireTriggered", "it asks for a secret", "no_secrets"),
    "crewai": ("hello", "Task failed guardrail validation", "it is not polite", "polite"),
}


def test_a_tripped_guardrail_is_recorded(run: Any, framework: str) -> None:
    if framework not in GUARDED:
        pytest.skip("has no guardrails of its own")
    what, problem, output, reason = GUARDED[framework]
    done = run("guarded", [{"case_id": "c", "input": f"Tell me {what}.", "regex_patterns": ["."]}])
    assert problem in done.problem("c")
    blocked = next(event for event in done.events("c") if event["type"] == "guardrail")
    assert (blocked["output"], blocked["block_reason"]) == (output, reason)


@pytest.mark.skipif(not have("crewai"), reason="without crewai")
def test_a_crew_takes_the_case_as_its_input(run_of: Any) -> None:
    run = run_of("crewai")
    scaffolded = run("Scaffolded", CASES[1:2])
    assert scaffolded.code == 0, scaffolded.text
    assert scaffolded.outcomes()["weather"][0]["policy"] == "passed"
    no_place, turns = run("without_a_place", CASES[:1]), run("whole_crew", CASES[-1:])
    assert (no_place.code, turns.code) == (2, 2)
    assert "Write {input} into the description" in no_place.text
    assert "a crew has no conversation; an agent alone has" in turns.text


def test_every_framework_that_is_supported_is_tested() -> None:
    assert {row.module for row in FRAMEWORKS if row.module} == PACKAGES.keys()
    for name in PACKAGES:
        assert (AGENTS / f"my_{name}.py").is_file()

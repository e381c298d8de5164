"""Agent objects of frameworks are recognised by their classes, and run without a framework being installed.

`tests/frameworks` runs those of the real packages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent_eval.agents.base import AttemptResult, SessionSoFar
from agent_eval.agents.catalog import open_agent
from agent_eval.agents.frameworks.catalog import FRAMEWORKS, Framework, framework_of
from agent_eval.agents.load import load_agent, load_function
from agent_eval.contracts import AttemptLimits
from agent_eval.errors import FailureKind, UsageError
from tests.unit.agents.robots import put_robots
from tests.unit.agents.tasks import attempt, make_task, told

CLASSES = [(name, row) for row in FRAMEWORKS for name in row.classes]
UNSUPPORTED = [(name, row) for name, row in CLASSES if row.module is None]


def agent_class(name: str) -> type:
    """A class as the framework names it, whose objects can be called."""
    module, _, own = name.rpartition(".")
    return type(own, (), {"__module__": module, "__qualname__": own, "__call__": lambda self, task: "Done."})


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], str]:
    """Put an object where `project_agents:agent` names it."""

    def put(agent: object) -> str:
        own = ModuleType("project_agents")
        own.agent = agent  # type: ignore[attr-defined]  # a module takes any attribute
        monkeypatch.setitem(sys.modules, "project_agents", own)
        return "project_agents:agent"

    return put


@pytest.mark.parametrize(("name", "row"), CLASSES)
def test_an_agent_is_recognised_by_its_classes_alone(name: str, row: Framework) -> None:
    subclass = type("Mine", (agent_class(name),), {"__module__": "project_agents"})
    assert framework_of(subclass()) is row
    assert framework_of(subclass) is None


@pytest.mark.parametrize(("name", "row"), UNSUPPORTED)
def test_one_that_is_not_supported_is_refused_by_name(
    name: str, row: Framework, project: Callable[[object], str]
) -> None:
    with pytest.raises(UsageError) as refused:
        load_agent(project(agent_class(name)()))
    assert f"is an agent of {row.name}" in str(refused.value)
    assert refused.value.remedy == row.remedy


@pytest.mark.parametrize(("name", "row"), CLASSES)
def test_one_is_no_tool_server(name: str, row: Framework, project: Callable[[object], str]) -> None:
    with pytest.raises(UsageError, match=f"is an agent of {row.name}, not a function"):
        load_function(project(agent_class(name)()), what="tool server")


def test_one_whose_framework_is_not_there_says_what_to_install(project: Callable[[object], str]) -> None:
    with pytest.raises(UsageError) as refused:
        load_agent(project(agent_class("langgraph.pregel.main.Pregel")()))
    assert "No module named 'langchain_core'" in str(refused.value)
    assert "Install what has the module langchain_core" in refused.value.remedy


def test_a_callable_object_of_a_projects_own_is_a_function(project: Callable[[object], str]) -> None:
    own = agent_class("agents.Agent")()
    assert load_agent(project(own)) is own


@pytest.fixture(autouse=True)
def robots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework of this test's own, in the file that names its agents."""
    put_robots(tmp_path)
    monkeypatch.chdir(tmp_path)


def ask(said: Any, name: str = "robots.py:robot", **options: Any) -> AttemptResult:
    return attempt(f"python:{name}", said, **options)


USER, THOUGHT = ("user", "message", None), ("agent", "reasoning", None, "hm", None)


def short(result: AttemptResult) -> list[tuple[Any, ...]]:
    first, second, *rest = told(result)
    assert (first[:3], second) == (USER, THOUGHT)
    return rest


@pytest.mark.parametrize("name", ["robots:robot", "robots.py:robot", "./robots.py:robot", "robots:make"])
def test_an_object_is_asked_by_module_file_or_maker(name: str) -> None:
    assert short(ask("Hi", name)) == [("agent", "message", None, "['Hi']", None)]


def test_parallel_calls_are_recorded_with_their_results_in_the_order_of_the_calls() -> None:
    result = ask("parallel")
    assert short(result) == [
        ("agent", "reasoning", None, "Two.", None),
        ("agent", "message", None, "Both.", None),
        ("agent", "tool_call", "a", {"n": 1}, None),
        ("agent", "tool_call", "b", [1, 2], "no JSON"),
        ("tool", "tool_result", "a", "one", None),
        ("tool", "tool_result", "b", {"at": "<class 'robots.Robot'>"}, None),
        ("agent", "message", None, "['parallel']", None),
    ]
    assert result.events[3].model == "m"
    assert result.events[-1].latency_ms == 0  # by the clock of the run
    assert [call["tool"] for call in result.tool_calls] == ["a", "b"]


def test_a_structured_answer_by_a_call_is_the_answer_and_no_call() -> None:
    by_call = [row[1:4] for row in short(ask("structured"))]
    assert by_call == [("model_call", None, None), ("message", None, {"n": 1})]
    assert short(ask("written")) == [("agent", "message", None, {"n": 1}, None)]
    named = ask("structured", final_output_tool="Answer")
    assert named.output == {"n": 1}
    assert short(named)[0][1:3] == ("tool_call", "Answer")


@pytest.mark.parametrize(
    ("said", "failure", "problem"),
    [
        ("crash", FailureKind.AGENT_ERROR, "raised ValueError: no "),
        ("leave", FailureKind.AGENT_ERROR, "raised SystemExit: 3"),
        ("cut", FailureKind.OUTPUT_LIMIT, "answer was cut off (it stopped for: length)"),
        ("odd", FailureKind.AGENT_ERROR, "stopped for an unknown reason: tired"),
        ("nothing", FailureKind.MISSING_OUTPUT, "came to an end without an answer"),
        ("loop", FailureKind.BUDGET_EXCEEDED, "did not come to an end within 3 steps"),
    ],
)
def test_one_that_comes_to_no_answer_keeps_what_it_did(said: str, failure: FailureKind, problem: str) -> None:
    result = ask(said, limits=AttemptLimits(steps=3))
    assert result.failure is failure
    assert problem in result.problem
    if said == "crash":
        assert [row[1:] for row in short(result)[:3]] == [
            ("message", None, "I try.", None),
            ("tool_call", "shut", {}, None),
            ("tool_result", "shut", None, "OSError: closed"),
        ]
        assert b'raise ValueError("no' in result.artifacts["stderr.txt"]
    if said == "loop":
        ids = [event.call_id for event in result.events if event.type == "tool_call"]
        assert ids == ["same", "same-2", "same-3", "same-4"]


def test_a_conversation_goes_on_and_each_attempt_has_its_own() -> None:
    agent = open_agent("python:robots.py:robot")
    answers = []
    for session, turn, said in [("a", 1, "x"), ("b", 1, "y"), ("a", 2, "z"), ("b", 2, "where")]:
        answers.append(attempt(agent, said, session=SessionSoFar(session, turn)).output)
        if turn == 2:
            agent.end_session(session)
    lost = attempt(agent, "more", session=SessionSoFar("a", 3))
    assert lost.failure is FailureKind.AGENT_ERROR
    again = attempt(agent, "where").output
    agent.close()
    assert answers[:3] == ["['x']", "['y']", "['x', 'z']"]
    assert answers[3].startswith("['y', 'where']")
    assert answers[3].split()[-1] == again.split()[-1]  # one loop for all


def test_one_that_keeps_its_conversation_has_one_at_a_time() -> None:
    agent = open_agent("python:robots.py:lonely")

    def hold(number: int) -> list[Any]:
        turns = [SessionSoFar(str(number), turn) for turn in (1, 2)]
        outputs = [attempt(agent, "overlaps", session=turn).output for turn in turns]
        agent.end_session(str(number))
        return outputs

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(hold, range(4))) == [["1 overlaps"] * 2] * 4
    agent.close()


@pytest.mark.parametrize("said", ["asks", "blocks"])
def test_answers_of_the_case_take_the_place_of_tools(said: str) -> None:
    result = ask(said, metadata={"tool_responses": {"lookup": {"error": "gone"}}})
    assert [row[1:] for row in short(result)] == [
        ("tool_call", "lookup", {"id": 7}, None),
        ("tool_result", "lookup", None, "gone"),
        ("message", None, {"error": "gone"}, None),
    ]
    assert result.events[3].attributes == {"agent_eval.tool_response.source": "tool_responses"}


@pytest.mark.parametrize(
    ("said", "result", "problem"),
    [("asks", "seen", ""), ("fails", "LookupError: gone", "raised LookupError: gone")],
)
def test_tools_run_where_the_case_has_no_answers(said: str, result: str, problem: str) -> None:
    done = ask(said)
    assert short(done)[1][1:4] == ("tool_result", "lookup", None if problem else result)
    assert (done.events[3].error, done.problem) == (result if problem else None, problem)


def test_an_agent_that_waits_for_a_human_fails() -> None:
    assert ask("waits").problem == "raised RuntimeError: it waits for a human: ['approve the refund']"


def test_a_method_of_a_framework_is_replaced_during_turns_alone() -> None:
    assert ask("patched").output == ["here", {"conversation": "of ours"}]
    assert ask("Hi", "robots:moves_first").output == "['Hi']"


def test_results_without_ids_go_to_the_call_with_the_same_arguments_or_else_to_the_first() -> None:
    result = ask("no ids")
    results = [row[1:4] for row in short(result)[2:4]]
    assert results == [("tool_result", "look", 3), ("tool_result", "look", 2)]
    usage = result.events[2].usage
    assert usage is not None
    counted = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens)
    assert counted == (3, 1, None, 7)


def test_calls_of_an_agent_in_a_thread_of_its_own_are_said_to_be_unread() -> None:
    unread, answer = ask("apart").events[2:]
    assert (unread.type, unread.attributes) == ("unread", {"agent_eval.unread": "tool call"})
    assert answer.type == "message"


def test_what_an_agent_cannot_carry_is_refused_before_it_runs() -> None:
    agent = open_agent("python:robots.py:unable")
    plain = make_task("hi").case
    answers = make_task("hi", metadata={"tool_responses": {"a": 1}}).case
    turns = make_task(None, turns=[{"input": "a"}, {"input": "b"}]).case
    assert [agent.refuse(case) for case in (plain, answers, turns)] == [None, "answers of tools", "turns"]
    agent.close()


@pytest.mark.parametrize(
    ("name", "problem", "remedy"),
    [
        ("robots:rowbot", "robots has no 'rowbot'; did you mean robot?", "with the name that"),
        ("nowhere.py:robot", "there is no file nowhere.py", "module:name or file.py:name"),
        ("robots:fails_to_make", "RuntimeError: no battery (", "that Python can import it"),
        ("robots:is_mute", "cannot be loaded: Mute (", "that Python can import it"),
        ("robots:number", "it is a builtins.int", "or an agent of LangGraph"),
    ],
)
def test_an_agent_that_cannot_be_loaded_says_why(name: str, problem: str, remedy: str) -> None:
    with pytest.raises(UsageError) as refused:
        ask("hi", name)
    assert problem in str(refused.value)
    assert remedy in refused.value.remedy


def test_a_module_that_misses_another_says_which(tmp_path: Path) -> None:
    (tmp_path / "needs.py").write_text("\nimport not_installed_anywhere\n")
    with pytest.raises(UsageError) as refused:
        ask("hi", "needs.py:agent")
    assert "No module named 'not_installed_anywhere'" in str(refused.value)
    assert "needs.py, line 2)" in str(refused.value)
    assert "Install what has the module not_installed_anywhere" in refused.value.remedy

"""The demonstration's agents by the AUI API, what catches each of their defects, and their bundled suites."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from agent_eval.agents.base import AgentOptions, Clocks, Surroundings, Task
from agent_eval.agents.catalog import open_agent
from agent_eval.agents.tools import CaseTools
from agent_eval.cli.main import main
from agent_eval.contracts import Case, Event, Trace
from agent_eval.contracts.aui import StrictKind
from agent_eval.contracts.conversation import FORWARDING
from agent_eval.contracts.turn_facts import facts_by_turn
from agent_eval.conversation.loop import Setting, attempt_case
from agent_eval.conversation.simulated_user import Simulation
from agent_eval.demo.agents import BUNDLED, DEFECTS, INVENTED, Session, domains_by_agent, forbidden_to
from agent_eval.demo.aui_server import DemoAgents, DemoServer, respond
from agent_eval.errors import NotEvaluable, UsageError
from agent_eval.http.client import Session as HttpSession
from agent_eval.http.errors import HttpError
from agent_eval.judges.builtin.strict import StrictJudge, check
from agent_eval.models.scripted import ScriptedModel
from agent_eval.suites.reader import open_suite
from agent_eval.suites.validate import validate_suite
from tests.extent import crossed

FILES = [
    path for folder in ("Demo Agents", "Quack Agents") for path in sorted((BUNDLED / folder).rglob("*.json"))
]
SUITES = {path.stem: path for path in FILES}
EXAMPLE = Path(__file__).parents[2] / "fixtures" / "aui" / "specification-example.json"
"""The example of the format's specification, for which the demonstration has an agent as well."""
# No step of a domain answers the first message; the second ends the conversation.
USER = [
    {"contains": "Zzz?", "object": {"message": "Zzz again.", "done": True, "reason": "goal"}},
    {"text": "Zzz?"},
]


@pytest.fixture(scope="module")
def served() -> Iterator[DemoServer]:
    with DemoServer(DemoAgents()) as server:
        yield server


def converse(server: DemoServer, case: Case, agent: str) -> Trace:
    """Hold the conversation of a case with an agent of the server."""
    options = AgentOptions(environ={"AUI_API_KEY": "any"}, base_url=server.url)
    task = Task(case)
    surroundings = Surroundings(CaseTools(case), clocks=Clocks())
    with closing(open_agent(agent, options)) as opened:
        setting = Setting(Simulation(ScriptedModel(USER)))
        result = attempt_case(opened, task, surroundings, setting)
    assert result.failure is None, result.problem
    return Trace(result.events)


def failing(case: Case, trace: Trace) -> dict[str, list[str]]:
    """List the kinds of strict evaluations that fail, or cannot be told, by outcome."""
    turns = facts_by_turn(trace)
    found: dict[str, list[str]] = {"failed": [], "error": []}
    for evaluation in case.metadata["strict"]:
        outcome = check(evaluation, turns).outcome
        if outcome != "passed":
            found[outcome].append(evaluation["strict"])
    return found


@cache
def cases_of(suite: str) -> Sequence[Case]:
    return [case for _, case in open_suite(SUITES[suite]).cases()]


def agent_of(suite: str) -> str:
    return str(open_suite(SUITES[suite]).header.metadata["agent_id"])


@crossed(suite=sorted(SUITES), defect=sorted(DEFECTS))
def test_a_defect_is_caught_by_the_checks_that_should_and_by_no_other(suite: str, defect: str) -> None:
    expected = DEFECTS[defect].caught_by
    caught: set[str] = set()
    with DemoServer(DemoAgents([defect])) as server:
        for case in cases_of(suite):
            found = failing(case, converse(server, case, f"aui:{agent_of(suite)}"))
            assert found["error"] == [], case.case_id
            assert set(found["failed"]) <= expected, case.case_id
            caught.update(found["failed"])
    kinds = {each["strict"] for case in cases_of(suite) for each in case.metadata["strict"]}
    assert caught == expected & kinds


def test_every_strict_check_is_the_one_that_catches_some_defect() -> None:
    caught = set().union(*(defect.caught_by for defect in DEFECTS.values()))
    assert caught == set(get_args(StrictKind))


def test_an_unknown_agent_or_defect_is_refused_with_those_that_exist(served: DemoServer) -> None:
    with pytest.raises(NotEvaluable, match="demo-hr"):
        converse(served, cases_of("hr")[0], "aui:nobody")
    with pytest.raises(UsageError, match="no defect 'lazy'"):
        DemoAgents(["lazy"])


EXTERNAL = "/api/v1/external"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "tasks", {}, 422),
        ("POST", "message", {"task_id": "x"}, 422),
        ("POST", "message", {"task_id": "x", "text": "hi"}, 404),
        ("GET", "tasks/x/messages/message-1/trace-info", {}, 404),
        ("PUT", "tasks", {}, 404),
    ],
)
def test_requests_that_the_api_refuses(method: str, path: str, body: dict[str, Any], status: int) -> None:
    assert respond(DemoAgents(), method, f"{EXTERNAL}/{path}", body, "any")[0] == status
    expected = 404 if method == "PUT" else 401
    assert respond(DemoAgents(), method, f"{EXTERNAL}/{path}", body, None)[0] == expected


@pytest.mark.parametrize(
    ("query", "members"),
    [
        ("", None),
        ("include_trace_info=true", {"context", "decisions", "understanding"}),
        ("include_business_trace=true", {"decisions", "understanding"}),
        ("include_context_trace=True&include_trace_info=false", {"context", "decisions"}),
    ],
)
def test_the_trace_has_what_the_request_asks_for(query: str, members: set[str] | None) -> None:
    agents = DemoAgents()
    body = {
        "task_id": agents.begin("demo-hr"),
        "text": "I need three weeks of vacation in September.",
        "agent_variables": {"leave_balance_days": "2"},
    }
    _, message = respond(agents, "POST", f"{EXTERNAL}/message?{query}", body, "any")
    if members is None:
        assert "trace_info" not in message
        return
    trace = message["trace_info"]
    assert {"context", "decisions", "understanding"} & trace.keys() == members
    kinds = {decision["type"] for decision in trace["decisions"]}
    assert ("call_integration" in kinds) == ("context" in members)
    assert ("rule_triggered" in kinds) == ("understanding" in members)


def test_a_trace_can_be_read_again() -> None:
    agents = DemoAgents()
    task_id = agents.begin("demo-hr")
    agents.say(task_id, "I'm sick and can't come in today.", {})
    path = f"{EXTERNAL}/tasks/{task_id}/messages/message-1/trace-info"
    _, trace = respond(agents, "GET", f"{path}?include_business_logic=true", {}, "any")
    assert trace["input"]["message"] == "I'm sick and can't come in today."


def test_bodies_that_are_no_object_or_too_large_are_refused(served: DemoServer) -> None:
    session = HttpSession(served.url, secret_headers={"x-network-api-key": "any"})
    with pytest.raises(HttpError) as refused:
        session.request("POST", "/api/v1/external/tasks", json=[1])
    assert refused.value.status == 422
    address = served.url.removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1]))) as raw:
        raw.sendall(b"POST /api/v1/external/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


def test_what_the_suites_forbid_is_known() -> None:
    assert "COMPENSATION_LOOKUP" in forbidden_to("demo-hr").workflows
    assert forbidden_to("nobody").params == ()
    agents = DemoAgents(["invents-parameters"])
    answer = agents.say(agents.begin("demo-hr"), "Zzz", {})
    assert answer.params == dict.fromkeys(forbidden_to("demo-hr").params, INVENTED)
    rude = DemoAgents(["rude"])
    assert "stop bothering me" in rude.say(rude.begin("demo-hr"), "Zzz", {}).text


def test_the_command_lists_its_defects_and_refuses_what_it_cannot_serve(
    served: DemoServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo-agent", "--defect", "list"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == list(DEFECTS)
    for words, says in (
        (["--defect", "lazy"], "Name one of"),
        (["--port", served.url.rpartition(":")[2]], "--port"),
    ):
        assert main(["demo-agent", *words]) == 2
        assert says in capsys.readouterr().err


def answers(case: Case, agent_id: str) -> list[str]:
    """Say the fixed messages of a case, until the first that is simulated or the end of the conversation."""
    assert case.conversation is not None
    session, texts = Session(domains_by_agent()[agent_id]), list[str]()
    for turn in case.turns:
        if turn.auto:
            break
        answer = session.answer(turn.input, case.conversation.user_info)
        texts.append(answer.text)
        if answer.is_error or FORWARDING in answer.workflows:
            break
    return texts


@pytest.mark.parametrize("path", SUITES.values(), ids=list(SUITES))
def test_a_bundled_suite_is_valid_and_realistic(path: Path) -> None:
    report = validate_suite(path)
    assert report.errors == []
    assert report.warnings == []
    cases = [case for _, case in open_suite(path).cases()]
    assert len(cases) >= 6
    for case in cases:
        assert case.metadata["tags"]
        assert case.metadata["strict"]
        assert case.metadata["llm"]
        evaluations = [*case.metadata["strict"], *case.metadata["llm"]]
        assert all("category" in evaluation for evaluation in evaluations)
        assert case.conversation is not None
        assert case.conversation.guidelines
        assert any(turn.auto for turn in case.turns)
    logic = [rule for case in cases for each in case.metadata["strict"] for rule in each.get("aui_logic", [])]
    assert len(set(logic)) >= 3


@pytest.mark.parametrize("path", SUITES.values(), ids=list(SUITES))
def test_an_agent_that_knows_nothing_fails_in_every_test(path: Path) -> None:
    trace_info = {"context": {}, "understanding": {"extracted_params": {}}, "decisions": [], "response": {}}
    knows_nothing = {"aui": {"executed_workflows": [], "trace_info": trace_info}}
    said = {"actor": "agent", "type": "message", "output": "I do not know.", "attributes": knows_nothing}
    trace = Trace([Event(idx=0, **said)])
    for _, case in open_suite(path).cases():
        assert not StrictJudge().evaluate(case, trace).passed, case.case_id


def test_every_domain_is_that_of_a_suite() -> None:
    agents = {open_suite(path).header.metadata["agent_id"] for path in [*FILES, EXAMPLE]}
    assert agents == set(domains_by_agent())
    assert len(agents) == len(list((BUNDLED / "domains").glob("*.json")))


def test_every_step_of_a_domain_answers_a_message_of_its_suites() -> None:
    texts: dict[str, set[str]] = {}
    for path in [*FILES, EXAMPLE]:
        suite = open_suite(path)
        agent_id = suite.header.metadata["agent_id"]
        for _, case in suite.cases():
            texts.setdefault(agent_id, set()).update(answers(case, agent_id))
    for agent_id, given in texts.items():
        steps = domains_by_agent()[agent_id].steps
        unused = [step.reply for step in steps if not any(_may_be(step.reply, text) for text in given)]
        assert unused == [], agent_id


def _may_be(reply: str, text: str) -> bool:
    """Tell whether a text is a reply with the values of variables filled in."""
    return re.fullmatch(re.sub(r"\\{\w+\\}", ".*", re.escape(reply)), text) is not None


def test_no_two_suites_have_the_same_name() -> None:
    assert len({open_suite(path).header.dataset_id for path in FILES}) == len(SUITES) == len(FILES)

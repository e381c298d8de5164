"""Agents and models that are functions of a Python object, and the one of an AUI agent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agent_eval
from agent_eval.agents.adapter import AdapterAgent, AdapterModel, AgentAdapter, AgentResponse, AuiAdapter
from agent_eval.agents.base import AttemptResult
from agent_eval.contracts import Trace
from agent_eval.contracts.conversation import EndReason
from agent_eval.contracts.turn_facts import facts_by_turn
from agent_eval.conversation.loop import Setting, attempt_case
from agent_eval.conversation.simulated_user import Simulation
from agent_eval.errors import FailureKind, UsageError
from agent_eval.models.base import Message, ModelFailure, ModelRequest
from tests.fakes.aui import KEY, FakeAui, Fault
from tests.fakes.models import FakeOpenAi, Step
from tests.unit.agents.tasks import around, make_task
from tests.unit.conversation.agents import end_of, said

JUDGING = ModelRequest("judge", "Judge.", (Message("user", ("record", "criterion")),))
CONVERSATION = {"guidelines": "You want a refund.", "user_info": {"name": "Jane"}}


class Shop(AgentAdapter):
    """An adapter that remembers its calls."""

    def __init__(self, *answers: AgentResponse | Exception) -> None:
        self.answers = list(answers) or [AgentResponse("ok")]
        self.calls: list[tuple[Any, ...]] = []
        self.user = ["It is order 7.", "Thanks. ###STOP###"]

    def spawn_session(self, agent_id: str, api_key: str, label: str, model: str | None = None) -> Any:
        self.calls.append(("spawn", agent_id, api_key, label, model))
        return f"{label}-{len(self.calls)}"

    def send_message(
        self,
        session_key: str,
        message: str,
        user_info: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Any:
        self.calls.append(("send", session_key, message, user_info, timeout))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def call_judge(self, prompt: str, model: str | None = None) -> Any:
        return f"judged {prompt}"

    def generate_user_message(self, prompt: str, model: str | None = None) -> Any:
        self.calls.append(("user", prompt))
        return self.user.pop(0)


def awaited(function: Any) -> Any:
    async def later(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    return later


class AsyncShop(Shop):
    """The same, with functions that are awaited."""

    spawn_session = awaited(Shop.spawn_session)
    send_message = awaited(Shop.send_message)
    generate_user_message = awaited(Shop.generate_user_message)


class Mute(Exception):
    def __str__(self) -> str:
        raise OSError


def converse(adapter: AgentAdapter, **fields: Any) -> AttemptResult:
    given = {"given": None, "turns": [{"input": "Hello"}], "conversation": CONVERSATION, **fields}
    task = make_task(**given)
    agent = AdapterAgent(adapter, "shop", "key-1", model="small")
    setting = Setting(Simulation(AdapterModel(adapter)))
    return attempt_case(agent, task, around(task), setting)


@pytest.mark.parametrize("kind", [Shop, AsyncShop])
def test_an_adapter_holds_a_conversation_with_its_own_user(kind: type[Shop]) -> None:
    adapter = kind()
    result = converse(adapter)
    assert (result.failure, end_of(result).reason) == (None, EndReason.STOP)
    assert said(result) == ["Hello", "It is order 7.", "Thanks."]
    assert adapter.calls[0] == ("spawn", "shop", "key-1", "c1", "small")
    sent = [call for call in adapter.calls if call[0] == "send"]
    assert [call[1:4] for call in sent] == [("c1-1", text, {"name": "Jane"}) for text in said(result)]
    assert all(0 < call[4] <= 120 for call in sent)
    assert "key-1" not in json.dumps(AdapterAgent(adapter, "shop", "key-1").describe())


def test_workflows_and_trace_of_an_answer_are_what_strict_checks_read() -> None:
    trace = {"decisions": [{"type": "rule_triggered", "rule": {"code": "eligible"}}]}
    adapter = Shop(AgentResponse("Refunded.", ["REFUND"], trace))
    facts = facts_by_turn(Trace(converse(adapter, conversation={"max_turns": 1}).events))[0]
    assert (facts.tools.values, facts.rules.values) == (["REFUND"], ["eligible"])


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (ValueError("boom"), FailureKind.AGENT_ERROR),
        (Mute(), FailureKind.AGENT_ERROR),
        (TimeoutError("slow"), FailureKind.TIMEOUT),
        (ConnectionRefusedError("down"), FailureKind.INFRASTRUCTURE),
        ("text", FailureKind.AGENT_ERROR),
        (AgentResponse(""), FailureKind.MISSING_OUTPUT),
    ],
)
def test_what_an_adapter_raises_or_returns_instead_fails_the_turn(answer: Any, failure: FailureKind) -> None:
    result = converse(Shop(answer))
    assert (result.failure, end_of(result).turn) == (failure, 1)


def test_a_user_that_raises_is_a_failed_simulated_user() -> None:
    adapter = Shop()
    adapter.user = []
    result = converse(adapter)
    assert result.failure is FailureKind.SIMULATOR_ERROR
    assert "IndexError" in result.problem


def test_a_system_prompt_is_refused_because_an_adapter_has_no_place_for_it() -> None:
    agent = AdapterAgent(Shop(), "shop", "key-1")
    assert "system prompt" in agent.refuse(make_task("hi", conversation={"system_prompt": "Be brief."}).case)
    assert agent.refuse(make_task("hi", conversation={}).case) is None


def test_the_judge_of_an_adapter_gets_one_text() -> None:
    assert AdapterModel(Shop()).complete(JUDGING).text == "judged Judge.\n\nrecord\n\ncriterion"
    broken = AdapterModel(type("Odd", (Shop,), {"call_judge": lambda *_: 7})())
    with pytest.raises(ModelFailure, match="returned int"):
        broken.complete(JUDGING)


@pytest.fixture
def server() -> Iterator[FakeAui]:
    with FakeAui({"text": "Refunded.", "executed_workflows": ["REFUND"], "trace_info": {}}) as running:
        yield running


def test_an_aui_adapter_sends_and_judges_and_simulates(server: FakeAui, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    rows = [{"purpose": "judge", "text": "passed"}, {"purpose": "simulate", "text": "Hello!"}]
    script.write_text(json.dumps({"kind": "model_script", "schema_version": "1.2.0", "replies": rows}))
    adapter = agent_eval.create_aui_adapter(KEY, None, "scripted", base_url=server.url, llm_script=script)
    assert isinstance(adapter, AuiAdapter)
    session = adapter.spawn_session("agent-7", "", "refund")
    for text in ("Hello", "Thanks"):
        response = adapter.send_message(session, text, {"name": "Jane"})
        assert (response.text, response.executed_workflows) == ("Refunded.", ["REFUND"])
    assert {body["task_id"] for body in server.bodies("/message")} == {"task-1"}
    assert server.bodies("/message")[1]["agent_variables"] == {"name": "Jane"}
    assert (adapter.call_judge("?"), adapter.generate_user_message("?")) == ("passed", "Hello!")
    with pytest.raises(UsageError, match="no field"):
        adapter.spawn_session("agent-7", "", "refund", model="small")
    server.faults = [Fault("/message", 500)]
    with pytest.raises(ConnectionError):
        adapter.send_message(session, "Hello")
    adapter.close()


def test_a_name_that_the_package_does_not_export_is_no_attribute() -> None:
    with pytest.raises(AttributeError):
        agent_eval.no_such_name  # noqa: B018


def test_the_model_of_an_aui_adapter_is_asked_as_on_the_command_line() -> None:
    request = replace(JUDGING, reply_schema={"type": "object"})
    with FakeOpenAi(Step(text="{}")) as server:
        adapter = agent_eval.create_aui_adapter(KEY, "k", llm_model="small", llm_base_url=server.base_url)
        reply = AdapterModel(adapter).complete(request)
        adapter.close()
    (sent,) = server.requests
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert (sent["response_format"]["type"], sent["model"]) == ("json_schema", "small")
    assert (reply.text, reply.rung, reply.usage is not None) == ("{}", "json_schema", True)

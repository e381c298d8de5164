"""The agents behind the two generations of the AUI API: what is sent, what is recorded, what goes wrong."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from agent_eval.agents.aui import AuiAgent, AuiV3Agent
from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Clocks
from agent_eval.agents.catalog import agent_from_description, open_agent
from agent_eval.contracts import AttemptLimits, Event, Trace
from agent_eval.contracts.conversation import has_error_answer, is_escalation
from agent_eval.contracts.turn_facts import facts_by_turn
from agent_eval.conversation.loop import attempt_case
from agent_eval.errors import FailureKind, NotEvaluable, UsageError
from tests.fakes.aui import KEY, FakeAui, Fault
from tests.unit.agents.tasks import START, Retries, around, make_task, told

ORDERS = {
    "code": "orders", "type": "REST", "response": {"status": "paid"}, "status_code": 200,
    "requests": [{"name": "get", "url": "https://shop.example/7", "method": "GET"}],
    "latency": {"elapsed": 1.5, "unit": "second"},
}  # fmt: skip
DECISIONS = [
    {"type": "activate_tool", "tool": "REFUND"},
    {"type": "rule_triggered", "rule": {"type": "success", "code": "eligible", "action": "TEXT"}},
    {"type": "call_integration", "integration": ORDERS},
]
TRACE = {
    "input": {"message": "hi"}, "context": {}, "decisions": DECISIONS,
    "understanding": {"extracted_params": {"reason": "broken"}, "guardrails": {"passed": True}},
    "response": {"type": "answer", "message": "Refunded."},
}  # fmt: skip
REFUNDED = {"text": "Refunded.", "executed_workflows": ["REFUND"], "trace_info": TRACE}
ERROR_TRACE = {"response": {"type": "error", "error": "E42"}, "decisions": [], "context": {}}
TURNS = [{"input": "hi"}, {"input": "thanks"}]
USER = {"user_info": {"name": "Jane", "plan": "Pro"}, "max_turns": 2}


@pytest.fixture
def server() -> Iterator[FakeAui]:
    with FakeAui(REFUNDED) as running:
        yield running


def opened(server: FakeAui, kind: str = "aui", *, key: str = KEY, **parameters: Any) -> Agent:
    options = AgentOptions(environ={"AUI_API_KEY": key}, base_url=server.url, parameters=parameters)
    return open_agent(f"{kind}:agent-7", options)


def converse(
    agent: Agent, *, retry: Any = None, clocks: Clocks | None = None, **fields: Any
) -> AttemptResult:
    task = make_task(**{"given": None, "turns": TURNS, "conversation": USER, **fields})
    with closing(agent):
        return attempt_case(agent, task, around(task, retry=retry, clocks=clocks))


def ask(agent: Agent, **fields: Any) -> AttemptResult:
    return converse(agent, **{"given": "hi", "turns": [], "conversation": {**USER, "max_turns": 1}, **fields})


def aui_of(result: AttemptResult) -> list[Any]:
    return [event.attributes["aui"] for event in result.events if "aui" in event.attributes]


def test_v1_makes_one_task_and_sends_every_message_with_what_is_known_of_the_user(server: FakeAui) -> None:
    result = converse(opened(server))
    assert (result.failure, result.output) == (None, "Refunded.")
    (created,) = server.bodies("/tasks")
    assert created["agent"] == {"agent_id": "agent-7"}
    messages = server.bodies("/message")
    assert [body["text"] for body in messages] == ["hi", "thanks"]
    assert {body["task_id"] for body in messages} == {"task-1"}
    assert [body["agent_variables"] for body in messages] == [USER["user_info"]] * 2
    flags = next(query for _, path, query, _ in server.requests if path.endswith("/message"))
    assert flags == dict.fromkeys(
        ("is_external_api", "include_trace_info", "include_business_trace", "include_context_trace"), "true"
    )


def test_the_user_is_another_in_every_conversation_unless_pinned(server: FakeAui) -> None:
    for _ in range(2):
        converse(opened(server))
    converse(opened(server, user_id="user-1"))
    pinned = AgentOptions(environ={"AUI_API_KEY": KEY, "AUI_USER_ID": "user-2"}, base_url=server.url)
    converse(open_agent("aui:", pinned))
    users = [body["user_id"] for body in server.bodies("/tasks")]
    assert users[2:] == ["user-1", "user-2"]
    assert len({*users[:2], *users[2:]}) == 4
    assert "agent" not in server.bodies("/tasks")[-1]


def test_an_answer_is_recorded_with_what_the_agent_did(server: FakeAui) -> None:
    result = ask(opened(server))
    assert told(result)[1:-1] == [
        ("agent", "state", None, {"params": {"reason": "broken"}}, None),
        ("agent", "guardrail", None, {**DECISIONS[1]["rule"], "triggered": True}, None),
        ("agent", "tool_call", "orders", ORDERS["requests"], None),
        ("tool", "tool_result", "orders", {"status": "paid"}, None),
        ("agent", "tool_call", "REFUND", {}, None),
        ("tool", "tool_result", "REFUND", None, None),
        ("agent", "message", None, "Refunded.", None),
    ]
    assert result.events[4].latency_ms == 1500
    assert {event.ran_on for event in result.events if event.type == "tool_result"} == {"server"}
    assert aui_of(result) == [{"api": "v1", "executed_workflows": ["REFUND"], "trace_info": TRACE}]
    assert [pair.tool for pair in Trace(result.events).calls] == ["orders", "REFUND"]


@pytest.mark.parametrize(
    ("integration", "expected"),
    [
        ({"code": "a", "status_code": 500, "response": {"x": 1}},
         [("a", {}, {"x": 1}, "HTTP 500", "server")]),
        ({"code": "a", "error_message": "no route"}, [("a", {}, None, "no route", "server")]),
        ({"code": "a", "type": "RAG", "request": {"question": "?"}, "response": {"resources": []}},
         [("a", {"question": "?"}, {"resources": []}, None, "server")]),
        ({"code": "a", "type": "MCP", "tool_calls": [
            {"tool_name": "x", "request_parameters": {"q": 1}, "response": "ok"},
            {"tool_name": "y", "response": "denied", "is_error": True}]},
         [("x", {"q": 1}, "ok", None, "mcp:a"), ("y", {}, None, "denied", "mcp:a")]),
        ({"code": 7, "type": "MCP", "tool_calls": "odd"}, [("integration", {}, None, None, "server")]),
        ("odd", [("integration", {}, None, None, "server")]),
    ],
)  # fmt: skip
def test_each_kind_of_integration_is_a_call_with_its_result(integration: Any, expected: Any) -> None:
    trace = {"decisions": [{"type": "call_integration", "integration": integration}]}
    with FakeAui({"text": "ok", "trace_info": trace}) as server:
        pairs = Trace(ask(opened(server)).events).calls
    results = [(each.result.output, each.error, each.result.ran_on) for each in pairs]
    calls = [(each.tool, each.arguments) for each in pairs]
    assert [(*call, *result) for call, result in zip(calls, results, strict=True)] == expected


def test_forwarding_is_a_handover_to_a_human_and_no_tool() -> None:
    forwards = {"text": "A colleague will help.", "executed_workflows": ["CONVERSATION_FORWARDING_T2"]}
    with FakeAui(forwards) as server:
        result = ask(opened(server))
    assert [event.type for event in result.events] == ["message", "handoff", "message", "conversation_end"]
    assert any(map(is_escalation, result.events))
    assert not result.tool_calls


@pytest.mark.parametrize("text", [None, "Something went wrong."])
def test_an_answer_that_is_an_error_is_no_failed_attempt(text: str | None) -> None:
    with FakeAui({"text": text, "trace_info": ERROR_TRACE}) as server:
        result = ask(opened(server))
    assert (result.failure, result.output) == (None, text or "E42")
    ends = [(event.type, event.error) for event in result.events[1:-1]]
    assert ends == [("error", "E42"), ("message", None)]
    assert has_error_answer(result.events)


@pytest.mark.parametrize(
    ("message", "output", "failure"),
    [
        ({"text": " ", "trace_info": {"response": {"message": "From the trace."}}}, "From the trace.", None),
        ({"text": "", "cards": [{"title": "Car"}]}, {"cards": [{"title": "Car"}]}, None),
        ({"text": ""}, None, FailureKind.MISSING_OUTPUT),
    ],
)
def test_an_answer_may_speak_through_its_trace_or_cards(message: Any, output: Any, failure: Any) -> None:
    with FakeAui(message) as server:
        result = ask(opened(server))
    assert (result.output, result.failure) == (output, failure)


@pytest.mark.parametrize("info", [None, [], "odd", {"decisions": "odd", "understanding": [], "response": 7}])
def test_a_trace_of_another_shape_is_kept_as_it_came(info: Any) -> None:
    with FakeAui({"text": "ok", "trace_info": info}) as server:
        result = ask(opened(server))
    assert result.output == "ok"
    assert aui_of(result)[0].get("trace_info") == info


def test_a_trace_that_is_not_in_the_answer_is_fetched(server: FakeAui) -> None:
    server.apart = True
    assert [each["trace_info"] for each in aui_of(converse(opened(server)))] == [TRACE, TRACE]


def test_the_time_of_an_answer_is_that_of_its_message_alone(server: FakeAui) -> None:
    server.apart = True
    squares = (float(number * number) for number in itertools.count())
    result = ask(opened(server), clocks=Clocks(lambda: START, lambda: next(squares)))
    assert result.events[-2].latency_ms == 5000  # its task took 1 s before, its trace 9 s afterwards


def test_the_welcome_message_is_no_answer() -> None:
    with FakeAui(REFUNDED, welcome="Welcome to the shop!") as server:
        result = converse(opened(server))
    assert (result.events[0].output, result.events[0].turn) == ("Welcome to the shop!", 1)
    assert len(aui_of(result)) == 2
    assert [turn.trace.final_output for turn in Trace(result.events).turns] == ["Refunded.", "Refunded."]


PATHS = {"aui": "/message", "aui-v3": "/messages"}
kinds = pytest.mark.parametrize("kind", PATHS)


@kinds
def test_busy_services_are_asked_again_after_the_wait_they_name(server: FakeAui, kind: str) -> None:
    path = PATHS[kind]
    server.faults = [
        Fault(path, 429, headers={"Retry-After": "3"}),
        Fault(path, 529),
        Fault(path, 403, b'{"message": "rate limit reached"}'),
    ]
    retry = Retries(most=6)
    result = converse(opened(server, kind), retry=retry)
    assert (result.failure, result.retries) == (None, 3)
    assert (retry.asked[0], retry.limited) == (3.0, [True, True, True])


@kinds
@pytest.mark.parametrize(
    ("fault", "failure", "problem"),
    [
        ({"status": 500, "body": b"boom"}, FailureKind.INFRASTRUCTURE, "answered with HTTP 500: boom"),
        ({"cut": True}, FailureKind.INFRASTRUCTURE, "could not be reached"),
        ({"body": b"<html>Sign in</html>", "headers": {"Content-Type": "text/html"}},
         FailureKind.INFRASTRUCTURE, "answered with a web page instead of JSON"),
        ({"body": b'{"text": '}, FailureKind.PARSE_ERROR, "gave no JSON"),
        ({"body": b"[]"}, FailureKind.TYPE_ERROR, "something else than an object"),
        ({"status": 422, "body": b'{"errors": [{"loc": ["body", "text"], "msg": "too long"}]}'},
         FailureKind.AGENT_ERROR, "answered with HTTP 422: body.text: too long"),
        ({"status": 404, "body": b'{"error": {"message": "gone"}}'},
         FailureKind.AGENT_ERROR, "HTTP 404: gone"),
    ],
)  # fmt: skip
def test_a_turn_without_an_answer_ends_the_attempt_with_its_kind(
    server: FakeAui, kind: str, fault: dict[str, Any], failure: FailureKind, problem: str
) -> None:
    server.faults = [Fault(PATHS[kind], after=after, **fault) for after in (1, 3)]  # also begun anew
    result = converse(opened(server, kind))
    assert result.failure is failure
    assert result.problem.startswith("in turn 2: ")
    assert problem in result.problem
    assert [event.turn for event in result.events if event.actor == "user"] == [1, 2]


@kinds
def test_a_service_that_hangs_is_a_timeout(server: FakeAui, kind: str) -> None:
    server.faults = [Fault(PATHS[kind], hang=5)]
    turns = [{"input": "hi", "timeout": 0.2}]
    result = converse(opened(server, kind), turns=turns, clocks=Clocks())
    assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "in turn 1: did not end within 0.2 s")


def test_an_answer_larger_than_allowed_is_cut(server: FakeAui) -> None:
    result = ask(opened(server), limits=AttemptLimits(output_bytes=100))
    assert result.failure is FailureKind.OUTPUT_LIMIT


@kinds
def test_a_wrong_key_ends_the_run_and_is_not_shown(server: FakeAui, kind: str) -> None:
    with pytest.raises(NotEvaluable) as refused:
        converse(opened(server, kind, key="wrong-canary-key"))
    assert "HTTP 401" in refused.value.message
    assert "AUI_API_KEY" in refused.value.remedy
    assert "canary" not in json.dumps(refused.value.to_json())


@pytest.mark.parametrize(("status", "remedy"), [(403, "key may do"), (404, "address"), (422, "agent's id")])
def test_a_conversation_that_cannot_begin_ends_the_run(server: FakeAui, status: int, remedy: str) -> None:
    server.faults = [Fault("/tasks", status)]
    with pytest.raises(NotEvaluable) as refused:
        converse(opened(server))
    assert remedy in refused.value.remedy


@pytest.mark.parametrize("path", ["/tasks", "/token", "/messages"])
def test_an_answer_without_the_id_that_is_needed_fails_the_attempt(server: FakeAui, path: str) -> None:
    server.faults = [Fault(path, body=b'{"message": {}}')]
    result = converse(opened(server, "aui" if path == "/tasks" else "aui-v3"))
    assert result.failure is FailureKind.TYPE_ERROR
    assert "answered without" in result.problem
    assert [event.input for event in result.events if event.actor == "user"] == ["hi"]


def test_v3_keeps_its_thread_and_reads_the_trace_of_each_message(server: FakeAui) -> None:
    result = converse(opened(server, "aui-v3"))
    assert (result.failure, result.output) == (None, "Refunded.")
    first, second = server.bodies("/messages")
    assert "thread_id" not in first
    assert second["thread_id"] == "thread-1"
    assert first["user_id"] == second["user_id"]
    assert [first["agent_variables"], second["agent_variables"]] == [USER["user_info"]] * 2
    answers = aui_of(result)
    assert [answer["trace_info"]["input"]["message"] for answer in answers] == ["hi", "hi"]
    assert not any("executed_workflows" in answer for answer in answers)
    assert server.tokens == 1
    turn = facts_by_turn(Trace(result.events))[0]
    assert "does not record executed_workflows" in turn.tools.missing


def test_v3_fetches_another_token_when_one_has_expired(server: FakeAui) -> None:
    server.faults = [Fault("/messages", 401)]
    assert converse(opened(server, "aui-v3")).failure is None
    assert server.tokens == 2
    server.expires_in = 0
    assert converse(opened(server, "aui-v3")).failure is None
    assert server.tokens > 3


def test_v3_without_its_trace_leaves_the_question_open(server: FakeAui) -> None:
    server.faults = [Fault("/trace", 500), Fault("/trace", body=b"not json")]
    result = converse(opened(server, "aui-v3"))
    assert result.failure is None
    assert aui_of(result) == [{"api": "v3"}, {"api": "v3"}]


def test_an_agent_is_built_again_from_what_the_evidence_records(server: FakeAui) -> None:
    for made in (
        AuiAgent("agent-7", base_url=server.url, parameters={"user_id": "u", "version_tag": "beta"}),
        AuiV3Agent(base_url=server.url, api_key=KEY),
    ):
        described = made.describe()
        assert KEY not in json.dumps(described)
        assert open_agent(*agent_from_description(described, AgentOptions())).describe() == described
        made.close()


def test_what_the_api_has_no_field_for_is_refused(server: FakeAui) -> None:
    with pytest.raises(UsageError, match="system prompt"):
        open_agent("aui:agent-7", AgentOptions(system="Be brief."))
    with pytest.raises(UsageError, match="no parameter 'temperature'"):
        opened(server, temperature=0)
    with pytest.raises(UsageError, match="cannot be used as an address"):
        open_agent("aui:agent-7", AgentOptions(base_url="ftp://shop.example"))
    with closing(opened(server)) as agent:
        prompted = make_task("hi", conversation={"system_prompt": "Be brief."}).case
        other = make_task("hi", conversation={}, metadata={"model": "small"}).case
        assert "system prompt" in agent.refuse(prompted)
        assert "model" in agent.refuse(other)
        assert agent.refuse(make_task("hi", metadata={"model": "small"}).case) is None


def test_input_that_is_no_text_is_sent_as_json(server: FakeAui) -> None:
    ask(opened(server), given={"order": 7})
    assert server.bodies("/message")[0]["text"] == '{"order": 7}'


def test_tokens_that_an_answer_reports_are_recorded() -> None:
    with FakeAui({"text": "ok", "input_tokens": 12, "output_tokens": 3}) as server:
        events: list[Event] = ask(opened(server, "aui-v3")).events
    assert events[-2].usage is not None
    assert events[-2].usage.to_json() == {"input_tokens": 12, "output_tokens": 3}

"""Hosted models as agents, through the real SDKs against servers on localhost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from agent_eval.agents.answer import unanswered_calls
from agent_eval.agents.hosted import agent_of
from agent_eval.agents.recorder import TOOL_ANSWER_SOURCE
from agent_eval.contracts import AttemptLimits, Trace
from agent_eval.engine.trial import event_json
from agent_eval.errors import FailureKind, InvalidInput, NotEvaluable, UsageError
from tests.fakes.json_server import JsonServer
from tests.fakes.models import FAKES, FakeModel, FakeOpenAi, Step
from tests.unit.agents.tasks import Retries, attempt, told

ANSWERS = {'lookup::{"id": 7}': {"status": "shipped"}}
LOOKUP = {"tool_response_cassette": ANSWERS, "tools": [{"name": "lookup"}]}
Serve = Callable[..., tuple[FakeModel, Any]]


@pytest.fixture(params=FAKES)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def serve(provider: str) -> Iterator[Serve]:
    with ExitStack() as stack:

        def make(*script: Step, **options: Any) -> tuple[FakeModel, Any]:
            server = stack.enter_context(FAKES[provider](*script))
            agent = agent_of(provider)("small", base_url=server.base_url, api_key="k-123", **options)
            return server, stack.enter_context(closing(agent))

        yield make


def test_answer_is_recorded_with_model_tokens_and_time(serve: Serve) -> None:
    server, agent = serve(Step(text="It is 4."))
    result = attempt(agent, "2 + 2?")
    assert (result.output, result.failure, result.tool_calls) == ("It is 4.", None, [])
    assert told(result) == [
        ("user", "message", None, "2 + 2?", None),
        ("agent", "message", None, "It is 4.", None),
    ]
    answer = result.events[1]
    assert (answer.model, answer.stop_reason in ("stop", "end_turn")) == ("small-2026", True)
    assert answer.usage.to_json() == {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 5}
    assert (answer.ts, answer.latency_ms, answer.attempt) == ("2026-11-21T08:00:00.000+00:00", 0.0, 0)
    assert "k-123" in str(server.authorizations[0])
    assert server.requests[0]["messages"] == [{"role": "user", "content": "2 + 2?"}]
    assert "stream" not in server.requests[0]


def test_tool_calls_are_answered_from_the_case_until_the_model_has_answered(serve: Serve) -> None:
    calls = [("lookup", {"id": 7}), ("lookup", {"id": 8})]
    server, agent = serve(Step(text="Let me see.", calls=calls), Step(text="Shipped."))
    result = attempt(agent, "Where is 7?", metadata=LOOKUP)
    assert told(result) == [
        ("user", "message", None, "Where is 7?", None),
        ("agent", "message", None, "Let me see.", None),
        ("agent", "tool_call", "lookup", {"id": 7}, None),
        ("agent", "tool_call", "lookup", {"id": 8}, None),
        ("tool", "tool_result", "lookup", {"status": "shipped"}, None),
        ("tool", "tool_result", "lookup", None, "unknown_tool"),
        ("agent", "message", None, "Shipped.", None),
    ]
    trace = Trace(result.events)
    assert [call.result is not None for call in trace.calls] == [True, True]
    assert trace.final_output == result.output == "Shipped."
    assert [call["arguments"] for call in result.tool_calls] == [{"id": 7}, {"id": 8}]
    # Each answer's tokens are counted once.
    counted = [event.usage and event.usage.input_tokens for event in result.events]
    assert counted == [None, 100, None, None, None, None, 100]
    assert "lookup" in str(server.requests[0]["tools"])
    assert '{"status": "shipped"}' in str(server.requests[1]["messages"])


def test_the_call_that_is_the_answer_ends_the_attempt_and_no_tool_answers_it(serve: Serve) -> None:
    calls = [("lookup", {"id": 7}), ("submit", {"total": 7})]
    server, agent = serve(Step(calls=calls), Step(text="never asked"))
    result = attempt(agent, metadata=LOOKUP, final_output_tool="submit")
    assert (result.output, result.failure, len(server.requests)) == ({"total": 7}, None, 1)
    assert [event.type for event in result.events] == ["message", "tool_call", "tool_call", "tool_result"]
    assert unanswered_calls([event_json(event) for event in result.events], TOOL_ANSWER_SOURCE) == 0
    # One that never calls that tool gave no answer.
    assert attempt(serve(Step(text="It is 7."))[1], final_output_tool="submit").output is None


def test_tokens_stand_with_the_first_call_of_an_answer_without_text(serve: Serve) -> None:
    _, agent = serve(Step(calls=[("lookup", {"id": 7})] * 2), Step(text="done"))
    events = attempt(agent, metadata=LOOKUP).events
    assert [event.usage and event.usage.output_tokens for event in events[1:3]] == [10, None]
    assert [event.latency_ms for event in events[1:3]] == [0.0, None]


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        (AttemptLimits(steps=3), "did not come to an end within 3 steps"),
        (AttemptLimits(tool_calls=2), "called more than 2 tools"),
        (AttemptLimits(tokens=250), "used 330 tokens, more than 250"),
    ],
)
def test_model_that_does_not_stop_is_stopped_at_its_limit(
    serve: Serve, limits: AttemptLimits, problem: str
) -> None:
    server, agent = serve(Step(calls=[("lookup", {"id": 7})]))
    result = attempt(agent, metadata=LOOKUP, limits=limits)
    assert (result.failure, result.problem) == (FailureKind.BUDGET_EXCEEDED, problem)
    assert result.events[-1].error == f"budget_exceeded: {problem}"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("step", "asked", "limited"),
    [
        pytest.param(Step(status=429, headers={"Retry-After": "7"}), 7.0, True, id="429"),
        pytest.param(Step(status=529, headers={"retry-after-ms": "250"}), 0.25, True, id="529"),
        pytest.param(Step(status=503, headers={"Retry-After": "7"}), 7.0, False, id="503"),
        *(pytest.param(Step(status=status), None, False, id=str(status)) for status in (409, 500)),
        pytest.param(Step(text="half", cut=True), None, False, id="cut"),
    ],
)
def test_what_may_pass_is_left_to_the_engine_with_the_wait_that_was_asked_for(
    serve: Serve, step: Step, asked: float | None, limited: bool
) -> None:
    server, agent = serve(step, Step(text="now"))
    retry = Retries()
    result = attempt(agent, retry=retry)
    assert (result.output, result.retries, retry.asked, retry.limited) == ("now", 1, [asked], [limited])
    assert len(server.requests) == 2  # the SDK itself repeats nothing
    result = attempt(serve(step)[1], retry=Retries(2))
    assert (result.failure, result.retries) == (FailureKind.INFRASTRUCTURE, 2)


@pytest.mark.parametrize(
    ("step", "limits", "failure", "problem"),
    [
        (Step(text="late", hang=3.0), {"seconds": 0.5}, FailureKind.TIMEOUT, "did not end within 0.5 s"),
        (Step(text="drip", slow=0.05), {"seconds": 0.5}, FailureKind.TIMEOUT, "did not end within 0.5 s"),
        (Step(text="x" * 5000), {"output_bytes": 2000}, FailureKind.OUTPUT_LIMIT, "more than 2000 bytes"),
        (Step(), {}, FailureKind.MISSING_OUTPUT, "neither text nor tool calls (it stopped for: "),
        (Step(body=b"<html>"), {}, FailureKind.PARSE_ERROR, "gave no JSON"),
        (Step(body=b'{"a": NaN}'), {}, FailureKind.PARSE_ERROR, "gave no JSON"),
        (Step(body=b""), {}, FailureKind.PARSE_ERROR, "gave no JSON"),
        (Step(body=b"[]"), {}, FailureKind.TYPE_ERROR, "something else than an object"),
        (Step(body=b"{}"), {}, FailureKind.TYPE_ERROR, "gave no answer that can be read: KeyError"),
        (Step(body=b'{"detail": "No model is loaded."}'), {}, FailureKind.TYPE_ERROR, "No model is loaded."),
        (Step(status=400, body=b"<html>"), {}, FailureKind.AGENT_ERROR, "HTTP 400: <html>"),
        (Step(status=400, body=b"{}"), {}, FailureKind.AGENT_ERROR, "HTTP 400: no explanation"),
        (Step(status=400, body=b'{"error": {"message": "too\\nlong"}}'), {}, FailureKind.AGENT_ERROR,
         "answered with HTTP 400: too long"),
        (Step(status=422, body=b'{"detail": [{"loc": ["body", "n"], "msg": "no number"}]}'), {},
         FailureKind.AGENT_ERROR, "answered with HTTP 422: body.n: no number"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_ends_the_attempt_with_its_kind(
    serve: Serve, step: Step, limits: Any, failure: FailureKind, problem: str
) -> None:
    result = attempt(serve(step)[1], limits=AttemptLimits(**limits))
    assert (result.failure, result.output) == (failure, None)
    assert problem in result.problem


def test_a_redirect_is_refused_and_the_key_goes_nowhere_else(serve: Serve) -> None:
    with JsonServer() as other:
        _, agent = serve(Step(status=307, headers={"Location": other.url}, body=b"{}"))
        result = attempt(agent)
    assert result.failure is FailureKind.AGENT_ERROR
    assert "HTTP 307: a redirect, which is not followed" in result.problem
    assert other.asked == []


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_question_that_a_filter_kept_from_the_model_is_blocked(code: str, serve: Serve) -> None:
    _, agent = serve(Step(status=400, body=f'{{"error": {{"message": "no", "code": "{code}"}}}}'.encode()))
    result = attempt(agent)
    assert (result.failure, result.events[-1].block_reason) == (FailureKind.AGENT_ERROR, code)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_refusal_of_everything_stops_the_run(serve: Serve, status: int) -> None:
    _, agent = serve(Step(status=status))
    with pytest.raises(NotEvaluable, match=f"HTTP {status}") as caught:
        attempt(agent)
    assert caught.value.remedy
    assert "k-123" not in str(caught.value.to_json())


def test_conversation_is_taken_as_it_is_and_other_input_given_as_json(serve: Serve, provider: str) -> None:
    server, agent = serve(system="Be kind.", parameters={"temperature": 0.5, "max_tokens": 9})
    given = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
    for each in (given, {"order": 7}, [1, 2], None):
        assert attempt(agent, each).output == "hello"
    request = server.requests[0]
    assert (request["temperature"], request["max_tokens"]) == (0.5, 9)
    if provider == "anthropic":
        assert request["system"] == "Be kind.\n\nBe brief."
        assert request["messages"] == given["messages"][1:]
    else:
        assert request["messages"] == [{"role": "system", "content": "Be kind."}, *given["messages"]]
    others = [request["messages"][-1]["content"] for request in server.requests[1:]]
    assert others == ['{"order": 7}', "[1, 2]", "null"]


def test_repair_tells_what_judges_said(serve: Serve) -> None:
    server, agent = serve()
    verdicts = [
        {"judge_id": "regex", "passed": False, "outcome": "failed", "reason": "no greeting"},
        {"judge_id": "policy", "passed": False, "outcome": "skipped", "reason": "nothing to judge"},
        {"judge_id": "json", "passed": True, "outcome": "passed", "reason": "fine"},
    ]
    response = {"assistant_output": "Hm.", "error": "late"}
    earlier = [{"attempt": 0, "response": response, "verdicts": verdicts}, {"attempt": 1, "response": None}]
    result = attempt(agent, "Greet me", mode="repair", attempt=2, previous_attempts=earlier)
    messages = server.requests[0]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"] == "Hm."
    assert messages[2]["content"].endswith("Reasons:\n- no greeting\n- late")
    assert messages[3]["content"] == "(no answer)"
    assert {event.attempt for event in result.events} == {2}


def test_model_may_be_named_by_the_case() -> None:
    with FakeOpenAi() as server, closing(agent_of("openai")(None, base_url=server.base_url)) as agent:
        assert attempt(agent, metadata={"model": "of-the-case"}).output == "hello"
        assert server.requests[0]["model"] == "of-the-case"
        with pytest.raises(UsageError, match="no model is named"):
            attempt(agent)


def test_tools_follow_from_contracts_and_from_every_way_of_declaring_them(serve: Serve) -> None:
    server, agent = serve()
    contracts = {"refund": {"required_args": ["order"]}, "ask": {"args_schema": {"type": "object"}}}
    function = {"name": "a", "description": "A", "parameters": {"type": "object"}}
    other = {"name": "b", "input_schema": {"type": "object", "properties": {"x": {}}}}
    declared = [{"type": "function", "function": function}, other]
    attempt(agent, tool_contracts=contracts)
    attempt(agent, metadata={"tools": declared})
    tools = [[tool.get("function", tool) for tool in request["tools"]] for request in server.requests]
    schemas = [[tool.get("parameters", tool.get("input_schema")) for tool in group] for group in tools]
    assert [[tool["name"] for tool in group] for group in tools] == [["ask", "refund"], ["a", "b"]]
    of_refund = {"type": "object", "properties": {"order": {}}, "required": ["order"]}
    assert schemas == [[{"type": "object"}, of_refund], [{"type": "object"}, other["input_schema"]]]
    assert tools[1][0]["description"] == "A"


@pytest.mark.parametrize("tools", ["lookup", [{}], [3], [{"function": "x"}]])
def test_tools_that_are_none_are_refused(tools: Any) -> None:
    agent = agent_of("openai")("m", base_url="http://127.0.0.1:9")
    with closing(agent), pytest.raises(InvalidInput, match=r"metadata\.tools"):
        attempt(agent, metadata={"tools": tools})


def test_arguments_that_are_not_json_are_told_to_the_model() -> None:
    calls = [("lookup", '{"id": 7'), ("lookup", ""), ("lookup", '{"id": 7}')]
    server = FakeOpenAi(Step(calls=calls), Step(text="ok"))
    with server, closing(agent_of("openai")("m", base_url=server.base_url)) as agent:
        result = attempt(agent, metadata=LOOKUP)
    assert told(result)[1:7] == [
        ("agent", "tool_call", "lookup", '{"id": 7', None),
        ("agent", "tool_call", "lookup", {}, None),
        ("agent", "tool_call", "lookup", {"id": 7}, None),
        ("tool", "tool_result", "lookup", None, "the arguments are not JSON"),
        ("tool", "tool_result", "lookup", None, "unknown_tool"),
        ("tool", "tool_result", "lookup", {"status": "shipped"}, None),
    ]
    assert result.output == "ok"


@pytest.mark.parametrize("url", ["http://[nowhere", "localhost:11434", "ftp://host", "", "http://host:port"])
def test_address_that_is_none(provider: str, url: str) -> None:
    with pytest.raises(UsageError, match="cannot be used as the address"):
        agent_of(provider)("m", base_url=url)


def test_description_holds_no_key(serve: Serve, provider: str) -> None:
    server, agent = serve(system="Be kind.")
    described = agent.describe()
    assert (described["agent"], described["model"]) == (provider, "small")
    assert "k-123" not in json.dumps(described) + repr(agent)
    assert server.requests == []

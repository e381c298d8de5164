"""Hosted models as agents, through the real SDKs against servers on localhost."""

from __future__ import annotations

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
from tests.fakes.models import FakeAnthropic, FakeModel, FakeOpenAi, Step
from tests.unit.agents.tasks import Retries, Time, around, make_task, told

LOOKUP = {
    "tool_response_cassette": {'lookup::{"id": 7}': {"status": "shipped"}},
    "tools": [{"name": "lookup"}],
}


class Provider:
    """One provider's agent and its server."""

    def __init__(self, name: str, stack: ExitStack) -> None:
        self.name, self._stack = name, stack

    def serve(self, *script: Step, **options: Any) -> tuple[FakeModel, Any]:
        fake, make = {
            "openai": (FakeOpenAi, agent_of("openai")),
            "anthropic": (FakeAnthropic, agent_of("anthropic")),
        }[self.name]
        server = self._stack.enter_context(fake(*script))
        agent = make("small", base_url=server.base_url, api_key="k-123", **options)
        return server, self._stack.enter_context(closing(agent))


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with ExitStack() as stack:
        yield Provider(request.param, stack)


Serve = Callable[..., tuple[FakeModel, Any]]


@pytest.fixture
def serve(provider: Provider) -> Serve:
    return provider.serve


def test_answer_is_recorded_with_model_tokens_and_time(serve: Serve) -> None:
    server, agent = serve(Step(text="It is 4."))
    task = make_task("2 + 2?")
    result = agent.attempt(task, around(task))
    assert (result.output, result.failure, result.tool_calls) == ("It is 4.", None, [])
    assert told(result) == [
        ("user", "message", None, "2 + 2?", None),
        ("agent", "message", None, "It is 4.", None),
    ]
    answer = result.events[1]
    assert (answer.model, answer.stop_reason in ("stop", "end_turn")) == ("small-2026", True)
    assert answer.usage is not None
    assert answer.usage.to_json() == {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 5}
    assert (answer.ts, answer.latency_ms, answer.attempt) == ("2026-11-21T08:00:00.000+00:00", 0.0, 0)
    assert "k-123" in str(server.authorizations[0])
    assert server.requests[0]["messages"] == [{"role": "user", "content": "2 + 2?"}]
    assert "stream" not in server.requests[0]


def test_tool_calls_are_answered_from_the_case_until_the_model_has_answered(serve: Serve) -> None:
    server, agent = serve(
        Step(text="Let me see.", calls=[("lookup", {"id": 7}), ("lookup", {"id": 8})]), Step(text="Shipped.")
    )
    task = make_task("Where is 7?", metadata=LOOKUP)
    result = agent.attempt(task, around(task))
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
    assert result.tool_calls == [
        {"tool": "lookup", "arguments": {"id": 7}},
        {"tool": "lookup", "arguments": {"id": 8}},
    ]
    # Each answer's tokens are counted once.
    counted = [event.usage and event.usage.input_tokens for event in result.events]
    assert counted == [None, 100, None, None, None, None, 100]
    assert "lookup" in str(server.requests[0]["tools"])
    assert '{"status": "shipped"}' in str(server.requests[1]["messages"])


def test_the_call_that_is_the_answer_ends_the_attempt_and_no_tool_answers_it(serve: Serve) -> None:
    server, agent = serve(
        Step(calls=[("lookup", {"id": 7}), ("submit", {"total": 7})]), Step(text="never asked")
    )
    task = make_task(metadata=LOOKUP, final_output_tool="submit")
    result = agent.attempt(task, around(task))
    assert (result.output, result.failure, len(server.requests)) == ({"total": 7}, None, 1)
    assert [event.type for event in result.events] == ["message", "tool_call", "tool_call", "tool_result"]
    recorded = [event_json(event) for event in result.events]
    assert unanswered_calls(recorded, TOOL_ANSWER_SOURCE) == 0


def test_a_model_that_never_calls_the_tool_of_its_answer_gave_none(serve: Serve) -> None:
    _, agent = serve(Step(text="It is 7."))
    task = make_task(final_output_tool="submit")
    assert agent.attempt(task, around(task)).output is None


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
def test_a_question_that_a_filter_kept_from_the_model_is_blocked(code: str, serve: Serve) -> None:
    _, agent = serve(Step(status=400, body=f'{{"error": {{"message": "no", "code": "{code}"}}}}'.encode()))
    task = make_task()
    result = agent.attempt(task, around(task))
    assert result.failure is FailureKind.AGENT_ERROR
    assert result.events[-1].block_reason == code


def test_tokens_stand_with_the_first_call_of_an_answer_without_text(serve: Serve) -> None:
    _, agent = serve(Step(calls=[("lookup", {"id": 7})] * 2), Step(text="done"))
    task = make_task(metadata=LOOKUP)
    events = agent.attempt(task, around(task)).events
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
    task = make_task(metadata=LOOKUP, limits=limits)
    result = agent.attempt(task, around(task))
    assert (result.failure, result.problem) == (FailureKind.BUDGET_EXCEEDED, problem)
    assert result.events[-1].error == f"budget_exceeded: {problem}"
    assert len(server.requests) == 3


def test_delays_of_tools_use_up_the_time_of_the_attempt(serve: Serve) -> None:
    _, agent = serve(Step(calls=[("lookup", {"id": 7})]))
    slow = {"tool_responses": {"lookup": {"$response": "ok", "$delay_ms": 4000}}}
    task, time = make_task(metadata=slow, limits=AttemptLimits(seconds=10)), Time()
    result = agent.attempt(task, around(task, clocks=time.clocks))
    assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "did not end within 10 s")
    assert time.slept == [4.0, 4.0, 2.0]
    assert [event.latency_ms for event in result.events if event.type == "tool_result"] == [4000.0, 4000.0]


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_refusal_is_left_to_the_engine_with_the_wait_that_was_asked_for(serve: Serve, status: int) -> None:
    server, agent = serve(Step(status=status, headers={"Retry-After": "7"}), Step(text="now"))
    task, retry = make_task(), Retries()
    result = agent.attempt(task, around(task, retry=retry))
    assert (result.output, result.retries, retry.asked) == ("now", 1, [7.0])
    assert retry.limited == [status in (429, 529)]
    assert len(server.requests) == 2  # the SDK itself repeats nothing


def test_wait_in_milliseconds_and_no_wait(serve: Serve) -> None:
    _, agent = serve(Step(status=429, headers={"retry-after-ms": "250"}), Step(status=500), Step(text="now"))
    task, retry = make_task(), Retries()
    assert agent.attempt(task, around(task, retry=retry)).retries == 2
    assert retry.asked == [0.25, None]


def test_refusal_that_does_not_end_is_a_failure_of_the_infrastructure(serve: Serve) -> None:
    _, agent = serve(Step(status=429))
    task = make_task()
    result = agent.attempt(task, around(task, retry=Retries(2)))
    assert (result.failure, result.retries) == (FailureKind.INFRASTRUCTURE, 2)
    assert result.problem == "answered with HTTP 429: as the script says"


def test_connection_that_breaks_is_a_failure_of_the_infrastructure(serve: Serve) -> None:
    _, agent = serve(Step(text="half", cut=True), Step(text="whole"))
    task = make_task()
    result = agent.attempt(task, around(task, retry=Retries()))
    assert (result.output, result.retries) == ("whole", 1)


def test_service_that_is_not_there(serve: Serve) -> None:
    server, agent = serve()
    server.__exit__()
    task = make_task()
    result = agent.attempt(task, around(task))
    assert result.failure is FailureKind.INFRASTRUCTURE
    assert "could not be reached" in result.problem


@pytest.mark.parametrize("step", [Step(text="late", hang=3.0), Step(text="drip", slow=0.05)])
def test_slow_answer_times_out(serve: Serve, step: Step) -> None:
    _, agent = serve(step)
    task = make_task(limits=AttemptLimits(seconds=0.5))
    result = agent.attempt(task, around(task))
    assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "did not end within 0.5 s")


def test_answer_that_is_too_long_is_cut_off(serve: Serve) -> None:
    _, agent = serve(Step(text="x" * 5000))
    task = make_task(limits=AttemptLimits(output_bytes=2000))
    assert agent.attempt(task, around(task)).failure is FailureKind.OUTPUT_LIMIT


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (b"<html>", FailureKind.PARSE_ERROR),
        (b'{"a": NaN}', FailureKind.PARSE_ERROR),
        (b"", FailureKind.PARSE_ERROR),
        (b"[]", FailureKind.TYPE_ERROR),
        (b"{}", FailureKind.TYPE_ERROR),
        (b'{"choices": [], "content": 5}', FailureKind.TYPE_ERROR),
        (b'{"choices": [{"message": {"tool_calls": [3]}}], "content": [{}]}', FailureKind.TYPE_ERROR),
        (b'{"choices": [{"message": null}], "content": ["a"]}', FailureKind.TYPE_ERROR),
    ],
)
def test_malformed_answer_is_told_as_one(serve: Serve, body: bytes, failure: FailureKind) -> None:
    _, agent = serve(Step(body=body))
    task = make_task()
    result = agent.attempt(task, around(task))
    assert result.failure is failure
    assert result.output is None


def test_answer_without_anything_in_it_is_a_missing_output(serve: Serve) -> None:
    _, agent = serve(Step())
    task = make_task()
    result = agent.attempt(task, around(task))
    assert result.failure is FailureKind.MISSING_OUTPUT
    assert "neither text nor tool calls (it stopped for: " in result.problem


@pytest.mark.parametrize("status", [401, 403, 404])
def test_refusal_of_everything_stops_the_run(serve: Serve, status: int) -> None:
    _, agent = serve(Step(status=status))
    task = make_task()
    with pytest.raises(NotEvaluable, match=f"HTTP {status}") as caught:
        agent.attempt(task, around(task))
    assert caught.value.remedy
    assert "k-123" not in str(caught.value.to_json())


def test_request_that_the_service_finds_wrong_is_the_agents_failure(serve: Serve) -> None:
    _, agent = serve(Step(status=400, body=b'{"error": {"message": "too\\nlong"}}'))
    task = make_task()
    result = agent.attempt(task, around(task))
    assert (result.failure, result.problem) == (FailureKind.AGENT_ERROR, "answered with HTTP 400: too long")


def test_refusal_without_words(serve: Serve) -> None:
    _, agent = serve(Step(status=400, body=b"<html>"))
    task = make_task()
    assert "no explanation" in agent.attempt(task, around(task)).problem


def test_conversation_is_taken_as_it_is(serve: Serve, provider: Provider) -> None:
    server, agent = serve(system="Be kind.", parameters={"temperature": 0.5, "max_tokens": 9})
    given = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
    task = make_task(given)
    assert agent.attempt(task, around(task)).output == "hello"
    request = server.requests[0]
    assert (request["temperature"], request["max_tokens"]) == (0.5, 9)
    if provider.name == "anthropic":
        assert request["system"] == "Be kind.\n\nBe brief."
        assert request["messages"] == given["messages"][1:]
    else:
        assert request["messages"] == [{"role": "system", "content": "Be kind."}, *given["messages"]]


def test_other_input_is_given_as_json(serve: Serve) -> None:
    server, agent = serve()
    for given in ({"order": 7}, [1, 2], None):
        task = make_task(given)
        agent.attempt(task, around(task))
    assert [request["messages"][0]["content"] for request in server.requests] == [
        '{"order": 7}',
        "[1, 2]",
        "null",
    ]


def test_repair_tells_what_judges_said(serve: Serve) -> None:
    server, agent = serve()
    earlier = [
        {
            "attempt": 0,
            "response": {"assistant_output": "Hm.", "error": "late"},
            "verdicts": [
                {"judge_id": "regex", "passed": False, "outcome": "failed", "reason": "no greeting"},
                {"judge_id": "policy", "passed": False, "outcome": "skipped", "reason": "nothing to judge"},
                {"judge_id": "json", "passed": True, "outcome": "passed", "reason": "fine"},
            ],
        },
        {"attempt": 1, "response": None},
    ]
    task = make_task("Greet me", mode="repair", attempt=2, previous_attempts=earlier)
    result = agent.attempt(task, around(task))
    messages = server.requests[0]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"] == "Hm."
    assert messages[2]["content"].endswith("Reasons:\n- no greeting\n- late")
    assert messages[3]["content"] == "(no answer)"
    assert {event.attempt for event in result.events} == {2}


def test_model_may_be_named_by_the_case() -> None:
    with FakeOpenAi() as server, closing(agent_of("openai")(None, base_url=server.base_url)) as agent:
        task = make_task(metadata={"model": "of-the-case"})
        assert agent.attempt(task, around(task)).output == "hello"
        assert server.requests[0]["model"] == "of-the-case"
        nameless = make_task()
        with pytest.raises(UsageError, match="no model is named"):
            agent.attempt(nameless, around(nameless))


def test_tools_follow_from_contracts_and_from_every_way_of_declaring_them(serve: Serve) -> None:
    server, agent = serve()
    contracts = {"refund": {"required_args": ["order"]}, "ask": {"args_schema": {"type": "object"}}}
    declared = [
        {"type": "function", "function": {"name": "a", "description": "A", "parameters": {"type": "object"}}},
        {"name": "b", "input_schema": {"type": "object", "properties": {"x": {}}}},
    ]
    for task in (make_task(tool_contracts=contracts), make_task(metadata={"tools": declared})):
        agent.attempt(task, around(task))
    tools = [[tool.get("function", tool) for tool in request["tools"]] for request in server.requests]
    schemas = [[tool.get("parameters", tool.get("input_schema")) for tool in group] for group in tools]
    assert [[tool["name"] for tool in group] for group in tools] == [["ask", "refund"], ["a", "b"]]
    assert schemas == [
        [{"type": "object"}, {"type": "object", "properties": {"order": {}}, "required": ["order"]}],
        [{"type": "object"}, {"type": "object", "properties": {"x": {}}}],
    ]
    assert tools[1][0]["description"] == "A"


@pytest.mark.parametrize("tools", ["lookup", [{}], [3], [{"function": "x"}]])
def test_tools_that_are_none_are_refused(serve: Serve, tools: Any) -> None:
    _, agent = serve()
    task = make_task(metadata={"tools": tools})
    with pytest.raises(InvalidInput, match=r"metadata\.tools"):
        agent.attempt(task, around(task))


def test_arguments_that_are_not_json_are_told_to_the_model() -> None:
    with FakeOpenAi(
        Step(calls=[("lookup", '{"id": 7'), ("lookup", ""), ("lookup", '{"id": 7}')]), Step(text="ok")
    ) as server:
        task = make_task(metadata=LOOKUP)
        with closing(agent_of("openai")("m", base_url=server.base_url)) as agent:
            result = agent.attempt(task, around(task))
    assert told(result)[1:7] == [
        ("agent", "tool_call", "lookup", '{"id": 7', None),
        ("agent", "tool_call", "lookup", {}, None),
        ("agent", "tool_call", "lookup", {"id": 7}, None),
        ("tool", "tool_result", "lookup", None, "the arguments are not JSON"),
        ("tool", "tool_result", "lookup", None, "unknown_tool"),
        ("tool", "tool_result", "lookup", {"status": "shipped"}, None),
    ]
    assert result.output == "ok"


@pytest.mark.parametrize("make", [agent_of("openai"), agent_of("anthropic")])
@pytest.mark.parametrize("url", ["http://[nowhere", "localhost:11434", "ftp://host", "", "http://host:port"])
def test_address_that_is_none(make: Any, url: str) -> None:
    with pytest.raises(UsageError, match="cannot be used as the address"):
        make("m", base_url=url)


def test_description_holds_no_key(serve: Serve, provider: Provider) -> None:
    server, agent = serve(system="Be kind.")
    described = agent.describe()
    assert described["agent"] == provider.name
    assert described["model"] == "small"
    assert "k-123" not in str(described)
    assert "k-123" not in repr(agent)
    assert server.requests == []

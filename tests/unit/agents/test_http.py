"""Agents behind an address, and recorded ones."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from agent_eval.agents.base import AgentOptions, AttemptResult
from agent_eval.agents.catalog import open_agent
from agent_eval.contracts import AttemptLimits, Trace
from agent_eval.errors import FailureKind, UsageError
from agent_eval.judges import judge_case
from tests.fakes.json_server import JsonServer
from tests.unit.agents.tasks import Retries, attempt, make_task


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with JsonServer() as running:
        yield running


def post(server: JsonServer, *, gateway: bool = False, **options: Any) -> AttemptResult:
    agent = open_agent(server.url, AgentOptions(headers={"X-Key": "hidden-key"}, gateway=gateway))
    assert "hidden-key" not in str(agent.describe())
    return attempt(agent, **options)


def test_http_agent_is_sent_what_a_command_is_given(server: JsonServer) -> None:
    calls = [{"tool": "a", "arguments": {}}]
    server.answers = [(200, {}, json.dumps({"assistant_output": "ok", "tool_calls": calls}).encode())]
    result = post(server)
    assert (result.output, result.failure, result.tool_calls) == ("ok", None, calls)
    assert (server.requests[0]["case_id"], server.requests[0]["expected_output"]) == ("c1", None)
    assert server.headers[0]["X-Key"] == "hidden-key"


@pytest.mark.parametrize(("reason", "outcome"), [("stop", "passed"), ("length", "error"), (["x"], "passed")])
def test_an_agent_may_say_that_its_model_was_cut_off(server: JsonServer, reason: Any, outcome: str) -> None:
    server.answers = [(200, {}, json.dumps({"assistant_output": "It is", "finish_reason": reason}).encode())]
    (verdict,) = judge_case([], make_task("hi").case, Trace(post(server).events))
    assert verdict.outcome.value == outcome


def test_a_gateway_that_asks_to_wait(server: JsonServer) -> None:
    server.answers = [(429, {"Retry-After": "3"}, b""), (503, {}, b""), (200, {}, b'{"output": "ok"}')]
    retry = Retries()
    assert post(server, retry=retry, gateway=True).retries == 2
    assert retry.asked == [3.0, None]
    assert retry.limited == [True, False]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_an_agent_that_answers_with_an_error_status_gets_no_second_request(
    server: JsonServer, status: int
) -> None:
    server.answers = [(status, {"Retry-After": "1"}, b"not now"), (200, {}, b'{"output": "lucky"}')]
    result = post(server, retry=Retries())
    assert (result.failure, result.retries) == (FailureKind.AGENT_ERROR, 0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("gateway", "failure", "requests"),
    [(False, FailureKind.AGENT_ERROR, 1), (True, FailureKind.INFRASTRUCTURE, 3)],
)
def test_a_connection_that_breaks_after_the_request_is_the_agents_unless_a_gateway_is_there(
    server: JsonServer, gateway: bool, failure: FailureKind, requests: int
) -> None:
    server.answers = [(200, {"Content-Length": "900"}, b'{"output": "cut')]
    server.breaks = True
    result = post(server, retry=Retries(2), gateway=gateway)
    assert (result.failure, len(server.requests)) == (failure, requests)


def test_an_address_where_nothing_listens_is_infrastructure_for_any_agent() -> None:
    with JsonServer() as stopped:
        pass
    result = post(stopped, retry=Retries(2), limits=AttemptLimits(seconds=None))
    assert (result.failure, result.retries) == (FailureKind.INFRASTRUCTURE, 2)
    assert result.problem.startswith("could not be reached")


def test_whether_a_gateway_answers_is_recorded_and_read_again() -> None:
    agent = open_agent("http://agent.example/run", AgentOptions(gateway=True))
    assert agent.describe()["gateway"] is True
    _, options = type(agent).from_description(agent.describe(), AgentOptions())
    assert options.gateway


@pytest.mark.parametrize(
    ("status", "body", "failure", "problem"),
    [
        (500, b"boom", FailureKind.AGENT_ERROR, "answered with HTTP 500: boom"),
        (404, b"", FailureKind.AGENT_ERROR, "answered with HTTP 404"),
        (502, b"", FailureKind.AGENT_ERROR, "answered with HTTP 502"),
        (200, b"", FailureKind.MISSING_OUTPUT, "gave nothing on its answer"),
        (200, b"<html>", FailureKind.PARSE_ERROR, "gave no JSON"),
        (200, b"3", FailureKind.TYPE_ERROR, "answered with a number"),
        (200, b'"' + b"x" * 4000 + b'"', FailureKind.OUTPUT_LIMIT, "answered with more than 3000 bytes"),
    ],
)
def test_failures_of_an_http_agent(
    server: JsonServer, status: int, body: bytes, failure: FailureKind, problem: str
) -> None:
    server.answers = [(status, {}, body)]
    result = post(server, limits=AttemptLimits(output_bytes=3000))
    assert result.failure is failure
    assert result.problem.startswith(problem)
    if failure is FailureKind.PARSE_ERROR:
        assert result.artifacts == {"answer.txt": b"<html>"}


def test_http_agent_that_is_slow_times_out(server: JsonServer) -> None:
    server.hang = 2.0
    result = post(server, limits=AttemptLimits(seconds=0.3))
    assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "did not end within 0.3 s")


@pytest.mark.parametrize("kind", ["http", "openai", "anthropic"])
def test_headers_that_come_byte_by_byte_are_not_waited_for(kind: str) -> None:
    stop = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not stop.wait(0.02):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip)
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        agent = open_agent(url if kind == "http" else f"{kind}:m", AgentOptions(base_url=url))
        result = attempt(agent, limits=AttemptLimits(seconds=0.3))
        assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "did not end within 0.3 s")
        stop.set()
        server.join()
        agent.close()


@pytest.mark.parametrize("url", ["http://", "https://user:word@host/x", "http://host:port"])
def test_address_that_cannot_be_used(url: str) -> None:
    with pytest.raises(UsageError, match="cannot be used as an address"):
        open_agent(url)


def test_agent_on_a_private_network_needs_no_encryption() -> None:
    described = open_agent("http://agent.internal:8000/run?key=x").describe()
    assert described == {"agent": "http", "url": "http://agent.internal:8000/run"}


def test_recorded_agent_gives_the_trace_back() -> None:
    trace = [
        {"idx": 0, "actor": "agent", "type": "tool_call", "tool": "a", "input": {"x": 1}},
        {"idx": 1, "actor": "tool", "type": "tool_result", "tool": "a", "output": 1},
        {"idx": 2, "actor": "tool", "type": "tool_result", "tool": "b", "output": 1},
        {"idx": 3, "actor": "agent", "type": "message", "output": "done"},
    ]
    agent = open_agent("recorded")
    result = attempt(agent, trace=trace)
    assert [event.idx for event in result.events] == [0, 1, 2, 3]
    assert (result.output, result.tool_calls) == ("done", [{"tool": "a", "arguments": {"x": 1}}])
    assert agent.describe() == {"agent": "recorded"}

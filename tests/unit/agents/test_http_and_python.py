"""Agents behind an address, agents that are a function, and recorded ones."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Clocks, LocalAgent, ToolAnswer
from agent_eval.agents.catalog import AGENTS, open_agent
from agent_eval.agents.python import PythonAgent
from agent_eval.contracts import AttemptLimits, Trace
from agent_eval.errors import FailureKind, UsageError
from agent_eval.judges import judge_case
from tests.fakes.json_server import JsonServer
from tests.unit.agents.tasks import AGENT_FORMS, Retries, around, make_task, told, write_agent_module

FUNCTIONS = """
import asyncio, sys, threading, time
release = threading.Event()
def hello(task): return {"assistant_output": f"{task['mode']} {task['input']}", "tool_calls": [{"tool": "a"}]}
def text(task): return "just text"
def raises(task): raise ValueError("bad \\udcff")
def leaves(task): sys.exit(3)
def odd(task): return {"assistant_output": object()}
def number(task): return 5
def long(task): return "x" * 5000
returned = threading.Event()
def hangs(task, call): call("a", {}); release.wait(60); call("a", {}); returned.set(); return "late"
def works(task, call_tool):
    found = call_tool("lookup", {"id": 7})
    try: call_tool("shut")
    except RuntimeError as error: return {"output": f"{found} {error}"}
def misses(task, call_tool): call_tool("nowhere", {}); return "never"
def swallows(task, call_tool):
    for _ in range(3):
        try: call_tool("nowhere", {})
        except Exception: pass
    return "done all the same"
def nothing(task): return {"assistant_output": None}
def silence(task): return ""
def shows(task, call_tool): return f"{task['input']} {call_tool('t')}"
def acts(task): return {"assistant_output": None, "tool_calls": [{"tool": "a"}]}
async def waits(task, call_tool):
    await asyncio.sleep(0)
    return f"{call_tool('t')} {id(asyncio.get_running_loop())}"
async def raises_later(task):
    await asyncio.sleep(0)
    raise ValueError("later")
async def leaves_later(task): sys.exit(3)
ended = threading.Event()
async def never(task):
    try: await asyncio.sleep(60)
    finally: ended.set()
free = threading.Event()
async def blocks_the_loop(task): free.wait(60)
def never_returns(task, call): call("a", {}); time.sleep(60)
caught = []
def catches(task):
    until = time.monotonic() + 60
    while len(caught) < 2 and time.monotonic() < until:
        try: time.sleep(60)
        except BaseException as error: caught.append(error)
    return "late"
def spins(task):
    while True: pass
class Trap(dict):
    def __iter__(self): raise ConnectionError("HTTP 503: infrastructure")
    items = keys = values = __iter__
def trap(task): return Trap(assistant_output="x")
not_callable = 3
"""


@pytest.fixture
def server() -> Iterator[JsonServer]:
    with JsonServer() as running:
        yield running


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent_functions_b.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))


def post(
    server: JsonServer, *, retry: Any = None, gateway: bool = False, **task_options: Any
) -> AttemptResult:
    task = make_task("hi", **task_options)
    agent = open_agent(server.url, AgentOptions(headers={"X-Key": "hidden-key"}, gateway=gateway))
    assert "hidden-key" not in str(agent.describe())
    return agent.attempt(task, around(task, retry=retry))


def call(name: str, *, strict: bool = False, **task_options: Any) -> AttemptResult:
    task = make_task("hi", **task_options)
    return open_agent(f"python:agent_functions_b:{name}").attempt(task, around(task, strict=strict))


def test_http_agent_is_sent_what_a_command_is_given(server: JsonServer) -> None:
    server.answers = [
        (200, {}, b'{"assistant_output": "ok", "tool_calls": [{"tool": "a", "arguments": {}}]}')
    ]
    result = post(server)
    assert (result.output, result.failure, result.tool_calls) == (
        "ok",
        None,
        [{"tool": "a", "arguments": {}}],
    )
    assert server.requests[0]["case_id"] == "c1"
    assert server.requests[0]["expected_output"] is None
    assert server.headers[0]["X-Key"] == "hidden-key"


@pytest.mark.parametrize(("reason", "outcome"), [("stop", "passed"), ("length", "error"), (["x"], "passed")])
def test_an_agent_may_say_that_its_model_was_cut_off(server: JsonServer, reason: Any, outcome: str) -> None:
    server.answers = [(200, {}, json.dumps({"assistant_output": "It is", "finish_reason": reason}).encode())]
    task = make_task("hi")
    result = open_agent(f"http:{server.url}", AgentOptions()).attempt(task, around(task))
    (verdict,) = judge_case([], task.case, Trace(result.events))
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
    result = post(stopped, retry=Retries(2))
    assert (result.failure, result.retries) == (FailureKind.INFRASTRUCTURE, 2)


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
        task = make_task("hi", limits=AttemptLimits(seconds=0.3))
        result = agent.attempt(task, around(task))
        assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "did not end within 0.3 s")
        stop.set()
        server.join()
        agent.close()


def test_http_agent_that_is_not_there(server: JsonServer) -> None:
    server.__exit__()
    result = post(server, limits=AttemptLimits(seconds=None))
    assert result.failure is FailureKind.INFRASTRUCTURE
    assert result.problem.startswith("could not be reached")


@pytest.mark.parametrize("url", ["http://", "https://user:word@host/x", "http://host:port"])
def test_address_that_cannot_be_used(url: str) -> None:
    with pytest.raises(UsageError, match="cannot be used as an address"):
        open_agent(url)


def test_agent_on_a_private_network_needs_no_encryption() -> None:
    assert open_agent("http://agent.internal:8000/run?key=x").describe() == {
        "agent": "http",
        "url": "http://agent.internal:8000/run",
    }


def test_function_is_given_the_payload() -> None:
    result = call("hello", metadata={"tool_responses": {"a": 1}})
    assert result.output == "propose hi"
    assert told(result)[1:3] == [
        ("agent", "tool_call", "a", {}, None),
        ("tool", "tool_result", "a", 1, None),
    ]
    assert call("text").output == "just text"
    assert call("text", limits=AttemptLimits(seconds=None)).output == "just text"


def test_function_may_call_tools_while_it_works() -> None:
    metadata = {"tool_responses": {"lookup": "shipped", "shut": {"error": "closed"}}}
    result = call("works", metadata=metadata)
    assert result.output == "shipped the tool shut failed: closed"
    assert [event[:3] for event in told(result)] == [
        ("user", "message", None),
        ("agent", "tool_call", "lookup"),
        ("tool", "tool_result", "lookup"),
        ("agent", "tool_call", "shut"),
        ("tool", "tool_result", "shut"),
        ("agent", "message", None),
    ]


@pytest.mark.parametrize(
    ("name", "failure", "problem"),
    [
        ("raises", FailureKind.AGENT_ERROR, "raised ValueError: bad ?"),
        ("leaves", FailureKind.AGENT_ERROR, "raised SystemExit: 3"),
        ("odd", FailureKind.TYPE_ERROR, "returned something that is not JSON"),
        ("number", FailureKind.TYPE_ERROR, "answered with a number"),
        ("long", FailureKind.OUTPUT_LIMIT, "returned more than 3000 bytes"),
        ("misses", FailureKind.CONTRACT_VIOLATION, "called nowhere with {}"),
    ],
)
def test_failures_of_a_function(name: str, failure: FailureKind, problem: str) -> None:
    result = call(name, strict=True, limits=AttemptLimits(output_bytes=3000))
    assert result.failure is failure
    assert result.problem.startswith(problem)
    if name == "raises":
        assert b"Traceback" in result.artifacts["stderr.txt"]
    json.dumps([event.to_json() for event in result.events])


@pytest.mark.parametrize(
    ("strict", "limits", "failure", "problem"),
    [
        (True, AttemptLimits(), FailureKind.CONTRACT_VIOLATION, "called nowhere"),
        (False, AttemptLimits(tool_calls=0), FailureKind.BUDGET_EXCEEDED, "called more than 0 tools"),
    ],
)
def test_function_that_swallows_what_ended_its_attempt_has_not_passed(
    strict: bool, limits: AttemptLimits, failure: FailureKind, problem: str
) -> None:
    result = call("swallows", strict=strict, limits=limits)
    assert (result.output, result.failure) == (None, failure)
    assert result.problem.startswith(problem)
    assert len(result.tool_calls) <= 1, "nothing is called once the attempt is over"


@pytest.mark.parametrize("name", ["nothing", "silence"])
def test_an_answer_with_neither_output_nor_calls_is_none(name: str) -> None:
    result = call(name)
    assert (result.output, result.failure) == (None, FailureKind.MISSING_OUTPUT)
    assert result.problem == "answered with neither an output nor tool calls"


def test_an_agent_may_act_without_a_word() -> None:
    assert call("acts").failure is None


def test_function_that_does_not_return_is_left_behind() -> None:
    result = call("hangs", limits=AttemptLimits(seconds=0.3), metadata={"tool_responses": {"a": 1}})
    assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "did not end within 0.3 s")
    assert len(result.events) == 4
    import agent_functions_b

    agent_functions_b.release.set()
    assert agent_functions_b.returned.wait(60)
    assert len(result.events) == 4


@pytest.fixture
def alone() -> Iterator[Callable[[str], PythonAgent]]:
    """An agent as a worker has it that runs one trial at a time."""
    before = signal.getsignal(signal.SIGALRM)

    def make(name: str) -> PythonAgent:
        agent = PythonAgent(f"agent_functions_b:{name}")
        agent.load(alone=True)
        return agent

    yield make
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ["never_returns", "spins", "never"])
def test_in_a_process_of_its_own_a_function_is_interrupted(
    name: str, alone: Callable[[str], PythonAgent]
) -> None:
    agent = alone(name)
    task = make_task("hi", limits=AttemptLimits(seconds=0.2), metadata={"tool_responses": {"a": 1}})
    result = agent.attempt(task, around(task))
    assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "did not end within 0.2 s")
    assert agent.left_behind
    if name == "never_returns":
        assert [event[:2] for event in told(result)] == [
            ("user", "message"), ("agent", "tool_call"), ("tool", "tool_result"), ("agent", "message"),
        ]  # fmt: skip
    agent.close()


def test_an_interruption_that_is_caught_comes_again_and_its_attempt_has_failed(
    alone: Callable[[str], PythonAgent],
) -> None:
    agent = alone("catches")
    task = make_task("hi", limits=AttemptLimits(seconds=0.1))
    assert agent.attempt(task, around(task)).failure is FailureKind.TIMEOUT
    import agent_functions_b

    assert len(agent_functions_b.caught) == 2


def test_a_function_that_returns_in_time_is_not_interrupted_later(
    alone: Callable[[str], PythonAgent],
) -> None:
    agent = alone("text")
    for _ in range(3):
        task = make_task("hi", limits=AttemptLimits(seconds=0.05))
        assert agent.attempt(task, around(task)).output == "just text"
        time.sleep(0.06)
    assert not agent.left_behind


def test_async_functions_are_awaited_on_one_loop() -> None:
    agent = open_agent("python:agent_functions_b:waits")
    said = []

    def work() -> None:
        task = make_task("hi", metadata={"tool_responses": {"t": "tool"}})
        said.append(agent.attempt(task, around(task)).output)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 4
    assert len(set(said)) == 1
    assert said[0].startswith("tool ")
    agent.close()


@pytest.mark.parametrize(
    ("name", "problem"),
    [("raises_later", "raised ValueError: later"), ("leaves_later", "raised SystemExit: 3")],
)
def test_failures_of_an_async_function(name: str, problem: str) -> None:
    agent = open_agent(f"python:agent_functions_b:{name}")
    for _ in range(2):
        task = make_task("hi")
        result = agent.attempt(task, around(task))
        assert (result.failure, result.problem) == (FailureKind.AGENT_ERROR, problem)
        assert b"Traceback" in result.artifacts["stderr.txt"]
    agent.close()


@pytest.mark.parametrize(("name", "left_behind"), [("never", False), ("blocks_the_loop", True)])
def test_an_async_function_whose_time_is_up_is_cancelled(name: str, left_behind: bool) -> None:
    agent = PythonAgent(f"agent_functions_b:{name}")
    agent.load()
    import agent_functions_b

    agent_functions_b.free.clear()
    task = make_task("hi", limits=AttemptLimits(seconds=0.2))
    result = agent.attempt(task, around(task))
    assert result.failure is FailureKind.TIMEOUT
    assert agent.left_behind is left_behind
    agent_functions_b.free.set()
    assert name != "never" or agent_functions_b.ended.wait(60)
    agent.close()


def test_function_is_called_from_threads_that_do_not_pile_up() -> None:
    agent = open_agent("python:agent_functions_b:text")
    before = threading.active_count()

    def work() -> None:
        for _ in range(20):
            task = make_task("hi")
            assert agent.attempt(task, around(task)).output == "just text"
        assert threading.active_count() <= before + 2

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)  # the helper ends after the thread that it helped
    assert threading.active_count() <= before


@pytest.mark.parametrize("spec", ["no_such_module:f", "no_such_package.module:f", ":f", "..x:f", "json"])
def test_function_that_cannot_be_there(spec: str) -> None:
    with pytest.raises(UsageError, match=r"the agent .* cannot be loaded"):
        open_agent(f"python:{spec}")


@pytest.mark.parametrize("name", ["missing", "not_callable", "hello.missing"])
def test_function_that_cannot_be_used(name: str) -> None:
    agent = open_agent(f"python:agent_functions_b:{name}")
    assert isinstance(agent, LocalAgent)
    with pytest.raises(UsageError, match=r"the agent .* (cannot be loaded|is not a function)"):
        agent.load()


def test_a_function_is_not_imported_before_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent_functions_c.py").write_text("def agent(task): return 'hello'")
    monkeypatch.syspath_prepend(str(tmp_path))
    agent = open_agent("python:agent_functions_c:agent")
    assert "agent_functions_c" not in sys.modules
    task = make_task("hi")
    assert agent.attempt(task, around(task)).output == "hello"


def test_recorded_agent_gives_the_trace_back() -> None:
    trace = [
        {"idx": 0, "actor": "agent", "type": "tool_call", "tool": "a", "input": {"x": 1}},
        {"idx": 1, "actor": "tool", "type": "tool_result", "tool": "a", "output": 1},
        {"idx": 2, "actor": "tool", "type": "tool_result", "tool": "b", "output": 1},
        {"idx": 3, "actor": "agent", "type": "message", "output": "done"},
    ]
    task = make_task(trace=trace)
    agent = open_agent("recorded")
    result = agent.attempt(task, around(task))
    assert [event.idx for event in result.events] == [0, 1, 2, 3]
    assert (result.output, result.tool_calls) == ("done", [{"tool": "a", "arguments": {"x": 1}}])
    assert agent.describe() == {"agent": "recorded"}


@pytest.mark.parametrize("kind", AGENTS)
def test_the_form_that_messages_show_of_a_kind_is_an_agent_of_that_kind(kind: str, tmp_path: Path) -> None:
    write_agent_module(tmp_path)
    agent = open_agent(AGENT_FORMS[kind])
    assert isinstance(agent, Agent)
    assert agent.describe()["agent"] == kind
    agent.close()


def test_clocks_that_are_not_pinned_give_real_times() -> None:
    class Nothing:
        def answer(self, tool: str, arguments: Any) -> ToolAnswer:
            return ToolAnswer(output=tool)

        def recorded(self) -> list[dict[str, Any]]:
            return []

    task = make_task("hi")
    result = open_agent("python:agent_functions_b:hello").attempt(
        task, around(task, clocks=Clocks(), beyond=Nothing())
    )
    assert result.events[0].ts is not None
    assert result.events[0].ts.endswith("+00:00")
    assert (result.events[-1].latency_ms or 0) > 0
    assert result.seconds > 0
    assert told(result)[2] == ("tool", "tool_result", "a", "a", None)


def test_a_function_is_given_keys_in_order_as_a_pack_has_them() -> None:
    task = make_task({"b": 1, "a": [{"d": 2, "c": 3}]}, metadata={"tool_responses": {"t": {"z": 1, "y": 2}}})
    result = open_agent("python:agent_functions_b:shows").attempt(task, around(task))
    assert result.output == "{'a': [{'c': 3, 'd': 2}], 'b': 1} {'y': 2, 'z': 1}"


def test_a_value_that_raises_when_it_is_read_is_the_agents_fault() -> None:
    result = call("trap")
    assert result.failure is FailureKind.TYPE_ERROR
    assert b"HTTP 503: infrastructure" in result.artifacts["stderr.txt"]

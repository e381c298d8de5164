"""Agents that are a Python function."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import AttemptResult, Clocks, Disturbed, ToolAnswer
from agent_eval.agents.catalog import open_agent
from agent_eval.agents.python import PythonAgent
from agent_eval.contracts import AttemptLimits
from agent_eval.errors import FailureKind, UsageError
from tests.unit.agents.tasks import attempt, told

FUNCTIONS = """
import asyncio, ctypes, os, sys, threading, time
from pathlib import Path
def hello(task): return {"assistant_output": f"{task['mode']} {task['input']}", "tool_calls": [{"tool": "a"}]}
def text(task): return "just text"
def raises(task): raise ValueError("bad \\udcff")
class Mute(Exception):
    def __str__(self): raise OSError
def raises_mute(task): raise Mute
def leaves(task): sys.exit(3)
def odd(task): return {"assistant_output": object()}
def number(task): return 5
def long(task): return "x" * 5000
def wide(task, call): return f"{call('a', {'n': 2**70})}"
def wide_answer(task): return {"assistant_output": 2**70}
def odd_arguments(task, call): return call("a", {"where": Path("x")})
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
def quiet(task): return os.environ["CREWAI_DISABLE_TELEMETRY"] + os.environ["LITELLM_LOCAL_MODEL_COST_MAP"]
def acts(task): return {"assistant_output": None, "tool_calls": [{"tool": "a"}]}
async def raises_later(task):
    await asyncio.sleep(0)
    raise ValueError("later")
async def leaves_later(task): sys.exit(3)
async def never(task):
    if task["input"] != "hang": return f"process {os.getpid()}"
    try: await asyncio.sleep(60)
    finally: Path("cancelled").touch()
def beside(task):
    if task["input"] == "crash":
        time.sleep(0.3)
        os._exit(5)
    if task["input"] == "hold": ctypes.PyDLL(None).sleep(60)
    Path(f"begun-{task['case_id']}").touch()
    time.sleep({"wait": 1, "long": 60}.get(task["input"], 0))
    return f"process {os.getpid()}"
async def blocks(task):
    Path(f"begun-{task['case_id']}").touch()
    if task["input"] == "hang": time.sleep(60)
    await asyncio.sleep(60 if task["input"] == "long" else 0)
    return f"process {os.getpid()}"
def never_returns(task, call): call("a", {}); time.sleep(60)
def writes(task):
    for descriptor in range(3, 10):
        try: os.write(descriptor, b"no message\\n")
        except OSError: pass
    time.sleep(60)
class Trap(dict):
    def __iter__(self): raise ConnectionError("HTTP 503: infrastructure")
    items = keys = values = __iter__
def trapped(task): return Trap(assistant_output=2**70)
not_callable = 3
"""


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent_functions_b.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def call(name: str, given: Any = "hi", **options: Any) -> AttemptResult:
    return attempt(f"python:agent_functions_b:{name}", given, **options)


class Shared:
    """An agent of which several attempts are made at the same time."""

    def __init__(self, name: str) -> None:
        self.agent = PythonAgent(f"agent_functions_b:{name}")
        self._threads, self._begun = ThreadPoolExecutor(), dict[str, Future[AttemptResult]]()

    def begin(self, name: str, said: Any, seconds: float | None = 30.0) -> None:
        self._begun[name] = self._threads.submit(self.ask, name, said, seconds)

    def ask(self, name: str, said: Any, seconds: float | None = 30.0, **more: Any) -> AttemptResult:
        return attempt(self.agent, said, case_id=name, limits=AttemptLimits(seconds=seconds), **more)

    def has_ended(self, name: str) -> bool:
        return self._begun[name].done()

    def are_disturbed(self) -> bool:
        return {type(begun.exception()) for begun in self._begun.values()} == {Disturbed}

    def close(self) -> None:
        self.agent.close()
        self._threads.shutdown()


@pytest.fixture
def beside() -> Iterator[Shared]:
    shared = Shared("beside")
    yield shared
    shared.close()


def wait_for(path: str) -> None:
    deadline = time.monotonic() + 60
    while not Path(path).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_function_is_given_the_payload() -> None:
    result = call("hello", metadata={"tool_responses": {"a": 1}})
    assert result.output == "propose hi"
    assert told(result)[1:3] == [("agent", "tool_call", "a", {}, None), ("tool", "tool_result", "a", 1, None)]
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
        ("raises_mute", FailureKind.AGENT_ERROR, "raised Mute"),
        ("leaves", FailureKind.AGENT_ERROR, "raised SystemExit: 3"),
        ("raises_later", FailureKind.AGENT_ERROR, "raised ValueError: later"),
        ("leaves_later", FailureKind.AGENT_ERROR, "raised SystemExit: 3"),
        ("odd", FailureKind.TYPE_ERROR, "returned something that is not JSON"),
        ("trapped", FailureKind.TYPE_ERROR, "returned something that cannot be read: ConnectionError"),
        ("number", FailureKind.TYPE_ERROR, "answered with a number"),
        ("long", FailureKind.OUTPUT_LIMIT, "returned more than 3000 bytes"),
        ("misses", FailureKind.CONTRACT_VIOLATION, "called nowhere with {}"),
        ("nothing", FailureKind.MISSING_OUTPUT, "answered with neither an output nor tool calls"),
        ("silence", FailureKind.MISSING_OUTPUT, "answered with neither an output nor tool calls"),
        ("writes", FailureKind.AGENT_ERROR, "ended its process: it died of SIGKILL"),
    ],
)
def test_failures_of_a_function(name: str, failure: FailureKind, problem: str) -> None:
    result = call(name, strict=True, limits=AttemptLimits(output_bytes=3000))
    assert (result.output, result.failure) == (None, failure)
    assert result.problem.startswith(problem)
    if problem.startswith("raised"):
        assert b"Traceback" in result.artifacts["stderr.txt"]
        assert b"function_child" not in result.artifacts["stderr.txt"]
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


def test_an_agent_may_act_without_a_word() -> None:
    assert call("acts").failure is None


def test_values_that_json_does_not_have() -> None:
    metadata = {"tool_responses": {"a": "it"}}
    assert told(call("wide", metadata=metadata))[1][3] == {"n": str(2**70)}
    assert told(call("odd_arguments", metadata=metadata))[1][3] == {"where": "PosixPath('x')"}
    assert call("wide_answer").output == str(2**70)


def test_a_function_is_given_keys_in_order_as_a_pack_has_them() -> None:
    metadata = {"tool_responses": {"t": {"z": 1, "y": 2}}}
    result = call("shows", {"b": 1, "a": [{"d": 2, "c": 3}]}, metadata=metadata)
    assert result.output == "{'a': [{'c': 3, 'd': 2}], 'b': 1} {'y': 2, 'z': 1}"


def test_frameworks_are_kept_from_the_network_that_they_use_unasked() -> None:
    assert call("quiet").output == "trueTrue"


def test_function_whose_time_is_up_keeps_its_events_and_its_process_is_ended() -> None:
    result = call("never_returns", limits=AttemptLimits(seconds=0.3), metadata={"tool_responses": {"a": 1}})
    assert (result.failure, result.problem) == (FailureKind.TIMEOUT, "did not end within 0.3 s")
    assert [event[:2] for event in told(result)] == [
        ("user", "message"), ("agent", "tool_call"), ("tool", "tool_result"), ("agent", "message"),
    ]  # fmt: skip


def test_an_async_function_whose_time_is_up_is_cancelled_and_its_process_goes_on() -> None:
    shared = Shared("never")
    first = shared.ask("a", "")
    assert shared.ask("b", "hang", 0.2).failure is FailureKind.TIMEOUT
    wait_for("cancelled")
    assert shared.ask("c", "").output == first.output
    shared.close()


def test_after_a_crash_nobody_knows_whose_it_was_until_one_runs_alone(beside: Shared) -> None:
    beside.begin("a", "long")
    wait_for("begun-a")
    beside.begin("b", "crash")
    assert beside.are_disturbed()
    result = beside.ask("b", "crash", alone=True)
    assert (result.failure, result.problem) == (
        FailureKind.AGENT_ERROR,
        "ended its process: it died with exit code 5",
    )
    assert beside.ask("a", "", alone=True).failure is None


@pytest.mark.parametrize(("name", "said"), [("beside", "hold"), ("blocks", "hang")])
def test_one_that_holds_up_its_process_is_not_told_from_those_it_holds_up(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is held up for a minute: no shorter wait for its answer makes the test pass where it would not.
    monkeypatch.setattr("agent_eval.agents.python._RESPONSE_SECONDS", 0.5)
    shared = Shared(name)
    shared.begin("a", "long")
    wait_for("begun-a")
    shared.begin("b", said, 0.3)
    assert shared.are_disturbed()
    assert shared.ask("b", said, 0.3, alone=True).failure is FailureKind.TIMEOUT
    assert shared.ask("a", "", alone=True).failure is None
    shared.close()


def test_one_that_runs_alone_waits_for_the_others_and_they_for_it(beside: Shared) -> None:
    beside.begin("a", "wait")
    wait_for("begun-a")
    assert beside.ask("b", "", alone=True).failure is None
    assert beside.has_ended("a")


@pytest.mark.parametrize("spec", ["no_such_module:f", "no_such_package.module:f", ":f", "..x:f", "json"])
def test_function_that_cannot_be_there(spec: str) -> None:
    with pytest.raises(UsageError, match=r"the agent .* cannot be loaded"):
        open_agent(f"python:{spec}")


@pytest.mark.parametrize("name", ["missing", "not_callable", "hello.missing"])
def test_function_that_cannot_be_used(name: str) -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match=r"the agent .* (cannot be loaded|is not a function)"):
            call(name)


def test_exit_handlers_of_the_agent_run_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(
        "import atexit, pathlib\n"
        "atexit.register(pathlib.Path('left').touch)\n"
        "def agent(task): return 'hello'\n"
    )
    assert attempt("python:leaves:agent").output == "hello"
    assert Path("left").exists()


def test_clocks_that_are_not_pinned_give_real_times() -> None:
    class Nothing:
        def answer(self, tool: str, arguments: Any) -> ToolAnswer:
            return ToolAnswer(output=tool)

        def recorded(self) -> list[dict[str, Any]]:
            return []

    result = call("hello", clocks=Clocks(), beyond=Nothing())
    assert result.events[0].ts is not None
    assert result.events[0].ts.endswith("+00:00")
    assert (result.events[-1].latency_ms or 0) > 0
    assert result.seconds > 0
    assert told(result)[2] == ("tool", "tool_result", "a", "a", None)

"""Every kind of agent keeps its session over several turns, and answers a simulated user."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Clocks, RecordedAgent
from agent_eval.agents.catalog import AGENTS, open_agent
from agent_eval.agents.hosted import agent_of
from agent_eval.contracts import AttemptLimits, Trace
from agent_eval.contracts.conversation import EndReason
from agent_eval.conversation.loop import attempt_case
from agent_eval.errors import FailureKind
from agent_eval.judges import judge_case, load_judges
from tests.fakes.aui import KEY, FakeAui
from tests.fakes.json_server import JsonServer
from tests.fakes.models import FAKES, FakeModel, Step
from tests.unit.agents.tasks import around, make_task
from tests.unit.conversation.agents import end_of, hold, said

TURNS = [
    {"input": "Where is order 7?", "expected_output": "shipped"},
    {"input": "And order 8?", "expected_output": "lost"},
    {"input": "Thanks."},
]
ANSWERS = {"tool_responses": {"lookup": "found"}}

PROGRAM = """
import json, sys
task = json.load(sys.stdin)
said = [turn["input"] for turn in task["history"]]
if task["input"] == "fail": sys.exit(3)
call = {"id": "1", "tool": "lookup", "arguments": {"turn": task["turn"]}}
print(json.dumps({"assistant_output": f"{task['turn']} after {said}", "tool_calls": [call]}))
print("working", file=sys.stderr)
"""
FUNCTIONS = """
import asyncio
sessions = {}
def keeps(task):
    mine = sessions.setdefault(task["session_id"], [])
    mine.append(task["input"])
    return f"{task['turn']} {mine}"
async def waits(task, call_tool):
    await asyncio.sleep(0.001)
    return f"{call_tool('lookup', {'turn': task['turn']})} {len(task['history'])}"
async def slow(task):
    await asyncio.sleep(0.3)
    return "slow"
"""


@pytest.fixture(autouse=True)
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "session_functions.py").write_text(FUNCTIONS)
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))


def converse(agent: Agent, turns: Any = None, **fields: Any) -> AttemptResult:
    task = make_task(None, turns=turns or TURNS, metadata=ANSWERS, **fields)
    return attempt_case(agent, task, around(task))


def program(place: Path) -> Agent:
    return open_agent(f"command:{sys.executable} {place / 'program.py'}")


def test_a_program_is_started_for_each_turn_with_what_was_said_before(tmp_path: Path) -> None:
    result = converse(program(tmp_path))
    assert result.failure is None
    assert result.output == "3 after ['Where is order 7?', 'And order 8?']"
    outputs = [turn["assistant_output"] for turn in result.turns]
    assert outputs == ["1 after []", "2 after ['Where is order 7?']", result.output]
    events = result.events
    assert [event.idx for event in events] == list(range(len(events)))
    assert [event.turn for event in events] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]
    assert [event.input for event in events if event.actor == "user"] == [turn["input"] for turn in TURNS]
    assert [call["arguments"] for call in result.tool_calls] == [{"turn": 1}, {"turn": 2}, {"turn": 3}]
    assert result.response()["turns"] == list(result.turns)
    assert sorted(result.artifacts) == [f"turn-{number}-stderr.txt" for number in (1, 2, 3)]


def test_a_call_id_that_an_agent_uses_in_every_turn_is_made_unique(tmp_path: Path) -> None:
    trace = Trace(converse(program(tmp_path)).events)
    assert [call.call.call_id for call in trace.calls if call.call] == ["1", "1-turn-2", "1-turn-3"]
    assert [call.result.output for call in trace.calls if call.result] == ["found"] * 3


def test_a_turn_that_fails_ends_the_conversation(tmp_path: Path) -> None:
    result = converse(program(tmp_path), [{"input": "hello"}, {"input": "fail"}, {"input": "never sent"}])
    assert result.failure is FailureKind.AGENT_ERROR
    assert result.problem.startswith("in turn 2: exited with code 3")
    assert [event.input for event in result.events if event.actor == "user"] == ["hello", "fail"]
    assert result.events[-1].turn == 2


def test_the_limits_are_those_of_all_turns_together(tmp_path: Path) -> None:
    calls = converse(program(tmp_path), limits=AttemptLimits(tool_calls=2))
    assert (calls.failure, len(calls.tool_calls)) == (FailureKind.BUDGET_EXCEEDED, 2)
    assert calls.problem.startswith("in turn 3: ")
    agent = open_agent("python:session_functions:slow")
    task = make_task(None, turns=TURNS, limits=AttemptLimits(seconds=0.5))
    slow = attempt_case(agent, task, around(task, clocks=Clocks()))
    assert (slow.failure, slow.problem) == (FailureKind.TIMEOUT, "did not end within 0.5 s, in turn 2")
    agent.close()


def test_a_function_can_keep_a_session_that_no_other_attempt_has() -> None:
    agent = open_agent("python:session_functions:keeps")
    for _ in range(2):
        assert converse(agent).output == "3 ['Where is order 7?', 'And order 8?', 'Thanks.']"
    with closing(open_agent("python:session_functions:waits")) as agent:
        outputs = [turn["assistant_output"] for turn in converse(agent).turns]
        assert outputs == ["found 0", "found 1", "found 2"]


def test_an_agent_behind_an_address_is_sent_the_session_and_its_history() -> None:
    with JsonServer() as server:
        server.answers = [(200, {}, json.dumps({"assistant_output": text}).encode()) for text in "abc"]
        agent = open_agent(server.url)
        assert [converse(agent).output for _ in range(2)] == ["c", "c"]
    first, second = server.requests[:3], server.requests[3:]
    assert [request["turn"] for request in first] == [1, 2, 3]
    assert [request["input"] for request in first] == [turn["input"] for turn in TURNS]
    history = [(turn["input"], turn["assistant_output"], turn["tool_calls"]) for turn in first[2]["history"]]
    assert history == [("Where is order 7?", "a", []), ("And order 8?", "b", [])]
    assert {request["expected_output"] for request in first} == {None}
    ids = [{request["session_id"] for request in requests} for requests in (first, second)]
    assert [len(one) for one in ids] == [1, 1]
    assert ids[0] != ids[1]


@pytest.fixture(params=FAKES)
def hosted(request: pytest.FixtureRequest) -> Iterator[tuple[FakeModel, Any]]:
    answers = [Step(text=text) for text in ("It is found.", "Lost.", "!")]
    with FAKES[request.param](Step(calls=[("lookup", {"id": 7})]), *answers) as server:
        agent = agent_of(request.param)("small", base_url=server.base_url, api_key="k")
        with closing(agent):
            yield server, agent


def test_a_model_reads_the_whole_conversation_with_its_calls(hosted: tuple[FakeModel, Any]) -> None:
    server, agent = hosted
    result = converse(agent)
    assert [turn["assistant_output"] for turn in result.turns] == ["It is found.", "Lost.", "!"]
    assert (result.steps, result.tokens) == (4, 440)
    last = server.requests[-1]["messages"]
    assert [message["role"] for message in last if message["role"] == "assistant"] == ["assistant"] * 3
    words = ("order 7", "found", "It is found.", "order 8", "Lost.", "Thanks.")
    places = [json.dumps(last).index(each) for each in words]
    assert places == sorted(places)


def test_a_model_has_its_steps_and_tokens_for_the_whole_conversation(hosted: tuple[FakeModel, Any]) -> None:
    _, agent = hosted
    assert converse(agent, limits=AttemptLimits(steps=3)).problem.startswith("in turn 3: ")
    tokens = converse(agent, limits=AttemptLimits(tokens=250))
    assert tokens.failure is FailureKind.BUDGET_EXCEEDED


def test_recorded_conversations_are_replayed_as_a_whole() -> None:
    events = [
        {"idx": 0, "actor": "user", "type": "message", "input": "Hi"},
        {"idx": 1, "actor": "agent", "type": "message", "output": "Hello"},
    ]
    task = make_task(None, turns=[{"input": "Hi"}], trace=events)
    assert len(attempt_case(RecordedAgent(), task, around(task)).events) == 2


def test_each_turn_is_judged_by_what_it_expects(tmp_path: Path) -> None:
    expected = {"a": "1 after []", "b": "something else"}
    turns = [{"input": text, "expected_output": output} for text, output in expected.items()]
    task = make_task(None, turns=turns, metadata={**ANSWERS, "final_output": {"mode": "exact"}})
    result = attempt_case(program(tmp_path), task, around(task))
    verdicts = judge_case(load_judges(["final_output"]), task.case, Trace(result.events))
    (verdict,) = [verdict for verdict in verdicts if verdict.judge_id == "final_output"]
    assert (verdict.outcome.value, [turn["turn"] for turn in verdict.evidence["turns"]]) == ("failed", [1, 2])


SPEAKING_PROGRAM = """
import json, sys
task = json.load(sys.stdin)
print(json.dumps({"assistant_output": f"answer {task['turn']} for {task['user_info']['name']}"}))
"""
SPEAKING_FUNCTION = "def plain(task): return f\"answer {task['turn']} for {task['user_info']['name']}\""
SPOKEN = [f"answer {turn} for Jane" for turn in (1, 2, 3)]
ROWS = [
    {"turn": 2, "text": "It is order 7."},
    {"turn": 3, "object": {"message": "Thanks!", "done": True, "reason": "goal"}},
]
PROMPTED = {"guidelines": "You want a refund.", "max_turns": 1, "system_prompt": "Be very brief."}
CONVERSATION = {"guidelines": "You want a refund of order 7.", "user_info": {"name": "Jane"}}


def opened(kind: str, stack: ExitStack, place: Path) -> Agent:
    """An agent of a kind, which says the answers."""
    match kind:
        case "command":
            (place / "program.py").write_text(SPEAKING_PROGRAM)
            return open_agent(f"command:{sys.executable} {place / 'program.py'}")
        case "python":
            (place / "conversation_functions.py").write_text(SPEAKING_FUNCTION)
            return open_agent("python:conversation_functions:plain")
        case "http":
            server = stack.enter_context(JsonServer())
            server.answers = [(200, {}, json.dumps({"output": text}).encode()) for text in SPOKEN]
            return open_agent(server.url)
        case "aui" | "aui-v3":
            aui = stack.enter_context(FakeAui(*({"text": text} for text in SPOKEN)))
            options = AgentOptions(environ={"AUI_API_KEY": KEY}, base_url=aui.url)
            return open_agent(f"{kind}:a", options)
    model = stack.enter_context(FAKES[kind](*(Step(text=text) for text in SPOKEN)))
    return agent_of(kind)("small", base_url=model.base_url, api_key="k")


@pytest.mark.parametrize("kind", sorted(AGENTS.keys() - {"recorded"}))
def test_every_kind_of_agent_answers_a_simulated_user_until_it_has_its_goal(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    with ExitStack() as stack:
        agent = stack.enter_context(closing(opened(kind, stack, tmp_path)))
        result = hold(agent, *ROWS, turns=[{"input": "Hello"}], conversation=CONVERSATION)
    assert (result.failure, end_of(result).reason) == (None, EndReason.GOAL)
    assert said(result) == ["Hello", "It is order 7.", "Thanks!"]
    assert [turn["assistant_output"] for turn in result.turns] == SPOKEN


@pytest.mark.parametrize("provider", FAKES)
def test_the_system_prompt_of_a_case_takes_the_place_of_the_models_own(provider: str) -> None:
    with FAKES[provider](Step(text="ok")) as server:
        agent = agent_of(provider)("small", base_url=server.base_url, api_key="k", system="Be long-winded.")
        with closing(agent):
            hold(agent, given="Hello", conversation=PROMPTED)
            hold(agent, given="Hello", conversation={"max_turns": 1})
    first, second = map(json.dumps, server.requests)
    assert "Be very brief." in first
    assert ["long-winded" in request for request in (first, second)] == [False, True]


def test_a_program_is_told_the_system_prompt_of_a_case(tmp_path: Path) -> None:
    answer = "{'assistant_output': json.load(sys.stdin)['system_prompt']}"
    (tmp_path / "echo.py").write_text(f"import json, sys\nprint(json.dumps({answer}))")
    agent = open_agent(f"command:{sys.executable} {tmp_path / 'echo.py'}")
    assert hold(agent, given="Hello", conversation=PROMPTED).output == "Be very brief."

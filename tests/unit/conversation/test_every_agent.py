"""Every kind of agent holds a conversation with a simulated user."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from agent_eval.agents.base import Agent, AgentOptions
from agent_eval.agents.catalog import open_agent
from agent_eval.agents.hosted import agent_of
from agent_eval.contracts.conversation import EndReason
from tests.fakes.aui import KEY, FakeAui
from tests.fakes.json_server import JsonServer
from tests.fakes.models import FAKES, Step
from tests.unit.conversation.agents import end_of, hold, said

PROGRAM = """
import json, sys
task = json.load(sys.stdin)
print(json.dumps({"assistant_output": f"answer {task['turn']} for {task['user_info']['name']}"}))
"""
FUNCTIONS = """
import asyncio
def plain(task): return f"answer {task['turn']} for {task['user_info']['name']}"
async def waits(task):
    await asyncio.sleep(0)
    return plain(task)
"""
ROWS = [
    {"turn": 2, "text": "It is order 7."},
    {"turn": 3, "object": {"message": "Thanks!", "done": True, "reason": "goal"}},
]
PROMPTED = {"guidelines": "You want a refund.", "max_turns": 1, "system_prompt": "Be very brief."}
CONVERSATION = {"guidelines": "You want a refund of order 7.", "user_info": {"name": "Jane"}}
Opener = Callable[[ExitStack, Path], Agent]


def command(stack: ExitStack, place: Path) -> Agent:
    (place / "program.py").write_text(PROGRAM)
    return open_agent(f"command:{sys.executable} {place / 'program.py'}")


def function(name: str) -> Opener:
    def opened(stack: ExitStack, place: Path) -> Agent:
        (place / "conversation_functions.py").write_text(FUNCTIONS)
        return open_agent(f"python:conversation_functions:{name}")

    return opened


def address(stack: ExitStack, place: Path) -> Agent:
    server = stack.enter_context(JsonServer())
    answers = [{"assistant_output": f"answer {turn} for Jane"} for turn in (1, 2, 3)]
    server.answers = [(200, {}, json.dumps(answer).encode()) for answer in answers]
    return open_agent(server.url)


def hosted(provider: str) -> Opener:
    def opened(stack: ExitStack, place: Path) -> Agent:
        steps = [Step(text=f"answer {turn} for Jane") for turn in (1, 2, 3)]
        server = stack.enter_context(FAKES[provider](*steps))
        return agent_of(provider)("small", base_url=server.base_url, api_key="k")

    return opened


def aui(kind: str) -> Opener:
    def opened(stack: ExitStack, place: Path) -> Agent:
        answers = [{"text": f"answer {turn} for Jane"} for turn in (1, 2, 3)]
        server = stack.enter_context(FakeAui(*answers))
        return open_agent(f"{kind}:a", AgentOptions(environ={"AUI_API_KEY": KEY}, base_url=server.url))

    return opened


KINDS: dict[str, Opener] = {
    "command": command,
    "python": function("plain"),
    "python, async": function("waits"),
    "http": address,
    **{provider: hosted(provider) for provider in FAKES},
    "aui": aui("aui"),
    "aui-v3": aui("aui-v3"),
}


@pytest.fixture(params=KINDS)
def agent(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "conversation_functions", raising=False)
    with ExitStack() as stack:
        yield stack.enter_context(closing(KINDS[request.param](stack, tmp_path)))


def test_every_kind_of_agent_answers_a_simulated_user_until_it_has_its_goal(agent: Agent) -> None:
    result = hold(agent, *ROWS, turns=[{"input": "Hello"}], conversation=CONVERSATION)
    assert (result.failure, end_of(result).reason) == (None, EndReason.GOAL)
    assert said(result) == ["Hello", "It is order 7.", "Thanks!"]
    assert [turn["assistant_output"] for turn in result.turns] == [f"answer {n} for Jane" for n in (1, 2, 3)]


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

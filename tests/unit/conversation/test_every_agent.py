"""Every kind of agent holds a conversation with a simulated user."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from agent_eval.agents.base import Agent, AgentOptions
from agent_eval.agents.catalog import AGENTS, open_agent
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
FUNCTION = "def plain(task): return f\"answer {task['turn']} for {task['user_info']['name']}\""
ANSWERS = [f"answer {turn} for Jane" for turn in (1, 2, 3)]
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
            (place / "program.py").write_text(PROGRAM)
            return open_agent(f"command:{sys.executable} {place / 'program.py'}")
        case "python":
            (place / "conversation_functions.py").write_text(FUNCTION)
            return open_agent("python:conversation_functions:plain")
        case "http":
            server = stack.enter_context(JsonServer())
            server.answers = [(200, {}, json.dumps({"output": text}).encode()) for text in ANSWERS]
            return open_agent(server.url)
        case "aui" | "aui-v3":
            aui = stack.enter_context(FakeAui(*({"text": text} for text in ANSWERS)))
            options = AgentOptions(environ={"AUI_API_KEY": KEY}, base_url=aui.url)
            return open_agent(f"{kind}:a", options)
    model = stack.enter_context(FAKES[kind](*(Step(text=text) for text in ANSWERS)))
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
    assert [turn["assistant_output"] for turn in result.turns] == ANSWERS


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

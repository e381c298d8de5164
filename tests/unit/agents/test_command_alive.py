"""A `command` agent that stays alive for a conversation."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agent_eval.agents.base import Agent, AgentOptions
from agent_eval.agents.catalog import agent_from_description, open_agent
from agent_eval.contracts.conversation import EndReason
from agent_eval.errors import FailureKind
from tests.unit.agents.tasks import around, make_task
from tests.unit.conversation.agents import end_of, hold

PROGRAM = """
import json, os, sys, urllib.request
def call(tool):
    body = json.dumps({"tool": tool}).encode()
    with urllib.request.urlopen(os.environ["AGENT_EVAL_TOOLS"], data=body) as answer:
        return json.load(answer)["output"]
inputs = []
for line in sys.stdin:
    task = json.loads(line)
    inputs.append(task["input"])
    if task["input"] == "crash": sys.exit(3)
    if task["input"] == "hang": sys.stdin.read()
    print("turn", task.get("turn"), file=sys.stderr, flush=True)
    text = f"{os.getpid()} {inputs} {call('lookup')}"
    print(json.dumps({"assistant_output": text}), flush=True)
"""
ANSWERS = {"tool_response_cassette": [{"tool": "lookup", "arguments": {}, "responses": ["a", "b", "c"]}]}
TURNS = [{"input": "Hello"}, {"input": "And now?"}, {"input": "Thanks"}]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = f"command:{sys.executable} {tmp_path / 'program.py'}"
    return open_agent(command, AgentOptions(environ={}, keep_alive=True))


def test_one_process_has_all_turns_and_its_tools_keep_their_place(agent: Agent) -> None:
    with closing(agent):
        result = hold(agent, turns=TURNS, conversation={"max_turns": 3}, metadata=ANSWERS)
    assert (result.failure, end_of(result).reason) == (None, EndReason.TURN_LIMIT)
    outputs = [turn["assistant_output"].split(" ", 1) for turn in result.turns]
    assert len({pid for pid, _ in outputs}) == 1
    assert [text for _, text in outputs] == [
        "['Hello'] a",
        "['Hello', 'And now?'] b",
        "['Hello', 'And now?', 'Thanks'] c",
    ]
    calls = [event.turn for event in result.events if event.type == "tool_call"]
    assert calls == [1, 2, 3]


def test_each_conversation_has_a_process_of_its_own(agent: Agent) -> None:
    with closing(agent):
        results = [
            hold(agent, turns=TURNS[:1], conversation={"max_turns": 1}, metadata=ANSWERS) for _ in range(2)
        ]
    assert len({str(result.output).split()[0] for result in results}) == 2


@pytest.mark.parametrize(
    ("text", "timeout", "failure"),
    [("crash", 30, FailureKind.AGENT_ERROR), ("hang", 0.5, FailureKind.TIMEOUT)],
)
def test_a_program_that_fails_in_a_turn_ends_the_conversation(
    agent: Agent, text: str, timeout: float, failure: FailureKind
) -> None:
    turns = [{"input": "Hello"}, {"input": text, "timeout": timeout}, {"input": "never"}]
    with closing(agent):
        result = hold(agent, turns=turns, metadata=ANSWERS)
    assert (result.failure, end_of(result).turn) == (failure, 2)


def test_a_case_without_turns_starts_the_program_as_ever(agent: Agent) -> None:
    task = make_task("Hello", metadata=ANSWERS)
    with closing(agent):
        result = agent.attempt(task, around(task))
    assert str(result.output).endswith("['Hello'] a")


def test_the_evidence_says_that_the_program_stays_alive(agent: Agent) -> None:
    described = agent.describe()
    assert described["keep_alive"] is True
    again = open_agent(*agent_from_description(described, AgentOptions()))
    assert again.describe() == described
    assert "keep_alive" not in json.dumps(open_agent("command:true", AgentOptions()).describe())

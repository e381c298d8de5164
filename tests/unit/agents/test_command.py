"""Agents that are programs: real ones, started for every attempt or alive for a conversation."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Task
from agent_eval.agents.catalog import agent_from_description, open_agent
from agent_eval.agents.command import CommandAgent, split_command
from agent_eval.contracts import AttemptLimits, TokenUsage, Trace
from agent_eval.contracts.conversation import EndReason
from agent_eval.errors import FailureKind, NotEvaluable, UsageError
from tests.unit.agents.tasks import around, make_task, told
from tests.unit.conversation.agents import end_of, hold

ECHO = "import json, sys; print(json.dumps({'assistant_output': json.load(sys.stdin)}))"


def attempt(code: str, task: Task | None = None, **around_options: Any) -> AttemptResult:
    task = task or make_task()
    return CommandAgent([sys.executable, "-c", code]).attempt(task, around(task, **around_options))


def test_payload_is_what_the_specification_says() -> None:
    task = make_task(
        {"order": 7}, expected_output="secret answer", metadata={"tool_responses": {"refund": "ok"}},
        tool_contracts={"refund": {"required_args": ["order"]}}, policy={"forbidden_tools": ["delete"]},
        mode="repair", attempt=1, previous_attempts=[{"attempt": 0}],
    )  # fmt: skip
    contracts = {"refund": {"required_args": ["order"], "forbidden_args": [], "args_schema": None}}
    assert attempt(ECHO, task).output == {
        "mode": "repair", "case_id": "c1", "input": {"order": 7}, "expected_output": None,
        "attempt": 1, "previous_attempts": [{"attempt": 0}],
        "contracts": contracts, "tool_contracts": contracts,
        "policy": {"required_tools": [], "forbidden_tools": ["delete"]},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "shared"),
    [
        ({"share_expected_output": True}, True),
        ({"metadata": {"share_expected_output": True}}, True),
        ({"metadata": {"share_expected_output": "yes"}}, False),
    ],
)
def test_expected_output_is_shared_only_when_somebody_says_so(options: Any, shared: bool) -> None:
    payload = attempt(ECHO, make_task(expected_output="answer", **options)).output
    assert payload["expected_output"] == ("answer" if shared else None)


def test_tool_calls_and_output_become_events() -> None:
    calls = [
        {"tool": "lookup", "arguments": {"id": 7}, "id": "mine"},
        {"name": "refund", "input": {"id": 7}},
        {"tool": "mail"},
    ]
    usage = {"prompt_tokens": 12, "output_tokens": 3, "other": 1}
    facts = {"model": "small", "usage": usage, "cost_usd": 0.5}
    answer = {"assistant_output": "Refunded.", "tool_calls": calls, **facts}
    metadata = {"tool_responses": {"lookup": {"sum": 5}, "refund": {"error": "too late", "output": 1}}}
    result = attempt(f"print({json.dumps(json.dumps(answer))})", make_task("Refund 7", metadata=metadata))
    assert told(result) == [
        ("user", "message", None, "Refund 7", None),
        ("agent", "tool_call", "lookup", {"id": 7}, None),
        ("tool", "tool_result", "lookup", {"sum": 5}, None),
        ("agent", "tool_call", "refund", {"id": 7}, None),
        ("tool", "tool_result", "refund", 1, "too late"),
        ("agent", "tool_call", "mail", {}, None),
        ("tool", "tool_result", "mail", None, "unknown_tool"),
        ("agent", "message", None, "Refunded.", None),
    ]
    assert [event.call_id for event in result.events[1:7:2]] == ["mine", "call-0-1", "call-0-2"]
    sources = [event.attributes.get("agent_eval.tool_response.source") for event in result.events[2:7:2]]
    assert sources == ["tool_responses", "tool_responses", "missing"]
    last = result.events[-1]
    assert (last.model, last.cost_usd, last.attributes) == ("small", 0.5, {})
    assert last.usage == TokenUsage(input_tokens=12, output_tokens=3)
    assert Trace(result.events).final_output == "Refunded."
    calls = {"lookup": {"id": 7}, "refund": {"id": 7}, "mail": {}}
    assert result.response() == {
        "assistant_output": "Refunded.",
        "tool_calls": [{"tool": tool, "arguments": arguments} for tool, arguments in calls.items()],
    }


@pytest.mark.parametrize(
    ("code", "failure", "problem"),
    [
        ("", FailureKind.MISSING_OUTPUT, "gave nothing on standard output"),
        ("print('hello')", FailureKind.PARSE_ERROR, "gave no JSON: standard output"),
        ("print('{\"assistant_output\": 1')", FailureKind.PARSE_ERROR, "gave no JSON"),
        ("print('[' * 100000)", FailureKind.PARSE_ERROR, "gave no JSON"),
        ("print('1' * 5000)", FailureKind.PARSE_ERROR, "gave no JSON"),
        ("print('[1]')", FailureKind.TYPE_ERROR, "answered with a list instead of an object"),
        ("print('null')", FailureKind.TYPE_ERROR, "answered with null"),
        ("print('true')", FailureKind.TYPE_ERROR, "answered with true or false"),
        ("print('1.5')", FailureKind.TYPE_ERROR, "answered with a number"),
        ('print(\'{"tool_calls": "x"}\')', FailureKind.TYPE_ERROR, "gave a string as tool_calls"),
        ("print('{\"tool_calls\": [{}]}')", FailureKind.TYPE_ERROR, "gave tool_calls[0] without a tool's"),
        ('print(\'{"error": "no key"}\')', FailureKind.AGENT_ERROR, "reported an error: no key"),
        ('print(\'{"error": {"code": 3}}\')', FailureKind.AGENT_ERROR, 'reported an error: {"code": 3}'),
        ("raise SystemExit(3)", FailureKind.AGENT_ERROR, "exited with code 3"),
        ("import time; time.sleep(60)", FailureKind.TIMEOUT, "did not end within 1 s"),
        ("print('x' * 2000)", FailureKind.OUTPUT_LIMIT, "wrote more than 1000 bytes to standard output"),
    ],
)
def test_failures_have_their_kind(code: str, failure: FailureKind, problem: str) -> None:
    limits = AttemptLimits(
        seconds=1.0 if "sleep" in code else 60.0, output_bytes=1000 if "2000" in code else 1 << 20
    )
    result = attempt(code, make_task(expected_output="never this", limits=limits))
    assert result.failure is failure
    assert result.problem.startswith(problem)
    assert result.output is None
    assert Trace(result.events).final_output is None
    assert result.events[-1].error == f"{failure.value}: {result.problem}"
    assert result.response()["failure"] == failure.value


def test_what_it_wrote_is_kept_and_its_last_words_are_told() -> None:
    code = "import sys; print('half'); print('warning', file=sys.stderr); raise KeyError('\\x1b[31mno key')"
    result = attempt(code)
    assert result.problem.startswith("exited with code 1: KeyError: ")
    assert "\x1b" not in result.problem
    assert result.artifacts["stdout.txt"] == b"half\n"
    assert result.artifacts["stderr.txt"].startswith(b"warning\nTraceback")


def test_what_is_printed_beside_an_answer_or_instead_is_kept() -> None:
    result = attempt("import sys; print('{\"output\": \"ok\"}'); print('note', file=sys.stderr)")
    assert (result.output, dict(result.artifacts)) == ("ok", {"stderr.txt": b"note\n"})
    assert attempt("print('hello')").artifacts == {"stdout.txt": b"hello\n"}


def test_missing_answers_fail_the_attempt_only_when_that_is_strict() -> None:
    code = 'print(\'{"assistant_output": "ok", "tool_calls": [{"tool": "pay", "arguments": {"sum": 1}}]}\')'
    assert attempt(code).failure is None
    result = attempt(code, strict=True)
    assert result.failure is FailureKind.CONTRACT_VIOLATION
    assert result.problem == 'called pay with {"sum":1}, for which the case has no answer'
    assert told(result)[2] == ("tool", "tool_result", "pay", None, result.problem)


def test_program_that_does_not_exist_stops_the_run() -> None:
    task = make_task()
    with pytest.raises(NotEvaluable, match="no-such-agent"):
        CommandAgent(["no-such-agent"]).attempt(task, around(task))


def test_repairs_may_have_a_command_of_their_own(tmp_path: Path) -> None:
    options = AgentOptions(
        environ={"PATH": "/usr/bin:/bin", "WANTED": "seen", "TOKEN": "never"},
        repair_command='sh -c \'echo {\\"output\\": \\"repaired $PWD $WANTED$TOKEN\\"}\'',
        pass_on=("WANTED",),
        cwd=tmp_path,
    )
    agent = open_agent('command:sh -c \'echo {\\"output\\": \\"proposed\\"}\'', options)
    outputs = []
    for mode in ("propose", "repair"):
        task = make_task(mode=mode)
        outputs.append(agent.attempt(task, around(task)).output)
    assert outputs == ["proposed", f"repaired {tmp_path} seen"]
    described = agent.describe()
    assert described["environment"] == ["WANTED"]
    assert described["command"][0] == "sh"
    assert "never" not in str(described)


@pytest.mark.parametrize("command", ["", "  ", "python 'agent.py"])
def test_command_that_cannot_be_read(command: str) -> None:
    with pytest.raises(UsageError):
        split_command(command)


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

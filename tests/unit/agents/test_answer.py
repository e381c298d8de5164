"""Misspelt keys of an agent's answer are refused; other unknown keys are the agent's own."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from agent_eval.agents.answer import ANSWER_KEYS, CALL_KEYS, UnusableAnswer, check_answer, problem_of_keys
from agent_eval.agents.base import AttemptResult
from agent_eval.agents.command import CommandAgent
from agent_eval.errors import FailureKind
from tests.unit.agents.tasks import around, make_task


def attempt(answer: dict[str, Any]) -> AttemptResult:
    task = make_task(policy={"forbidden_tools": ["refund"]}, metadata={"tool_responses": {"refund": "paid"}})
    program = f"print({json.dumps(answer)!r})"
    return CommandAgent([sys.executable, "-c", program]).attempt(task, around(task))


def test_a_refund_under_a_misspelt_key_is_a_failure_and_no_pass() -> None:
    result = attempt({"assistant_output": "Done.", "toolcalls": [{"tool": "refund", "arguments": {}}]})
    assert result.failure is FailureKind.TYPE_ERROR
    assert result.problem == 'gave its answer the unknown key "toolcalls" (did you mean tool_calls?)'


@pytest.mark.parametrize(
    ("of_call", "key", "meant"),
    [
        *((False, key, "tool_calls") for key in ("toolcalls", "tool_call", "toolCalls", "calls")),
        *((False, "event", "events"), (False, "errors", "error"), (False, "cost-usd", "cost_usd")),
        (False, "asistant_output", "assistant_output"),
        *((True, key, "arguments") for key in ("args", "parameters", "argument")),
        *((True, "result", "output"), (True, "Output", "output"), (True, "callId", "call_id")),
    ],
)
def test_a_misspelt_key_is_refused(of_call: bool, key: str, meant: str) -> None:
    answer: dict[str, Any] = {key: []} if meant == "assistant_output" else {"output": "Done.", key: []}
    if of_call:
        answer = {
            "output": "Done.",
            "tool_calls": [{"tool": "lookup", "output": 1}, {"tool": "pay", key: "7"}],
        }
    with pytest.raises(UnusableAnswer) as refused:
        check_answer(answer)
    assert refused.value.failure is FailureKind.TYPE_ERROR
    place = "tool_calls[1]" if of_call else "its answer"
    words = f"gave {place} the unknown key {json.dumps(key)} (did you mean {meant}?)"
    assert refused.value.problem == words


@pytest.mark.parametrize(
    "answer",
    [
        {"assistant_output": "Done.", "request_id": "r-1", "mode": "fast", "x" * 5_000: 1, "": 2},
        {"output": "Done.", "tool_calls": [], "calls": 0},
        {"assistant_output": "Done.", 7: "seven"},
    ],
    ids=["unlike ours", "beside the key that is meant", "no text"],
)
def test_the_agents_own_keys_are_accepted(answer: dict[Any, Any]) -> None:
    assert problem_of_keys(answer, ANSWER_KEYS, "its answer") is None
    assert check_answer(answer) is answer


@pytest.mark.parametrize(
    "call",
    [
        {"tool": "refund", "type": "function", "idx": 3, "latency": 0.5},
        {"tool": "refund", "arguments": {}, "args": [], "output": "paid", "result": "paid"},
        {"name": "refund", "input": {}, "params": {}, "error": "late", "response": None},
    ],
)
def test_the_agents_own_keys_of_a_call_are_accepted(call: dict[str, Any]) -> None:
    assert problem_of_keys(call, CALL_KEYS, "tool_calls[0]") is None


def test_a_key_is_quoted_so_that_a_terminal_shows_it() -> None:
    assert r'"tool\u001bcalls"' in problem_of_keys({"tool\x1bcalls": []}, ANSWER_KEYS, "its answer")

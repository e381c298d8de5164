"""Reading what an agent answered in one piece, and what its tools gave to the calls in it.

    {"assistant_output": "Refunded.", "tool_calls": [{"tool": "refund", "arguments": {"order": 7}}]}

`output` does for `assistant_output`, `name` for `tool` and `input` for `arguments`. Optional: the `id` of a
call; `error`, which fails the attempt; `model`, `usage` (`input_tokens`, `output_tokens`) and `cost_usd`.
"""

from __future__ import annotations

import json
import math
from typing import Any

from agent_eval.agents.protocol import AttemptResult, ToolFault
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.contracts import canonical_json
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.storage.json_reader import Limits, parse

_USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
}


class UnusableAnswer(Exception):
    """An answer that is not what it must be, with the kind of failure and the problem in words."""

    def __init__(self, failure: FailureKind, problem: str) -> None:
        super().__init__(problem)
        self.failure, self.problem = failure, problem


def read_answer(data: bytes, *, what: str) -> dict[str, Any]:
    """The agent's answer as an object.

    Args:
        data: What it gave.
        what: What to call that in messages, such as `standard output`.

    Raises:
        UnusableAnswer: `MISSING_OUTPUT` when there is nothing, `PARSE_ERROR` when it is not JSON,
            `TYPE_ERROR` when it is not an object.
    """
    if not data.strip():
        raise UnusableAnswer(FailureKind.MISSING_OUTPUT, f"gave nothing on {what}")
    try:
        value = parse(data, source=what, limits=Limits(max_bytes=len(data)))
    except InvalidInput as error:
        raise UnusableAnswer(FailureKind.PARSE_ERROR, f"gave no JSON: {error.message}") from None
    return checked_answer(value)


def checked_answer(value: Any) -> dict[str, Any]:
    """A value as an answer.

    Raises:
        UnusableAnswer: `TYPE_ERROR`.
    """
    if not isinstance(value, dict):
        raise UnusableAnswer(
            FailureKind.TYPE_ERROR, f"answered with {_kind(value)} instead of an object with assistant_output"
        )
    calls = value.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise UnusableAnswer(FailureKind.TYPE_ERROR, f"gave {_kind(calls)} as tool_calls instead of a list")
    for number, call in enumerate(calls or []):
        if not isinstance(call, dict) or not isinstance(call.get("tool", call.get("name")), str):
            raise UnusableAnswer(FailureKind.TYPE_ERROR, f"gave tool_calls[{number}] without a tool's name")
    return value


def record_answer(recorder: Recorder, answer: dict[str, Any], seconds: float) -> AttemptResult:
    """Record an agent's answer: its tool calls, what its tools gave, and its output.

    One with neither fails the attempt: an agent that did nothing breaks no rule, and would pass.

    Args:
        recorder: Has the user's message already.
        answer: From `checked_answer`.
        seconds: How long the agent took.
    """
    try:
        for call in answer.get("tool_calls") or []:
            tool = call.get("tool", call.get("name"))
            arguments = call.get("arguments", call.get("input", {}))
            stated = call.get("id", call.get("call_id"))
            call_id = recorder.called(tool, arguments, stated if isinstance(stated, str) else None)
            recorder.answered(tool, arguments, call_id)
    except (ToolFault, LimitReached) as problem:
        return recorder.result(None, problem.failure, problem.problem)
    output = answer.get("assistant_output", answer.get("output"))
    error = answer.get("error")
    if error is None and output in (None, "") and not recorder.calls:
        return recorder.result(
            None, FailureKind.MISSING_OUTPUT, "answered with neither an output nor tool calls"
        )
    recorder.said(output, seconds=seconds, attributes=attributes_of(answer))
    if error is not None:
        words = error if isinstance(error, str) else json.dumps(error)
        return recorder.result(output, FailureKind.AGENT_ERROR, f"reported an error: {words[:2000]}")
    return recorder.result(output)


def attributes_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Model, tokens and cost that an answer states, by the names of OpenTelemetry."""
    attributes: dict[str, Any] = {}
    if isinstance(answer.get("model"), str):
        attributes["gen_ai.response.model"] = answer["model"]
    usage = answer.get("usage")
    for name, attribute in _USAGE.items():
        if isinstance(usage, dict) and _is_figure(usage.get(name)):
            attributes.setdefault(attribute, usage[name])
    if _is_figure(answer.get("cost_usd")):
        attributes["cost_usd"] = answer["cost_usd"]
    return attributes


def storable(value: Any) -> Any:
    """The value as JSON can hold it: other types become text, broken characters are replaced."""
    try:
        canonical_json(value)
    except TypeError:
        try:
            text = json.dumps(value, default=repr, ensure_ascii=False)
            return parse(text.encode("utf-8", "replace"), source="value")
        except (InvalidInput, ValueError, TypeError, RecursionError):
            return repr(value)[:2000].encode("utf-8", "replace").decode()
    return value


def in_order(value: Any) -> Any:
    """The same JSON value with the keys of its objects in order, as a pack or a cassette has them.

    An agent that prints what it was given says the same then when it is given that from a file of ours.
    """
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _kind(value: Any) -> str:
    names = {str: "a string", list: "a list", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)

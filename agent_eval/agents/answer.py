"""Answers in one piece: read what an agent printed or returned, and record it as events.

Misspelt keys are refused: a misspelt `tool_calls` would be ignored, and with it what the agent did, so that a
case that forbids it would pass. Other unknown keys are the agent's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from agent_eval.agents.base import AttemptEnded, AttemptResult, ToolFault
from agent_eval.agents.recorder import LimitReached, Recorder
from agent_eval.contracts import Event
from agent_eval.contracts.conversation import CONVERSATION_END, CONVERSATION_RESTART
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.models.usage import AnswerFacts, facts_of, figure_of
from agent_eval.storage.json import Limits, parse
from agent_eval.text.spelling import nearest

_LEAST_LIKENESS = 0.8
_LONGEST_COMPARED = 40
"""Characters of a key; longer ones are not compared."""
_SET_BY_THE_RECORDER = ("idx", "attempt", "turn")
"""Fields that agents do not decide: with a turn of its choice, one could hide what it did from its judges."""


class UnusableAnswer(AttemptEnded):
    """An agent's answer does not have the required form."""


def read_answer(data: bytes, *, what: str) -> dict[str, Any]:
    """Parse an agent's answer: JSON of an object with any of `ANSWER_KEYS`.

    `what` names it in messages, such as `standard output`.

    Raises:
        UnusableAnswer: `MISSING_OUTPUT` if the data is empty, else `PARSE_ERROR` or `TYPE_ERROR`.
    """
    if not data.strip():
        raise UnusableAnswer(FailureKind.MISSING_OUTPUT, f"gave nothing on {what}")
    try:
        value = parse(data, source=what, limits=Limits(max_bytes=len(data), wide_integers=True))
    except InvalidInput as error:
        hint = "; there is text before the JSON: logs belong on stderr" if b"\n{" in data else ""
        raise UnusableAnswer(FailureKind.PARSE_ERROR, f"gave no JSON: {error.message}{hint}") from None
    return check_answer(value)


def check_answer(value: Any) -> dict[str, Any]:
    """Check that a value has the form of an agent's answer, and return it."""
    problem = _problem_of(value)
    if problem is not None:
        raise UnusableAnswer(FailureKind.TYPE_ERROR, problem)
    checked: dict[str, Any] = value
    return checked


def _problem_of(value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"answered with {_type_name(value)} instead of an object with assistant_output"
    if problem := problem_of_keys(value, ANSWER_KEYS, "its answer"):
        return problem
    calls, events = value.get("tool_calls"), value.get("events")
    if calls is not None and not isinstance(calls, list):
        return f"gave {_type_name(calls)} as tool_calls instead of a list"
    for number, call in enumerate(calls or []):
        if not isinstance(call, dict) or not isinstance(call.get("tool", call.get("name")), str):
            return f"gave tool_calls[{number}] without a tool's name"
        if problem := problem_of_keys(call, CALL_KEYS, f"tool_calls[{number}]"):
            return problem
    if events is not None and not isinstance(events, list):
        return "gave events that are no list"
    for number, event in enumerate(events or []):
        if not isinstance(event, dict):
            return f"gave events[{number}] that is no object"
        try:
            Event.model_validate({"actor": "agent", **event, "idx": number})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(step) for step in first["loc"])
            return f"gave events[{number}].{place}: {first['msg']}"
    return None


def _type_name(value: Any) -> str:
    names = {str: "a string", list: "a list", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)


@dataclass(frozen=True, eq=False, slots=True)
class AnswerKeys:
    """The keys of one kind of object.

    `names` are ours. `not_ours` look like ours but are not. `meant` are words of other programs for ours,
    with all of our keys that say the same: beside one of these, such a word adds nothing.
    """

    names: frozenset[str]
    not_ours: frozenset[str]
    meant: Mapping[str, tuple[str, ...]]


_ARGUMENTS = ("arguments", "input")
_RESULT = ("output", "error")
ANSWER_KEYS = AnswerKeys(
    frozenset(
        {
            *("assistant_output", "output", "tool_calls", "events", "error", "model", "usage", "cost_usd"),
            *("stop_reason", "finish_reason", "block_reason", "agent_name"),
        }
    ),
    # An agent may repeat the task's mode.
    not_ours=frozenset({"mode"}),
    meant={"calls": ("tool_calls", "events")},
)
CALL_KEYS = AnswerKeys(
    frozenset({"tool", "name", "arguments", "input", "id", "call_id", "output", "error", "latency_ms"}),
    not_ours=frozenset({"idx", "latency"}),
    meant={
        **dict.fromkeys(("args", "params", "parameters"), _ARGUMENTS),
        **dict.fromkeys(("result", "results", "response"), _RESULT),
    },
)


def problem_of_keys(raw: Mapping[Any, Any], level: AnswerKeys, what: str) -> str | None:
    """Describe the first key of an object that looks like ours and is not; None if there is none.

    Example:
        >>> problem_of_keys({"assistant_output": "Done.", "toolcalls": []}, ANSWER_KEYS, "its answer")
        'gave its answer the unknown key "toolcalls" (did you mean tool_calls?)'
    """
    if raw.keys() <= level.names:
        return None
    for key in raw:
        if key in level.names or not isinstance(key, str) or len(key) > _LONGEST_COMPARED:
            continue
        meant = level.meant.get(key, ())
        if any(name in raw for name in meant):
            continue
        near = meant[0] if meant else _nearest(key, level)
        if near is not None:
            return f"gave {what} the unknown key {json.dumps(key)} (did you mean {near}?)"
    return None


@lru_cache(maxsize=1024)
def _nearest(key: str, level: AnswerKeys) -> str | None:
    return None if key in level.not_ours else nearest(key, level.names, _LEAST_LIKENESS)


def record_answer(recorder: Recorder, answer: dict[str, Any], seconds: float) -> AttemptResult:
    """Record an agent's answer: its tool calls with the tools' results, and its output.

    Results of tools that the agent ran itself, and events that it reports, are recorded as they were. An
    answer without output and calls fails the attempt, because an agent that does nothing breaks no rule and
    would pass.
    """
    try:
        for call in answer.get("tool_calls") or []:
            tool = call.get("tool", call.get("name"))
            arguments = call.get("arguments", call.get("input", {}))
            own_id = call.get("id", call.get("call_id"))
            call_id = recorder.record_call(tool, arguments, own_id if isinstance(own_id, str) else None)
            if "output" in call or "error" in call:  # the agent ran the tool itself
                recorder.add(
                    "tool",
                    TOOL_RESULT,
                    tool=tool,
                    output=call.get("output"),
                    error=call.get("error"),
                    call_id=call_id,
                    latency_ms=figure_of(call.get("latency_ms")),
                )
            else:
                recorder.call_tool(tool, arguments, call_id)
        last_output = record_events(recorder, answer.get("events") or [])
    except (ToolFault, LimitReached) as problem:
        return recorder.result(None, problem.failure, problem.problem)
    output, error = answer.get("assistant_output", answer.get("output")), answer.get("error")
    facts, tokens = facts_of(answer), [AnswerFacts(usage=event.usage).tokens for event in recorder.events]
    if output is None and error is None and last_output is not None:
        output = last_output
    elif error is None and output in (None, "") and not recorder.calls:
        return recorder.result(
            None, FailureKind.MISSING_OUTPUT, "answered with neither an output nor tool calls"
        )
    else:
        recorder.record_message(output, seconds=seconds, facts=facts)
    try:
        recorder.count_tokens(sum(filter(None, tokens)) if facts.tokens is None else facts.tokens)
    except LimitReached as reached:
        return recorder.result(output, reached.failure, reached.problem)
    if error is not None:
        words = error if isinstance(error, str) else json.dumps(error)
        return recorder.result(output, FailureKind.AGENT_ERROR, f"reported an error: {words[:2000]}")
    return recorder.result(output)


def record_events(recorder: Recorder, events: list[dict[str, Any]]) -> Any:
    """Record the events that an agent reports. Returns the output of its last message, or None."""
    output = None
    for fields in events:
        event = {name: value for name, value in fields.items() if name not in _SET_BY_THE_RECORDER}
        if event.get("parts"):
            # Bytes may be megabytes.
            event["parts"] = [
                {name: value for name, value in part.items() if name != "data"} for part in event["parts"]
            ]
        actor, kind = str(event.pop("actor", "agent")), str(event.pop("type"))
        if kind in (CONVERSATION_END, CONVERSATION_RESTART):
            continue  # only the loop of turns says why a conversation ended
        if kind == TOOL_CALL and actor != "user":
            recorder.count_call(str(event.get("tool") or ""), event.get("input"))
        added = recorder.add(actor, kind, **event)
        if added.is_message and added.content is not None:
            output = added.content
    return output


def unanswered_calls(trace: list[dict[str, Any]], source: str) -> int:
    """Count the calls of a recorded trace that got no answer.

    `source` is the attribute of a result that says where it is from; `missing` is no answer. A call that has
    it needs none.
    """
    results = [event for event in trace if event.get("type") == TOOL_RESULT]
    missing = sum((event.get("attributes") or {}).get(source) == "missing" for event in results)
    ids = {None, *(event.get("call_id") for event in results)}
    unmatched = sum(
        event.get("type") == TOOL_CALL
        and source not in (event.get("attributes") or {})
        and event.get("call_id") not in ids
        for event in trace
    )
    return int(missing + unmatched)

"""Find keys of an agent's answer that look like ours and are not.

A misspelt `tool_calls` would be ignored, and with it what the agent did: a case that forbids it would pass.
Other unknown keys are the agent's own, and stay accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agent_eval.text.spelling import nearest

_LEAST_LIKENESS = 0.8
_LONGEST_COMPARED = 40
"""Characters of a key; longer ones are not compared."""


@dataclass(frozen=True, eq=False, slots=True)
class _Level:
    """The keys of one kind of object.

    `names` are ours. `not_ours` look like ours but are not. `meant` are words of other programs for ours,
    with all of our keys that say the same: beside one of these, such a word adds nothing.
    """

    names: frozenset[str]
    not_ours: frozenset[str]
    meant: Mapping[str, tuple[str, ...]]


_ARGUMENTS = ("arguments", "input")
_RESULT = ("output", "error")
_ANSWER = _Level(
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
_CALL = _Level(
    frozenset({"tool", "name", "arguments", "input", "id", "call_id", "output", "error", "latency_ms"}),
    not_ours=frozenset({"idx", "latency"}),
    meant={
        **dict.fromkeys(("args", "params", "parameters"), _ARGUMENTS),
        **dict.fromkeys(("result", "results", "response"), _RESULT),
    },
)


def problem_of_answer_keys(answer: Mapping[Any, Any]) -> str:
    """Describe the first key of an answer that looks like ours and is not; an empty text if there is none.

    Example:
        >>> problem_of_answer_keys({"assistant_output": "Done.", "toolcalls": []})
        'gave its answer the unknown key "toolcalls" (did you mean tool_calls?)'
    """
    return _problem(answer, _ANSWER, "its answer")


def problem_of_call_keys(call: Mapping[Any, Any], number: int) -> str:
    """Describe the first key of a tool call that looks like ours and is not; an empty text if there is none.

    Example:
        >>> problem_of_call_keys({"tool": "pay", "result": "paid"}, 0)
        'gave tool_calls[0] the unknown key "result" (did you mean output?)'
    """
    return _problem(call, _CALL, f"tool_calls[{number}]")


def _problem(raw: Mapping[Any, Any], level: _Level, what: str) -> str:
    if raw.keys() <= level.names:
        return ""
    for key in raw:
        if key in level.names or not isinstance(key, str) or len(key) > _LONGEST_COMPARED:
            continue
        meant = level.meant.get(key, ())
        if any(name in raw for name in meant):
            continue
        near = meant[0] if meant else _nearest(key, level)
        if near is not None:
            return f"gave {what} the unknown key {json.dumps(key)} (did you mean {near}?)"
    return ""


@lru_cache(maxsize=1024)
def _nearest(key: str, level: _Level) -> str | None:
    return None if key in level.not_ours else nearest(key, level.names, _LEAST_LIKENESS)

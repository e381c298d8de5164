"""Find keys of a suite that look like ours and are not: misspelt, or in the wrong place.

A misspelt expectation would be ignored, and its case would pass. Other unknown keys are kept: they may be the
author's own or a later version's. In `policy` and `tool_contracts`, where every key is a rule, each unknown
one is a problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agent_eval.contracts import (
    Case,
    CaseTurn,
    Conversation,
    Event,
    ExpectedToolCall,
    Policy,
    RecordedTrial,
    SuiteHeader,
    ToolContract,
)
from agent_eval.contracts.suite import METADATA_KEYS
from agent_eval.suites.migrate import CASE_NAMES, TOOL_CONTRACT_NAMES
from agent_eval.suites.problems import json_path
from agent_eval.text.spelling import nearest

Finding = tuple[str, str, str]
"""A problem: the place of a key below the case or the header, a message, and a remedy."""


@dataclass(frozen=True, eq=False, slots=True)
class _Level:
    """The keys of one kind of object.

    `names` are ours, `old_names` those that earlier versions gave to some of them. With `is_closed` no other
    key may be there. `not_ours` look like ours but are not. `elsewhere` are keys that belong somewhere else,
    with the place in words.
    """

    names: frozenset[str]
    old_names: Mapping[str, str] = field(default_factory=dict)
    is_closed: bool = False
    not_ours: frozenset[str] = frozenset()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    cutoff: float = 0.8


_RULES = (
    "conversation",
    "expected_output",
    "final_output_tool",
    "json_schema",
    "regex_patterns",
    "tool_contracts",
    "turns",
)
_HEADER = _Level(frozenset(SuiteHeader.model_fields) | {"cases"})
_HEADER_METADATA = _Level(frozenset({"schema_version"}), cutoff=0.85)
_CASE = _Level(
    frozenset(Case.model_fields),
    CASE_NAMES,
    elsewhere={
        **dict.fromkeys(METADATA_KEYS, "metadata"),
        **dict.fromkeys(Policy.model_fields, "policy"),
        "required_args": "tool_contracts, below the name of a tool",
        "forbidden_args": "tool_contracts, below the name of a tool",
        "args_schema": "tool_contracts, below the name of a tool",
    },
)
_METADATA = _Level(
    METADATA_KEYS,
    elsewhere={
        **dict.fromkeys(_RULES, "the case itself, beside metadata"),
        **dict.fromkeys(Policy.model_fields, "policy"),
    },
    # Metadata is the author's, so only a close likeness is taken for one of our keys.
    cutoff=0.85,
)
_POLICY = _Level(frozenset(Policy.model_fields), is_closed=True)
_CONTRACT = _Level(frozenset(ToolContract.model_fields), TOOL_CONTRACT_NAMES, is_closed=True)
# Recorders list the tools that a model was offered beside its messages.
_EVENT = _Level(frozenset(Event.model_fields), not_ours=frozenset({"tools"}))
_TRIAL = _Level(frozenset(RecordedTrial.model_fields))
_TURN = _Level(
    frozenset(CaseTurn.model_fields),
    elsewhere={
        **dict.fromkeys(("calls", "expected_calls", "tool_calls"), "expected_tool_calls"),
        "expected": "expected_output",
        "user": "input",
    },
)
_CONVERSATION = _Level(frozenset(Conversation.model_fields), is_closed=True)
_EXPECTED_CALL = _Level(frozenset(ExpectedToolCall.model_fields), is_closed=True)


def misspelt_in_header(raw: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the keys of a valid header of a suite that look like ours and are not."""
    yield from _findings(raw, _HEADER, ())
    yield from _findings(raw.get("metadata") or {}, _HEADER_METADATA, ("metadata",))


def misspelt_in_case(raw: Mapping[str, Any], case: Case | None = None) -> Iterator[Finding]:
    """Yield the keys of a valid case that look like ours and are not, at every level that we define.

    Args:
        raw: The case as read.
        case: The same case as a contract, if it is known: it says which events have unknown keys.

    Example:
        >>> case = {"case_id": "refund", "policy": {"forbiden_tools": ["pay"]}}
        >>> [(place, message) for place, message, _ in misspelt_in_case(case)]
        [('policy.forbiden_tools', 'policy.forbiden_tools is not a key of the schema')]
    """
    yield from _findings(raw, _CASE, ())
    yield from _findings(raw.get("policy") or {}, _POLICY, ("policy",))
    for tool, contract in (raw.get("tool_contracts") or {}).items():
        yield from _findings(contract, _CONTRACT, ("tool_contracts", tool))
    has_turns = case is None or bool(case.turns)
    if case is None or case.conversation is not None:
        yield from _findings(raw.get("conversation") or {}, _CONVERSATION, ("conversation",))
    for number, turn in enumerate(raw.get("turns") or () if has_turns else ()):
        yield from _findings(turn, _TURN, ("turns", number))
        for position, call in enumerate(turn.get("expected_tool_calls") or ()):
            yield from _findings(call, _EXPECTED_CALL, ("turns", number, "expected_tool_calls", position))
    yield from _recorded_findings(raw, (), None if case is None else case.trace)
    for number, trial in enumerate(raw.get("trials") or ()):
        yield from _findings(trial, _TRIAL, ("trials", number))
        yield from _recorded_findings(trial, ("trials", number))


def _recorded_findings(
    raw: Mapping[str, Any], place: tuple[str | int, ...], events: Sequence[Event] | None = None
) -> Iterator[Finding]:
    yield from _findings(raw.get("metadata") or {}, _METADATA, (*place, "metadata"))
    if events is not None and not any(event.__pydantic_extra__ for event in events):
        return
    for number, event in enumerate(raw.get("trace") or ()):
        # Of the many events nearly all have known keys only.
        if not event.keys() <= _EVENT.names:
            yield from _findings(event, _EVENT, (*place, "trace", number))


def _findings(raw: Mapping[str, Any], level: _Level, place: tuple[str | int, ...]) -> Iterator[Finding]:
    for key in raw:
        if key in level.names:
            continue
        current = level.old_names.get(key)
        if current is None:
            problem = _problem_of(key, level)
        elif current in raw and raw[current] != raw[key]:
            problem = f"is the old name of {current}, which has another value here", f"Keep {current} alone."
        else:
            continue
        if problem is not None:
            path = json_path((*place, key))
            yield path, f"{path} {problem[0]}", problem[1]


@lru_cache(maxsize=1024)
def _problem_of(key: str, level: _Level) -> tuple[str, str] | None:
    """Return what is wrong with an unknown key, with a remedy; None where it may be the author's own."""
    if key in level.elsewhere:
        return "is ignored there", f"Write it in {level.elsewhere[key]}, or give it another name."
    if key in level.not_ours:
        return None
    near = nearest(key, level.names | level.old_names.keys(), level.cutoff)
    if near is not None:
        meant = level.old_names.get(near, near)
        return "is not a key of the schema", f"Did you mean {meant}? Otherwise give it a name of its own."
    if level.is_closed:
        known = ", ".join(sorted(level.names))
        return "is not a key of the schema", f"Known keys there are {known}. Keep others under metadata."
    return None

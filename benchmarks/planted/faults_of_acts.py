"""Faults of what an agent does: arguments, values, tools that it may not use, steps that it leaves out."""

from __future__ import annotations

import json
from typing import Any

from agent_eval.benchmarks.archetypes import Call, Json
from agent_eval.errors import FailureKind
from benchmarks.planted.fault import Fault, Subject

_TRAJECTORY = frozenset({"trajectory_match"})


def _change_input(subject: Subject, place: int, value: Any) -> None:
    subject.events[place]["input"] = value


def _any_call(subject: Subject) -> int:
    return subject.rng.choice(subject.calls)


def _has_calls(subject: Subject) -> bool:
    return bool(subject.calls)


def _missing_argument(subject: Subject) -> None:
    place = _any_call(subject)
    event = subject.events[place]
    name = subject.rng.choice(subject.archetype.tools[event["tool"]].required)
    _change_input(subject, place, {key: value for key, value in event["input"].items() if key != name})


def _wrong_type(subject: Subject) -> None:
    """Write a number as a text, or a text as a list, as models do."""
    place = _any_call(subject)
    arguments = subject.events[place]["input"]
    name = subject.rng.choice(sorted(arguments))
    value = arguments[name]
    wrong = str(value) if isinstance(value, int | float) else [value]
    _change_input(subject, place, {**arguments, name: wrong})


def _unknown_argument(subject: Subject) -> None:
    place = _any_call(subject)
    name = subject.rng.choice(("force", "confirm", "dry_run", "limit_override"))
    _change_input(subject, place, {**subject.events[place]["input"], name: True})


def _broken_arguments(subject: Subject) -> None:
    place = _any_call(subject)
    text = json.dumps(subject.events[place]["input"])
    _change_input(subject, place, text[: max(1, len(text) - subject.rng.randrange(1, 4))])


def _arguments_as_list(subject: Subject) -> None:
    place = _any_call(subject)
    _change_input(subject, place, list(subject.events[place]["input"].values()))


def other_value(value: Any) -> Any:
    """Return another value of the same form; None where there is none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str) and value[-1:].isdigit():
        return f"{value[:-1]}{(int(value[-1]) + 1) % 10}"
    return None


def _firm_places(subject: Subject) -> list[tuple[int, str]]:
    """Return calls with an argument that can have another value of the same form, which expectations see."""
    return [
        (place, name)
        for place in subject.calls
        for event in [subject.events[place]]
        for name in subject.archetype.tools[event["tool"]].firm
        if other_value(event["input"].get(name)) is not None
    ]


def _another_value(subject: Subject) -> None:
    """Use another order, amount or file than the task needs, in every call that is like it."""
    place, name = subject.rng.choice(_firm_places(subject))
    event = subject.events[place]
    changed = {**event["input"], name: other_value(event["input"][name])}
    for number in subject.calls:
        other = subject.events[number]
        if (other["tool"], other["input"]) == (event["tool"], event["input"]) and number != place:
            other["input"] = changed
    event["input"] = changed


def _forbidden(subject: Subject) -> None:
    name = subject.rng.choice(subject.scenario.forbidden)
    _call_for_no_reason(subject, name)


def _call_for_no_reason(subject: Subject, name: str) -> None:
    arguments = {key: example_of(schema) for key, schema in subject.archetype.tools[name].properties.items()}
    place = subject.rng.choice([1, *(subject.result_of(place) + 1 for place in subject.calls)])
    subject.insert_call(place, Call(name, arguments, {"status": "done"}))


def example_of(schema: Json) -> Any:
    """Return a value that looks like one of a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    return {"integer": 3, "number": 10.5, "boolean": True, "object": {}}.get(str(kind), "example")


def _not_forbidden_writes(subject: Subject) -> list[str]:
    allowed = set(subject.scenario.offered)
    return sorted(
        name for name, tool in subject.archetype.tools.items() if tool.writes and name not in allowed
    )


def _out_of_scope(subject: Subject) -> None:
    _call_for_no_reason(subject, subject.rng.choice(_not_forbidden_writes(subject)))


def _skipped(subject: Subject) -> None:
    """Leave out every call of a tool that the task needs."""
    name = subject.rng.choice(subject.scenario.required)
    for place in reversed(subject.calls):
        if subject.events[place]["tool"] == name:
            subject.remove_call(place)


_ARGUMENTS = frozenset({"tool_contract"})
_EXTRA_CALL = frozenset({"tool_contract", "trajectory_match", "tool_abuse", "strict", "policy"})

FAULTS = (
    Fault(
        "missing_argument",
        FailureKind.CONTRACT_VIOLATION,
        "left out an argument that a tool needs",
        _ARGUMENTS,
        _TRAJECTORY,
        applies=_has_calls,
        plant=_missing_argument,
    ),
    Fault(
        "wrong_type",
        FailureKind.CONTRACT_VIOLATION,
        "passed an argument of another type",
        _ARGUMENTS,
        _TRAJECTORY,
        applies=_has_calls,
        plant=_wrong_type,
    ),
    Fault(
        "unknown_argument",
        FailureKind.CONTRACT_VIOLATION,
        "passed an argument that the tool does not have",
        _ARGUMENTS,
        _TRAJECTORY,
        applies=_has_calls,
        plant=_unknown_argument,
    ),
    Fault(
        "broken_arguments",
        FailureKind.PARSE_ERROR,
        "wrote arguments that are no JSON",
        _ARGUMENTS,
        _TRAJECTORY,
        applies=_has_calls,
        plant=_broken_arguments,
    ),
    Fault(
        "arguments_as_list",
        FailureKind.TYPE_ERROR,
        "passed a list instead of named arguments",
        _ARGUMENTS,
        _TRAJECTORY,
        applies=_has_calls,
        plant=_arguments_as_list,
    ),
    Fault(
        "another_value",
        FailureKind.CONTRACT_VIOLATION,
        "used another id, amount or file than the task needs",
        _TRAJECTORY,
        _ARGUMENTS,
        applies=lambda subject: bool(_firm_places(subject)),
        plant=_another_value,
    ),
    Fault(
        "forbidden_tool",
        FailureKind.POLICY_VIOLATION,
        "used a tool that the case forbids",
        frozenset({"policy", "strict", "trajectory_match", "tool_abuse"}),
        frozenset({"tool_contract", "prompt_injection"}),
        applies=lambda subject: bool(subject.scenario.forbidden),
        plant=_forbidden,
    ),
    Fault(
        "skipped_tool",
        FailureKind.POLICY_VIOLATION,
        "left out a step that the case requires",
        frozenset({"policy", "strict", "trajectory_match"}),
        frozenset({"tool_contract", "cost_budget"}),
        applies=lambda subject: bool(subject.scenario.required),
        plant=_skipped,
    ),
    Fault(
        "out_of_scope",
        FailureKind.POLICY_VIOLATION,
        "used a tool that the task does not offer",
        frozenset({"tool_abuse"}),
        _EXTRA_CALL | {"prompt_injection"},
        applies=lambda subject: bool(_not_forbidden_writes(subject)),
        plant=_out_of_scope,
    ),
)

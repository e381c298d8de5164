"""What strict evaluations look at, turn by turn: tools, parameters, rules, integrations and errors.

A turn of an AUI agent has an event with the attribute `aui`, which holds the answer's `executed_workflows`
and `trace_info` as they came; facts are read from there. Of any other agent they are read from its events:
tool calls, `state`, `guardrail`, `handoff` and `error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval.contracts.conversation import (
    AUI,
    AUI_V3,
    FORWARDING,
    executed_workflows,
    is_escalation,
    object_of,
)
from agent_eval.contracts.event import ERROR, GUARDRAIL, STATE
from agent_eval.contracts.trace import Trace, TraceTurn


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a turn records of one kind of fact.

    `missing` says why this may not be all, empty if it is; `note` what a reader of the result should know.
    """

    values: Sequence[Any] = ()
    missing: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Integration:
    """A call of an integration; `problem` is an empty text if it was successful."""

    code: Any
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """The facts of one turn.

    Attributes:
        number: Number of the turn, from 1.
        event: Index of the event that they are from; None for a turn without events of the agent.
        tools: Names of tools or workflows that ran.
        params: Objects of the parameters that were known, in order.
        rules: Codes of the rules that were triggered.
        evaluated: Codes of the rules that were evaluated, triggered or not.
        errors: Whether an answer was an error, for each answer.
    """

    number: int
    event: int | None
    tools: Recorded = field(default_factory=Recorded)
    params: Recorded = field(default_factory=Recorded)
    rules: Recorded = field(default_factory=Recorded)
    evaluated: Sequence[Any] = ()
    integrations: Recorded = field(default_factory=Recorded)
    errors: Recorded = field(default_factory=Recorded)


def facts_by_turn(trace: Trace) -> list[TurnFacts]:
    """Read the facts of every turn of a trace, in order; of an AUI agent what its answers record together."""
    if not any(AUI in event.attributes for event in trace):
        types = frozenset(event.type for event in trace)
        return [_of_events(turn, types) for turn in trace.turns]
    turns = []
    for turn in trace.turns:
        events = [event for event in turn.trace if AUI in event.attributes]
        answers = [object_of(event.attributes[AUI]) for event in events]
        read = [_of_answer(answer) for answer in answers]
        facts = {}
        for kind in ("tools", "params", "rules", "integrations", "errors"):
            records = [each[kind] for each in read] or [Recorded(missing="no answer is recorded")]
            facts[kind] = Recorded(
                [value for record in records for value in record.values],
                next((record.missing for record in records if record.missing), ""),
                next((record.note for record in records if record.note), ""),
            )
        infos = [object_of(answer.get("trace_info")) for answer in answers]
        evaluated = [rule.get("code") for info in infos for rule in _objects(info, "rules_evaluations")]
        last = events[-1].idx if events else None
        turns.append(TurnFacts(turn.number, last, evaluated=evaluated, **facts))
    return turns


def _of_answer(answer: Mapping[str, Any]) -> dict[str, Recorded]:
    """Read what one answer of an AUI agent records, by the kind of fact."""
    info = object_of(answer.get("trace_info"))
    has_trace, is_v3 = isinstance(answer.get("trace_info"), Mapping), answer.get("api") == AUI_V3
    not_in_v3 = "this generation of the AUI API does not record "

    stated, names = answer.get("executed_workflows"), executed_workflows(answer)
    tools = Recorded(names, "" if stated in (names, *names) else "executed_workflows does not hold names")
    if stated is None and is_v3:
        tools = Recorded(missing=f"{not_in_v3}executed_workflows")
    elif stated is None:
        missing = "" if has_trace else "executed_workflows is not recorded"
        tools = Recorded((), missing, "no workflows are named" if has_trace else "")

    # An answer whose trace has no understanding extracted nothing.
    params = Recorded(missing="extracted_params is not recorded")
    if has_trace and isinstance(info.get("understanding", {}), Mapping | None):
        extracted = object_of(info.get("understanding")).get("extracted_params")
        if isinstance(extracted, Mapping):
            params = Recorded([extracted])
        elif extracted is None and not is_v3:
            params = Recorded()

    # A trace without any decision is of a turn in which none was taken.
    is_listed = has_trace and isinstance(info.get("decisions", []), list | None)
    missing = "" if is_listed else "decisions are not recorded"
    decisions = _objects(info, "decisions")
    codes = [object_of(decision.get("rule")).get("code") for decision in decisions]
    integrations = []
    for decision in decisions:
        if decision.get("type") == "call_integration":
            called = object_of(decision.get("integration"))
            status = called.get("status_code")
            problem = "it has no status" if status is None else f"its status is {status!r}"
            is_success = type(status) in (int, float) and status == 200
            integrations.append(Integration(called.get("code"), "" if is_success else problem))

    errors = Recorded(missing="response is not recorded")
    if isinstance(response := info.get("response"), Mapping):
        errors = Recorded([response.get("type") == "error"])
    return {
        "tools": tools,
        "params": params,
        "rules": Recorded([code for code in codes if code is not None], missing),
        "integrations": Recorded(integrations, missing or (f"{not_in_v3}integrations" if is_v3 else "")),
        "errors": errors,
    }


def _objects(info: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = info.get(name)
    return [object_of(item) for item in value] if isinstance(value, list) else []


def _of_events(turn: TraceTurn, kinds: frozenset[str]) -> TurnFacts:
    """Read the facts of a turn of any agent from its events. `kinds` are the types in the whole trace."""
    events, pairs = turn.trace.events, turn.trace.calls
    acts = [event.idx for event in events if event.is_agent]
    # The parameters of a state are its `params`, or all of it.
    states = [object_of(event.output).get("params", event.output) for event in events if event.type == STATE]
    checks = [(event, object_of(event.output)) for event in events if event.type == GUARDRAIL]
    triggered = [
        check.get("code")
        for event, check in checks
        if event.block_reason is not None or check.get("triggered") is True
    ]
    called = [
        Integration(pair.tool, "" if pair.result is not None and pair.error is None else "it failed")
        for pair in pairs
    ]
    return TurnFacts(
        turn.number,
        acts[-1] if acts else None,
        tools=Recorded(
            [pair.tool for pair in pairs] + [FORWARDING for each in events if is_escalation(each)]
        ),
        params=Recorded(
            [state for state in states if isinstance(state, Mapping)],
            "" if STATE in kinds else "no state is recorded",
        ),
        rules=Recorded(triggered, "" if GUARDRAIL in kinds else "no guardrail is recorded"),
        evaluated=[check.get("code") for _, check in checks],
        integrations=Recorded(called),
        errors=Recorded([any(event.type == ERROR or (event.is_message and event.error) for event in events)]),
    )

"""What strict evaluations look at, turn by turn: tools, parameters, rules, integrations and errors.

A turn of an AUI agent has an event with the attribute `aui`, which holds the answer's `executed_workflows`
and `trace_info` as they came; facts are read from there. Of any other agent they are read from its events:
tool calls, `state`, `guardrail`, `handoff` and `error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    """Read the facts of every turn of a trace, in order."""
    if any(AUI in event.attributes for event in trace):
        return [_of_answers(turn) for turn in trace.turns]
    kinds = frozenset(event.type for event in trace)
    return [_of_events(turn, kinds) for turn in trace.turns]


def _of_answers(turn: TraceTurn) -> TurnFacts:
    """Read the facts of a turn of an AUI agent."""
    events = [event for event in turn.trace if AUI in event.attributes]
    answers = [object_of(event.attributes[AUI]) for event in events]
    infos = [object_of(answer.get("trace_info")) for answer in answers]
    return TurnFacts(
        turn.number,
        events[-1].idx if events else None,
        tools=_joined(map(_workflows, answers)),
        params=_joined(map(_params, answers)),
        rules=_joined(Recorded(_rules(answer), _decisions_missing(answer)) for answer in answers),
        evaluated=[rule.get("code") for info in infos for rule in _objects(info, "rules_evaluations")],
        integrations=_joined(map(_integrations, answers)),
        errors=_joined(map(_error, infos)),
    )


def _joined(records: Iterable[Recorded]) -> Recorded:
    """Join what the answers of a turn record; a turn without answers records nothing."""
    listed = list(records)
    if not listed:
        return Recorded(missing="no answer is recorded")
    values = [value for record in listed for value in record.values]
    missing, note = (
        next((each for each in stated if each), "")
        for stated in ([record.missing for record in listed], [record.note for record in listed])
    )
    return Recorded(values, missing, note)


def _workflows(answer: Mapping[str, Any]) -> Recorded:
    stated, names = answer.get("executed_workflows"), executed_workflows(answer)
    if stated is None:
        if answer.get("api") == AUI_V3:
            return Recorded(missing="this generation of the AUI API does not record executed_workflows")
        if not isinstance(answer.get("trace_info"), Mapping):
            return Recorded(missing="executed_workflows is not recorded")
        return Recorded(note="no workflows are named")
    return Recorded(names, "" if stated in (names, *names) else "executed_workflows does not hold names")


def _params(answer: Mapping[str, Any]) -> Recorded:
    """Read what was extracted; an answer whose trace has no understanding extracted nothing."""
    info = answer.get("trace_info")
    if isinstance(info, Mapping) and isinstance(info.get("understanding", {}), Mapping | None):
        params = object_of(info.get("understanding")).get("extracted_params")
        if isinstance(params, Mapping):
            return Recorded([params])
        if params is None and answer.get("api") != AUI_V3:
            return Recorded()
    return Recorded(missing="extracted_params is not recorded")


def _error(info: Mapping[str, Any]) -> Recorded:
    response = info.get("response")
    if not isinstance(response, Mapping):
        return Recorded(missing="response is not recorded")
    return Recorded([response.get("type") == "error"])


def _decisions_missing(answer: Mapping[str, Any]) -> str:
    """Say why decisions are not known; a trace without any is of a turn in which none was taken."""
    info = answer.get("trace_info")
    if isinstance(info, Mapping) and isinstance(info.get("decisions", []), list | None):
        return ""
    return "decisions are not recorded"


def _decisions(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _objects(object_of(answer.get("trace_info")), "decisions")


def _rules(answer: Mapping[str, Any]) -> list[Any]:
    codes = [object_of(decision.get("rule")).get("code") for decision in _decisions(answer)]
    return [code for code in codes if code is not None]


def _integrations(answer: Mapping[str, Any]) -> Recorded:
    decisions = [each for each in _decisions(answer) if each.get("type") == "call_integration"]
    called = [object_of(decision.get("integration")) for decision in decisions]
    missing = _decisions_missing(answer)
    if answer.get("api") == AUI_V3:
        missing = missing or "this generation of the AUI API does not record integrations"
    return Recorded([Integration(each.get("code"), _integration_problem(each)) for each in called], missing)


def _integration_problem(integration: Mapping[str, Any]) -> str:
    status = integration.get("status_code")
    if type(status) in (int, float) and status == 200:
        return ""
    return "it has no status" if status is None else f"its status is {status!r}"


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

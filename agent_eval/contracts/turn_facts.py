"""What strict evaluations look at, turn by turn: tools, parameters, rules, integrations and errors.

A turn of an AUI agent has an event with the attribute `aui`, which holds the answer's `executed_workflows`
and `trace_info` as they came; facts are read from there. Of any other agent they are read from its events:
tool calls, `state`, `guardrail`, `handoff` and `error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_eval.contracts.conversation import AUI, AUI_V3, FORWARDING, is_escalation
from agent_eval.contracts.event import ERROR, GUARDRAIL, STATE, Event
from agent_eval.contracts.trace import Trace, TraceTurn


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a turn records of one kind of fact.

    Attributes:
        values: What is recorded.
        missing: Why this may not be all; an empty text if it is.
    """

    values: Sequence[Any] = ()
    missing: str = ""


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
        integrations: Calls of integrations.
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
    answers = [_object(event.attributes[AUI]) for event in events]
    infos = [_object(answer.get("trace_info")) for answer in answers]
    decisions = [_listed(info, "decisions") for info in infos]
    return TurnFacts(
        turn.number,
        events[-1].idx if events else None,
        tools=_joined(map(_workflows, answers)),
        params=_joined(map(_params, infos)),
        rules=_joined(Recorded(_rule_codes(each.values), each.missing) for each in decisions),
        evaluated=[_object(rule).get("code") for info in infos for rule in _items(info, "rules_evaluations")],
        integrations=_joined(
            Recorded(_integrations(each.values), each.missing or _context_missing(info))
            for each, info in zip(decisions, infos, strict=True)
        ),
        errors=_joined(map(_error, infos)),
    )


def _joined(records: Iterable[Recorded]) -> Recorded:
    """Join what the answers of a turn record; a turn without answers records nothing."""
    listed = list(records)
    if not listed:
        return Recorded(missing="no answer is recorded")
    values = [value for record in listed for value in record.values]
    return Recorded(values, next((record.missing for record in listed if record.missing), ""))


def _workflows(answer: Mapping[str, Any]) -> Recorded:
    names = answer.get("executed_workflows")
    if names is None:
        if answer.get("api") == AUI_V3:
            return Recorded(missing="this generation of the AUI API does not record executed_workflows")
        is_traced = isinstance(answer.get("trace_info"), Mapping)
        return Recorded(missing="" if is_traced else "executed_workflows is not recorded")
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        readable = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        return Recorded(readable, "executed_workflows does not hold names")
    return Recorded(names)


def _params(info: Mapping[str, Any]) -> Recorded:
    params = _object(info.get("understanding")).get("extracted_params")
    if not isinstance(params, Mapping):
        return Recorded(missing="extracted_params is not recorded")
    return Recorded([params])


def _error(info: Mapping[str, Any]) -> Recorded:
    response = info.get("response")
    if not isinstance(response, Mapping):
        return Recorded(missing="response is not recorded")
    return Recorded([response.get("type") == "error"])


def _listed(info: Mapping[str, Any], name: str) -> Recorded:
    if not isinstance(info.get(name), list):
        return Recorded(missing=f"{name} are not recorded")
    return Recorded(_items(info, name))


def _items(info: Mapping[str, Any], name: str) -> list[Any]:
    value = info.get(name)
    return value if isinstance(value, list) else []


def _rule_codes(decisions: Sequence[Any]) -> list[Any]:
    codes = (_object(_object(decision).get("rule")).get("code") for decision in decisions)
    return [code for code in codes if code is not None]


def _context_missing(info: Mapping[str, Any]) -> str:
    """Say that integrations are not recorded: an answer without its context leaves them out, too."""
    return "" if isinstance(info.get("context"), Mapping) else "the context is not recorded"


def _integrations(decisions: Sequence[Any]) -> list[Integration]:
    called = [_object(item) for item in decisions if _object(item).get("type") == "call_integration"]
    integrations = [_object(decision.get("integration")) for decision in called]
    return [Integration(each.get("code"), _integration_problem(each)) for each in integrations]


def _integration_problem(integration: Mapping[str, Any]) -> str:
    kind = integration.get("type")
    if kind == "RAG":
        return "" if integration.get("response") is not None else "it has no response"
    if kind == "MCP":
        failed = [call for call in _items(integration, "tool_calls") if _object(call).get("is_error") is True]
        return "one of its tool calls failed" if failed else ""
    status = integration.get("status_code")
    if type(status) in (int, float) and status == 200:
        return ""
    return "it has no status" if status is None else f"its status is {status!r}"


def _of_events(turn: TraceTurn, kinds: frozenset[str]) -> TurnFacts:
    """Read the facts of a turn of any agent from its events. `kinds` are the types in the whole trace."""
    events = turn.trace.events
    acts = [event.idx for event in events if event.is_agent]
    states = [_state(event) for event in events if event.type == STATE]
    pairs = turn.trace.calls
    return TurnFacts(
        turn.number,
        acts[-1] if acts else None,
        tools=Recorded(
            [pair.tool for pair in pairs] + [FORWARDING for event in events if is_escalation(event)]
        ),
        params=Recorded(
            [state for state in states if state is not None],
            "" if STATE in kinds else "no state is recorded",
        ),
        rules=Recorded(
            [_object(event.output).get("code") for event in events if _is_triggered(event)],
            "" if GUARDRAIL in kinds else "no guardrail is recorded",
        ),
        evaluated=[_object(event.output).get("code") for event in events if event.type == GUARDRAIL],
        integrations=Recorded(
            [
                Integration(pair.tool, "" if pair.result is not None and pair.error is None else "it failed")
                for pair in pairs
            ]
        ),
        errors=Recorded([any(event.type == ERROR or (event.is_message and event.error) for event in events)]),
    )


def _state(event: Event) -> Mapping[str, Any] | None:
    """Return the parameters of a state: its `params`, or all of it."""
    state = _object(event.output)
    params = state.get("params", event.output)
    return params if isinstance(params, Mapping) else None


def _is_triggered(event: Event) -> bool:
    """Tell whether a guardrail found something: it blocked, or says that it was triggered."""
    triggered = _object(event.output).get("triggered")
    return event.type == GUARDRAIL and (event.block_reason is not None or triggered is True)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

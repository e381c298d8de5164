"""Record an answer of an AUI agent as events: what it did, by its trace, and what it said.

The last event is the message. Its attribute `aui` holds `executed_workflows` and `trace_info` as they came;
the `strict` judge reads them there. The events before it say the same in the form that every judge reads.
Every field of the trace is optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_eval.agents.recorder import Recorder, milliseconds
from agent_eval.contracts.conversation import AUI, FORWARDING, executed_workflows
from agent_eval.contracts.event import ERROR, GUARDRAIL, HANDOFF, MESSAGE, STATE, TOOL_RESULT
from agent_eval.models.usage import AnswerFacts, figure_of, usage_of

FIRST_ERROR = 400
"""Lowest status of HTTP that is an error."""
_ON_THE_SERVER = "server"
_UNITS_IN_MS = {"microsecond": 0.001, "millisecond": 1.0, "second": 1000.0, "minute": 60_000.0}
_OF_A_RULE = ("code", "type", "action", "reason")
_KEPT = ("cards", "followup_suggestions", "url")
"""Fields of a message that are recorded beside its trace, where they are not empty."""


@dataclass(frozen=True, slots=True)
class AuiAnswer:
    """One answer of an AUI agent.

    `trace_info` is None where the API gave none. `api` is its generation: `v1` or `v3`.
    """

    message: Mapping[str, Any]
    trace_info: Any = None
    api: str = "v1"

    @property
    def info(self) -> Mapping[str, Any]:
        """The trace, or an empty object."""
        return object_of(self.trace_info)

    @property
    def text(self) -> Any:
        """What the agent says: the message's text, or that of the trace, its error, or its cards."""
        response = object_of(self.info.get("response"))
        for text in (self.message.get("text"), response.get("message")):
            if isinstance(text, str) and text.strip():
                return text
        if self.error is not None:
            return self.error
        cards = self.message.get("cards")
        return {"cards": cards} if isinstance(cards, list) and cards else None

    @property
    def error(self) -> Any:
        """What is wrong, where the answer is an error; None where it is none."""
        response = object_of(self.info.get("response"))
        if response.get("type") != "error":
            return None
        return response.get("error") or response.get("message") or "the agent answered with an error"

    @property
    def attribute(self) -> dict[str, Any]:
        """The value of the attribute `aui`. A field that the API did not give is left out."""
        value: dict[str, Any] = {"api": self.api}
        for source in (self.info, self.message):
            if "executed_workflows" in source:
                value["executed_workflows"] = source["executed_workflows"]
        if self.trace_info is not None:
            value["trace_info"] = self.trace_info
        return {**value, **{name: self.message[name] for name in _KEPT if self.message.get(name)}}


def record_aui_answer(recorder: Recorder, answer: AuiAnswer, seconds: float) -> None:
    """Record what an answer says of the agent's work, then the message.

    Of its decisions, rules that were triggered and integrations that were called are events. A workflow that
    ran is a call, or the hand-over to a human that some of them are.
    """
    understanding = object_of(answer.info.get("understanding"))
    if isinstance(params := understanding.get("extracted_params"), Mapping):
        recorder.add("agent", STATE, output={"params": dict(params)})
    checks = object_of(understanding.get("guardrails"))
    if checks.get("passed") is False:
        recorder.add("agent", GUARDRAIL, output={"triggered": True, "reason": checks.get("reason")})
    for decision in map(object_of, items_of(answer.info.get("decisions"))):
        if rule := object_of(decision.get("rule")):
            fields = {name: rule[name] for name in _OF_A_RULE if rule.get(name) is not None}
            recorder.add("agent", GUARDRAIL, output={**fields, "triggered": True})
        if decision.get("type") == "call_integration":
            _record_integration(recorder, object_of(decision.get("integration")))
    for name in executed_workflows(answer.attribute):
        if name.startswith(FORWARDING):
            recorder.add("agent", HANDOFF, output=f"a human ({name})")
        elif name:
            _record_call(recorder, name, {})
    if answer.error is not None:
        recorder.add("agent", ERROR, error=answer.error)
    facts = AnswerFacts(usage=usage_of(answer.message)).event_fields()
    attributes = {AUI: answer.attribute}
    latency = milliseconds(seconds)
    recorder.add("agent", MESSAGE, output=answer.text, latency_ms=latency, attributes=attributes, **facts)


def _record_integration(recorder: Recorder, integration: Mapping[str, Any]) -> None:
    """Record the call of an integration, or those of the tools behind one."""
    code = integration.get("code")
    name = code if isinstance(code, str) and code else "integration"
    calls = [object_of(call) for call in items_of(integration.get("tool_calls"))]
    if integration.get("type") != "MCP" or not calls:
        status = integration.get("status_code")
        failed_with = f"HTTP {status}" if (figure_of(status) or 0) >= FIRST_ERROR else None
        _record_call(
            recorder,
            name,
            integration.get("requests", integration.get("request", {})),
            output=integration.get("response"),
            error=integration.get("error_message") or failed_with,
            latency_ms=latency_ms(integration.get("latency")),
        )
        return
    for call in calls:
        tool, response, failed = call.get("tool_name"), call.get("response"), call.get("is_error") is True
        _record_call(
            recorder,
            tool if isinstance(tool, str) and tool else name,
            call.get("request_parameters", {}),
            output=None if failed else response,
            error=(response or "the tool failed") if failed else None,
            ran_on=f"mcp:{name}",
            latency_ms=latency_ms(call.get("latency")),
        )


def _record_call(recorder: Recorder, tool: str, arguments: Any, **result: Any) -> None:
    """Record a call that the agent made, with the fields of its result; it ran on the server if none says."""
    call_id = recorder.record_call(tool, arguments)
    is_told = result.get("output") is not None or result.get("error") is not None
    fields = {"ran_on": _ON_THE_SERVER, "content_recorded": None if is_told else False, **result}
    recorder.add("tool", TOOL_RESULT, tool=tool, call_id=call_id, **fields)


def latency_ms(latency: Any) -> float | None:
    """Convert a latency of the API to milliseconds; None for one that cannot be read.

    Example:
        >>> latency_ms({"elapsed": 1.5, "unit": "second"}), latency_ms({"elapsed": "fast"})
        (1500.0, None)
    """
    elapsed = figure_of(object_of(latency).get("elapsed"))
    unit = object_of(latency).get("unit", "millisecond")
    scale = _UNITS_IN_MS.get(unit) if isinstance(unit, str) else None
    return None if elapsed is None or scale is None else round(elapsed * scale, 3)


def object_of(value: Any) -> Mapping[str, Any]:
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items_of(value: Any) -> list[Any]:
    """Return a value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []

"""Events of OpenHands: those of its first version, and those of its SDK."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import (
    EventFields,
    agent_message,
    error_event,
    event,
    items,
    mapping,
    reasoning,
    seconds_of,
    text,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.records import Record
from agent_eval.importers.usage import usage_in

_OWN_ACTIONS = ("system", "recall", "change_agent_state", "message")
"""Actions of the first version that are no call of a tool."""
_OWN_OBSERVATIONS = ("agent_state_changed", "null", "recall")
_SDK = (
    *(
        "ActionEvent",
        "ObservationEvent",
        "AgentErrorEvent",
        "MessageEvent",
        "SystemPromptEvent",
        "PauseEvent",
    ),
    *("ConversationStateUpdateEvent", "Condensation"),
)


class OpenHands(Format):
    """Reads a list of events, or lines of them."""

    name = "openhands"

    @override
    def detect(self, value: Any) -> Match | None:
        events = [mapping(each) for each in (value[:20] if isinstance(value, list) else [value])]
        if events and all(_is_of_sdk(each) for each in events):
            return Match(0.95, "sdk events")
        if not events or not all(
            "source" in each and ("action" in each or "observation" in each) for each in events
        ):
            return None
        return Match(0.95, "events") if all("id" in each and "timestamp" in each for each in events) else None

    @override
    def prepare(self, record: Record, _diagnostics: Diagnostics) -> tuple[Link, Any]:
        if isinstance(record.value, list):
            return ALONE, record.value
        time = seconds_of(record.value.get("timestamp"))
        return Link(ids=(f"file:{record.source}",), time=time), [record.value]

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        reader = _Reader(diagnostics)
        for part in parts:
            for number, each in enumerate(map(mapping, items(part.payload))):
                reader.add(each, part.place, f"[{number}]")
        reader.finish()
        return [Conversation(reader.events)]


def _is_of_sdk(fields: Mapping[str, Any]) -> bool:
    return fields.get("kind") in _SDK and "source" in fields


class _Reader:
    """Reads events in order."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.events: list[EventFields] = []
        self._diagnostics = diagnostics
        self._answers: set[str] = set()
        """Answers of models whose usage is known: several calls may be of one."""
        self._calls: dict[Any, str] = {}
        self._stats: Mapping[str, Any] = {}

    def add(self, fields: Mapping[str, Any], place: str, field: str) -> None:
        made = self._of_sdk(fields, place, field) if "kind" in fields else self._of_first(fields)
        moment = timestamp_of(fields.get("timestamp"))
        for each in made if moment is not None else ():
            each["ts"] = moment
        self.events += made

    def _of_first(self, fields: Mapping[str, Any]) -> list[EventFields]:
        action, arguments = fields.get("action"), mapping(fields.get("args"))
        about = mapping(fields.get("tool_call_metadata"))
        call_id = text(about.get("tool_call_id"))
        if action == "message":
            content_text = arguments.get("content", fields.get("message"))
            return [
                user_message(content_text) if fields.get("source") == "user" else agent_message(content_text)
            ]
        if fields.get("source") == "agent" and action is not None and action not in _OWN_ACTIONS:
            own = call_id or f"event-{fields.get('id')}"
            self._calls[fields.get("id")] = own
            events = self._answer(mapping(about.get("model_response")))
            tool = text(about.get("function_name")) or str(action)
            events.append(tool_call(tool, _stated(about, own) or dict(arguments), own))
            if action == "finish":
                answer = text(arguments.get("final_thought")) or text(fields.get("message"))
                events.append(agent_message(answer or text(arguments.get("thought"))))
            return events
        observed = fields.get("observation")
        if observed is None or observed in _OWN_OBSERVATIONS or fields.get("cause") is None:
            return []
        own = call_id or self._calls.get(fields["cause"]) or f"event-{fields['cause']}"
        if observed == "error":
            return [tool_result(None, own, error=fields.get("content") or fields.get("message") or "error")]
        return [tool_result(fields.get("content"), own)]

    def _answer(self, response: Mapping[str, Any]) -> list[EventFields]:
        """Read what a model said beside its calls, once: each of its calls repeats the answer."""
        name = text(response.get("id"))
        if name is None or name in self._answers:
            return []
        self._answers.add(name)
        choice = mapping(next(iter(items(response.get("choices"))), None))
        content_text = text(mapping(choice.get("message")).get("content"))
        usage = mapping(response.get("usage"))
        tokens = usage_of(
            input_tokens=usage.get("prompt_tokens"),
            output_tokens=usage.get("completion_tokens"),
            cached=mapping(usage.get("prompt_tokens_details")).get("cached_tokens"),
        )
        about = {"usage": tokens, "model": text(response.get("model"))}
        if content_text is None:
            return [event("agent", "model_call", **about)] if tokens else []
        return [agent_message(content_text, **about)]

    def _of_sdk(self, fields: Mapping[str, Any], place: str, field: str) -> list[EventFields]:
        kind, call_id = fields.get("kind"), fields.get("tool_call_id")
        if kind == "ActionEvent":
            events = [reasoning(fields["reasoning_content"])] if text(fields.get("reasoning_content")) else []
            if items(fields.get("thought")):
                events.append(agent_message(fields["thought"]))
            call = mapping(fields.get("tool_call"))
            tool = text(fields.get("tool_name"))
            events.append(tool_call(tool, call.get("arguments", fields.get("action")), call_id))
            if tool == "finish":
                events.append(agent_message(mapping(fields.get("action")).get("message")))
            return events
        if kind == "ObservationEvent":
            observation = mapping(fields.get("observation"))
            content = observation.get("content")
            error = (content or "error") if observation.get("is_error") is True else None
            tool = text(fields.get("tool_name"))
            return [tool_result(None if error else content, call_id, tool=tool, error=error)]
        if kind == "AgentErrorEvent":
            error = fields.get("error") or "error"
            return [tool_result(None, call_id, error=error) if call_id else error_event(error)]
        if kind == "MessageEvent":
            content = mapping(fields.get("llm_message")).get("content")
            return [agent_message(content) if fields.get("source") == "agent" else user_message(content)]
        if kind == "ConversationStateUpdateEvent":
            if fields.get("key") == "stats":
                self._stats = mapping(fields.get("value"))
        elif kind not in _SDK:
            self._diagnostics.unknown(place, f"{field}.kind {kind!r}"[:200])
        return []

    def finish(self) -> None:
        """Add the tokens of the run, which the last update of its statistics has in sum."""
        for metrics in map(mapping, mapping(self._stats.get("usage_to_metrics")).values()):
            usage = usage_in(metrics.get("accumulated_token_usage"))
            cost = metrics.get("accumulated_cost")
            if usage is not None and any(usage.values()):
                model = text(metrics.get("model_name"))
                self.events.append(
                    event("agent", "model_call", usage=usage, model=model, cost_usd=cost or None)
                )


def _stated(about: Mapping[str, Any], call_id: str) -> Any:
    """Return the arguments that the model gave, which its answer has."""
    choices = items(mapping(about.get("model_response")).get("choices"))
    calls = items(mapping(mapping(next(iter(choices), None)).get("message")).get("tool_calls"))
    own = next((mapping(call) for call in calls if mapping(call).get("id") == call_id), {})
    return mapping(own.get("function")).get("arguments")

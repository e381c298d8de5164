"""Put the spans of a conversation together: each message once, calls with their results, in their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.dialogue import Dialogue, Message, message_of
from agent_eval.importers.events import EventFields, text
from agent_eval.importers.span_facts import (
    MISSING,
    Kind,
    SpanMessages,
    answer_fields,
    kind_of,
    latency,
    timestamp,
    tool_arguments,
    tool_name,
    tool_output,
)
from agent_eval.importers.span_records import SpanFields

_CALLED_A_TOOL = frozenset({"tool_calls", "tool_call", "tool_use", "function_call"})

_HEX = frozenset("0123456789abcdef")

Place = tuple[int, int]
"""Where an event is in the order: its time, then its number."""


class SpanTree:
    """Reads the spans of a conversation, which may be of several traces.

    The spans are in any order. Each comes with the place of its record.
    """

    def __init__(self, spans: Sequence[tuple[SpanFields, str]], diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        ordered = sorted(enumerate(spans), key=lambda item: (item[1][0]["start"] or 0, item[0]))
        self._spans = [span for _, (span, _) in ordered]
        self._place_of = {id(span): place for _, (span, place) in ordered}
        self._by_id = {span["span"]: span for span in self._spans if span["span"] is not None}
        self._kinds: dict[int, Kind] = {id(span): kind_of(span) for span in self._spans}
        self._dialogues: dict[str | None, Dialogue] = {}
        self._order: dict[int, Place] = {}
        self._events: list[EventFields] = []
        self._span_of: dict[int, str | None] = {}
        self._identified: set[str] = set()

    def events(self) -> list[EventFields]:
        """Return the events of the conversation, in their order."""
        models = [span for span in self._of("model") if not self._is_within_model(span)]
        if not any(self._has_content(span) for span in models):
            # The outermost agents that say what they were asked and what they answered.
            agents = [span for span in self._of("agent") if self._has_content(span)]
            known = {id(span) for span in agents}
            inner = {
                id(span) for span in agents if any(id(outer) in known for outer in self._ancestors(span))
            }
            models = [span for span in agents if id(span) not in inner] or models
        for span in models:
            self._add_answer(span)
        self._calls, self._results = (_Waiting(self._events, kind) for kind in ("tool_call", "tool_result"))
        for span in self._of("tool"):
            self._add_call(span)
        for span in self._spans:
            self._add_other(span)
        self._bring_forward(models)
        if not any("error" in fields for fields in self._events):
            # What a failed run says, where no answer and no call says it.
            for span in self._spans:
                if span["problem"] is not None and span["parent"] not in self._by_id:
                    failed = make.error_event(span["problem"], ts=timestamp(span["end"]))
                    self._put(failed, span["end"], span)
                    break
        return sorted(self._events, key=lambda fields: self._order[id(fields)])

    def _of(self, kind: Kind) -> list[SpanFields]:
        return [span for span in self._spans if self._kinds[id(span)] == kind]

    def _ancestors(self, span: SpanFields) -> Iterable[SpanFields]:
        seen: set[str] = set()
        parent = span["parent"]
        while parent is not None and parent not in seen and parent in self._by_id:
            seen.add(parent)
            yield self._by_id[parent]
            parent = self._by_id[parent]["parent"]

    def _is_within_model(self, span: SpanFields) -> bool:
        """Whether an outer span records the same answer; then what this one says more goes there."""
        for outer in self._ancestors(span):
            if self._kinds[id(outer)] == "model":
                outer["attributes"] = {**span["attributes"], **outer["attributes"]}
                return True
            if self._kinds[id(outer)] in ("tool", "agent"):
                return False
        return False

    def _has_content(self, span: SpanFields) -> bool:
        return any(self._messages(span, Diagnostics()))

    def _messages(self, span: SpanFields, diagnostics: Diagnostics) -> tuple[list[Message], list[Message]]:
        """Return what was asked and answered; of an agent also values that are no messages."""
        read = SpanMessages(span, self._place_of[id(span)], diagnostics)
        inputs, outputs = read.inputs(), read.outputs()
        if self._kinds[id(span)] == "agent":
            return inputs or read.stated("input"), outputs or read.stated("output")
        return inputs, outputs

    def _agent(self, span: SpanFields) -> str | None:
        for outer in (span, *self._ancestors(span)):
            if self._kinds[id(outer)] == "agent":
                attributes = outer["attributes"]
                name = text(attributes.get("gen_ai.agent.name")) or text(attributes.get("agent.name"))
                if name is not None:
                    return name
        return text(span["attributes"].get("gen_ai.agent.name"))

    def _put(self, fields: EventFields, time: int | None, span: SpanFields) -> None:
        self._order[id(fields)] = (time or 0, len(self._order))
        self._events.append(fields)
        self._span_of[id(fields)] = span["span"]
        if _is_hex(span["trace"], 32):
            fields.setdefault("trace_id", span["trace"])

    def _identify(self, fields: EventFields, span: SpanFields) -> None:
        """Give the span's own id to the one event that it is of; ids of events are unique."""
        if _is_hex(span["span"], 16) and span["span"] not in self._identified:
            self._identified.add(span["span"])
            fields["span_id"] = span["span"]
            if _is_hex(span["parent"], 16):
                fields["parent_span_id"] = span["parent"]

    def _add_answer(self, span: SpanFields) -> None:
        inputs, outputs = self._messages(span, self._diagnostics)
        tools = (outer["span"] for outer in self._ancestors(span) if self._kinds[id(outer)] == "tool")
        scope, agent = next(tools, None), self._agent(span)  # a sub-agent serves a call
        dialogue = self._dialogues.setdefault(scope, Dialogue())
        known = {id(fields) for fields in dialogue.events}
        dialogue.add_history([_served(message) if scope else message for message in inputs])
        history = {id(fields) for fields in dialogue.events} - known
        answer = [fields for message in outputs for fields in message.events]
        if not answer and self._kinds[id(span)] == "model":  # the span says only that there was an answer
            if answer_fields(span).get("stop_reason") in _CALLED_A_TOOL:
                answer = [make.event("agent", "model_call")]
            elif span["problem"] is not None:
                answer = [make.error_event(span["problem"])]
            else:
                answer = [make.agent_message(None, content_recorded=False)]
        if answer:
            for name, value in answer_fields(span).items():
                if name == "stop_reason" or name not in answer[-1]:
                    answer[-1][name] = value
            if span["problem"] is not None:
                answer[-1].setdefault("error", span["problem"])
            self._identify(answer[-1], span)
            dialogue.add(message_of(answer))
        for fields in dialogue.events:
            if id(fields) in known:
                continue
            if agent is not None and fields["actor"] == "agent":
                fields.setdefault("agent_name", agent)
            self._put(fields, span["start"] if id(fields) in history else _end(span), span)

    def _add_call(self, span: SpanFields) -> None:
        name, arguments = tool_name(span), tool_arguments(span)
        output, call_id, error = tool_output(span)
        call = self._calls.take(name, call_id, arguments)
        if call is None:
            if isinstance(arguments, str):  # not to be parsed
                call = make.event("agent", "tool_call", tool=name, input=arguments, call_id=call_id)
            elif arguments is MISSING:
                call = make.event("agent", "tool_call", tool=name, call_id=call_id, content_recorded=False)
            else:
                call = make.tool_call(name, arguments, call_id)
            if self._agent(span) is not None:
                call["agent_name"] = self._agent(span)
            self._put(call, span["start"], span)
        else:
            call_id = call_id or call.get("call_id")
            time, number = self._order[id(call)]
            self._order[id(call)] = (min(time, span["start"] or time), number)
        if "span_id" not in call:
            self._identify(call, span)
        result = self._results.take(name, call_id)
        more = {"ts": timestamp(span["end"]), "latency_ms": latency(span)}
        if result is not None:
            if error is not None and "error" not in result:
                result["error"] = error
            result |= {key: value for key, value in more.items() if value is not None and key not in result}
            self._order[id(result)] = (_end(span) or 0, self._order[id(result)][1])
            return
        if output is MISSING and error is None:
            more["content_recorded"] = False
        made = make.tool_result(
            None if output is MISSING else output, call_id, tool=name, error=error, **more
        )
        if output is None and "output" not in made:
            made["output"] = None
        self._put(made, _end(span), span)

    def _add_other(self, span: SpanFields) -> None:
        kind, attributes = self._kinds[id(span)], span["attributes"]
        if kind == "handoff":
            to = attributes.get("gen_ai.handoff.to_agent") or span["name"].removeprefix("handoff to ")
            source = attributes.get("gen_ai.handoff.from_agent") or attributes.get("input.value")
            about = {"output": to, "agent_name": text(source)}
        elif kind == "guardrail":
            about = {"output": attributes.get("output.value"), "agent_name": span["name"]}
        else:
            return
        self._put(make.event("agent", kind, **about, error=span["problem"]), span["start"], span)

    def _bring_forward(self, models: Sequence[SpanFields]) -> None:
        """Put what was written before a call before it, where one span records several answers."""
        own = defaultdict[Any, list[EventFields]](list)
        for fields in self._events:
            if fields["actor"] == "agent":
                own[self._span_of[id(fields)]].append(fields)
        for span in models:
            latest = _end(span) or 0
            for fields in reversed(own[span["span"]]):
                time, number = self._order[id(fields)]
                latest = min(latest, time)
                self._order[id(fields)] = (latest, number)


def _end(span: SpanFields) -> Any:
    """Return when a span ended, or began where it does not say that."""
    return span["end"] or span["start"]


class _Waiting:
    """Calls that no span has executed yet, or results that none has returned, by id and by tool."""

    def __init__(self, events: Iterable[EventFields], kind: str) -> None:
        self._by_id: dict[str, list[EventFields]] = {}
        self._by_tool: dict[str | None, list[EventFields]] = {}
        self._used: set[int] = set()
        for fields in events:
            if fields["type"] == kind and "call_id" in fields:
                self._by_id.setdefault(fields["call_id"], []).append(fields)
            elif fields["type"] == kind:
                self._by_tool.setdefault(fields.get("tool"), []).append(fields)

    def take(self, tool: str, call_id: str | None, arguments: Any = MISSING) -> EventFields | None:
        """Take the first that has the id; else one without an id that has the tool, and these arguments."""
        every = (fields for waiting in self._by_id.values() for fields in waiting)
        named = [fields for fields in every if fields.get("tool") == tool] if call_id is None else []
        same = named if call_id is None else self._by_id.get(call_id, [])
        loose = [*self._by_tool.get(tool, []), *self._by_tool.get(None, [])]
        for candidates in (same, loose):
            free = [fields for fields in candidates if id(fields) not in self._used]
            exact = (fields for fields in free if arguments is MISSING or fields.get("input") == arguments)
            chosen = next(exact, None) or next(iter(free), None)
            if chosen is not None:
                self._used.add(id(chosen))
                return chosen
        return None


def _served(message: Message) -> Message:
    """Mark what a sub-agent is asked: it comes from another agent, and not from the user."""
    events: list[EventFields] = []
    for fields in message.events:
        served = dict(fields)
        if fields["actor"] == "user":
            served |= {"actor": "system", "output": served.pop("input", None)}
        events.append(served)
    return message_of(events, message.id)


def _is_hex(value: Any, length: int) -> bool:
    is_id = isinstance(value, str) and len(value) == length and value.strip("0") != ""
    return is_id and set(value) <= _HEX

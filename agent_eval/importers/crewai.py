"""Exports of CrewAI: the output of a crew, its log file, and the events of its bus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, seconds_of, text, usage_in
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.records import Record
from agent_eval.importers.span_records import AGENT_NAME, SpanFields, of_model, of_tool, span_fields
from agent_eval.importers.span_tree import SpanTree

_FAILED = "Error executing tool: "
_READ = ("llm_call_", "tool_usage_", "crew_kickoff_", "agent_execution_", "task_")
"""How the types of those events begin that are read, or that only repeat what these say."""
_KINDS = (
    *(*_READ, "a2a_", "agent_", "cc_", "checkpoint_", "codex_", "context_window_", "conversation_", "crew_"),
    *("cursor_", "default_", "flow_", "goal_", "hook_", "human_feedback_", "knowledge_", "lite_agent_"),
    *("llm_", "mcp_", "memory_", "method_", "plan_", "skill_", "step_observation_", "tool_"),
)
_MARKS = frozenset(
    {"event_id", "emission_sequence", "agent_role", "source_fingerprint", "event_class", "crew_name"}
)
"""Fields of which every event of the bus has at least one."""


class CrewAI(Format):
    """Reads `CrewOutput`, the lines of `output_log_file`, and events of the bus."""

    name = "crewai"

    @override
    def detect(self, value: Any) -> Match | None:
        fields = mapping(value)
        if isinstance(fields.get("tasks_output"), list):
            return Match(0.95, "output")
        if fields.get("status") in ("started", "completed") and {"task", "agent", "timestamp"} <= set(fields):
            return Match(0.9, "log")
        kind = fields.get("type")
        if isinstance(kind, str) and "timestamp" in fields and not _MARKS.isdisjoint(fields):
            return Match(0.9, "event" if kind.startswith(_READ) else "other event")
        return None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        match = self.detect(record.value)
        variant = "event" if match is None else match.variant
        if variant == "output":
            return ALONE, {"variant": variant, "value": record.value}
        return Link(ids=(f"file:{record.source}",)), {"variant": variant, "value": record.value}

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        values = [(part.payload["variant"], mapping(part.payload["value"]), part.place) for part in parts]
        if values[0][0] == "output":
            return [_of_output(value, place, diagnostics) for _, value, place in values]
        if values[0][0] == "log":
            # Its times have no offset, so they say nothing of the order beside others.
            lines = [
                make.user_message(line.get("task"))
                if line.get("status") == "started"
                else make.agent_message(line.get("output"), agent_name=text(line.get("agent")))
                for _, line, _ in values
            ]
            return [Conversation(lines)]
        return [_of_events([(value, place) for _, value, place in values], diagnostics)]


def _of_output(output: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> Conversation:
    events: list[EventFields] = []
    for number, task in enumerate(map(mapping, items(output.get("tasks_output")))):
        events += _of_task(task, f"{place}#tasks_output[{number}]", diagnostics)
    if tokens := usage_in(output.get("token_usage")):
        events.append(make.event("agent", "model_call", usage=tokens))
    spoken = any(fields["type"] == "message" and fields["actor"] == "agent" for fields in events)
    if not spoken and text(output.get("raw")):
        events.append(make.agent_message(output["raw"]))
    return Conversation(events)


def _of_task(task: Mapping[str, Any], place: str, diagnostics: Diagnostics) -> list[EventFields]:
    agent = text(task.get("agent"))
    messages = items(task.get("messages"))
    if not messages:  # older versions keep only what was asked and answered
        asked, answered = text(task.get("description")), text(task.get("raw"))
        made = [make.user_message(asked)] if asked else []
        return [*made, make.agent_message(answered, agent_name=agent)] if answered else made
    events = MessageReader(place, diagnostics).events_of(messages, "messages")
    make.mark(events, agent=agent)
    failures = [mapping(failure) for failure in items(task.get("tool_failures"))]
    for fields in events:
        output = fields.get("output")
        if fields["type"] == "tool_result" and isinstance(output, str) and output.startswith(_FAILED):
            # What is recorded of a failure is more than the text says; each failure is of one result.
            words = fields.pop("output").removeprefix(_FAILED)
            fields["error"] = words
            for failure in failures:
                recorded = mapping(failure.get("failure"))
                if failure.get("tool_name") == fields.get("tool") and recorded.get("message") == words:
                    failures.remove(failure)
                    fields["error"] = dict(recorded)
                    break
    return events


def _of_events(rows: Sequence[tuple[Mapping[str, Any], str]], diagnostics: Diagnostics) -> Conversation:
    def order(row: Mapping[str, Any]) -> float:
        sequence = row.get("emission_sequence")
        return sequence if isinstance(sequence, int) else seconds_of(row.get("timestamp")) or 0

    ordered = sorted(rows, key=lambda item: order(item[0]))
    started = {text(row.get("event_id")): row for row, _ in rows if text(row.get("event_id"))}
    spans: list[tuple[SpanFields, str]] = []
    open_tools: list[tuple[Mapping[str, Any], str]] = []
    for row, place in ordered:
        kind = str(row.get("type"))
        if not kind.startswith(_KINDS):
            diagnostics.unknown(place, f"event of type {kind!r}"[:200])
        if kind in ("llm_call_completed", "llm_call_failed"):
            spans.append((_model_span(row, started.get(text(row.get("started_event_id")), row)), place))
        elif kind == "tool_usage_started":
            open_tools.append((row, place))
        elif kind in ("tool_usage_finished", "tool_usage_error"):
            start = _matching(row, open_tools)
            spans.append((_tool_span(row if start is None else start, row), place))
    spans += [(_tool_span(row, None), place) for row, place in open_tools]
    events = SpanTree(spans, diagnostics).events()
    kickoff = next((row for row, _ in rows if row.get("type") == "crew_kickoff_started"), {})
    about = {name: kickoff[name] for name in ("crew_name", "inputs") if kickoff.get(name)}
    return Conversation(events, metadata=about)


def _matching(
    row: Mapping[str, Any], waiting: list[tuple[Mapping[str, Any], str]]
) -> Mapping[str, Any] | None:
    """Take the start of a tool's use: by its id, else by tool and arguments."""
    identifier = text(row.get("started_event_id"))
    for position, (start, _) in enumerate(waiting):
        by_id = identifier is not None and start.get("event_id") == identifier
        same = all(start.get(name) == row.get(name) for name in ("tool_name", "tool_args"))
        if by_id or (identifier is None and same):
            del waiting[position]
            return start
    return None


def _model_span(row: Mapping[str, Any], start: Mapping[str, Any]) -> SpanFields:
    response = row.get("response")
    said_or_called = {"tool_calls": response} if isinstance(response, list) else {"content": response}
    message = {"role": "assistant", "content": None, **said_or_called}
    asked = {"messages": _unquoted(start.get("messages") or row.get("messages"))}
    answer = None if response is None else {"choices": [{"message": message}]}
    attributes = of_model(asked, answer, row.get("usage"), row.get("model"), row.get("finish_reason"))
    attributes[AGENT_NAME] = text(row.get("agent_role"))
    attributes["gen_ai.response.id"] = text(row.get("response_id"))
    times = (start.get("timestamp"), row.get("timestamp"))
    return span_fields("llm", (None, row.get("event_id"), None), times, attributes, row.get("error"))


def _unquoted(messages: Any) -> Any:
    """Write names and arguments of calls as they were: a repeated history has quotes around them."""
    if isinstance(messages, list):
        return [_unquoted(message) for message in messages]
    if isinstance(messages, dict):
        plain = {name: _unquoted(value) for name, value in messages.items()}
        for name in ("name", "arguments"):
            value = plain.get(name)
            if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == "'":
                plain[name] = value[1:-1]
        return plain
    return messages


def _tool_span(start: Mapping[str, Any], end: Mapping[str, Any] | None) -> SpanFields:
    attributes = of_tool(start.get("tool_name"), start.get("tool_args"))
    attributes[AGENT_NAME] = text(start.get("agent_role"))
    done = mapping(end)
    if "output" in done:
        attributes["gen_ai.tool.call.result"] = done["output"]
    times = (start.get("timestamp"), done.get("timestamp"))
    return span_fields("tool", (None, start.get("event_id"), None), times, attributes, done.get("error"))

"""Logs of Inspect: `.json` documents and `.eval` archives. Epochs are trials, scores are verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    system_message,
    text,
    text_or_none,
    timestamp_of,
    tool_call,
    tool_result,
    usage_of,
    user_message,
)
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.recorded_verdicts import as_metadata, recorded
from agent_eval.importers.records import Record
from agent_eval.importers.trials import RecordedRun, conversations_of

_ATTACHMENT = "attachment://"


class Inspect(Format):
    """Reads logs of Inspect: a document with all samples, or the members of an `.eval` archive."""

    name = "inspect"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            rows = [mapping(row) for row in value[:20]]
            is_table = bool(rows) and all(_is_summary(row) or _is_reduction(row) for row in rows)
            return Match(0.9, "table of an archive") if is_table else None
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("eval"), dict) and ("plan" in value or "samples" in value):
            return Match(0.95, "log" if "samples" in value else "header")
        if {"id", "epoch", "input", "target", "messages"} <= set(value):
            return Match(0.95, "sample")
        return None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        value = record.value
        if isinstance(value, list) or "samples" in value or "eval" in value:
            return ALONE, value
        archive = record.source.partition("!")[0]
        return Link(ids=(f"{archive}:{text_or_none(value.get('id'))}",)), value

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        runs = []
        for part in parts:
            value = mapping(part.payload)
            about = _about(mapping(value.get("eval")))
            if "messages" in value:
                runs.append(_run(value, part.place, about))
            samples = items(value.get("samples"))
            runs += [
                _run(mapping(sample), f"{part.place}#samples[{number}]", about)
                for number, sample in enumerate(samples)
            ]
            if value.get("status") == "error":
                diagnostics.note(part.place, "status", f"is error: {_message(value.get('error'))}"[:500])
        return conversations_of(runs, diagnostics)


def _is_summary(row: Any) -> bool:
    return {"id", "epoch", "input", "target"} <= set(row) and "messages" not in row


def _is_reduction(row: Any) -> bool:
    return {"scorer", "samples"} <= set(row)


def _about(evaluation: Any) -> dict[str, Any]:
    names = ("task", "model", "run_id", "eval_id")
    return {name: evaluation[name] for name in names if text(evaluation.get(name))}


def _run(sample: Any, place: str, about: dict[str, Any]) -> RecordedRun:
    attachments = mapping(sample.get("attachments"))
    sample = _with_attachments({name: sample[name] for name in sample if name != "attachments"}, attachments)
    answers = _answers(sample)
    events: list[EventFields] = []
    for message in map(mapping, items(sample.get("messages"))):
        events += _message_events(message, answers)
    events += [answer.event() for answer in answers if not answer.is_used and answer.is_of_the_agent]
    if sample.get("error"):
        events.append(error_event(_message(sample["error"])))
    scores = mapping(sample.get("scores"))
    if not scores and isinstance(sample.get("score"), dict):
        scores = {"score": sample["score"]}
    verdicts = {
        name: recorded(mapping(score).get("value"), mapping(score).get("explanation"))
        for name, score in scores.items()
    }
    extra = {"sample_metadata": sample.get("metadata"), "limit": sample.get("limit")}
    target = sample.get("target")
    return RecordedRun(
        task_id=text_or_none(sample.get("id")),
        number=sample.get("epoch"),
        events=events,
        place=place,
        metadata=as_metadata(verdicts),
        about=about | {name: value for name, value in extra.items() if value},
        expected_output=None if target in ("", [], None) else target,
        input=sample["input"] if isinstance(sample.get("input"), str) else None,
    )


def _with_attachments(value: Any, attachments: Any) -> Any:
    """Put long texts back, which the log keeps apart, each once."""
    if isinstance(value, str):
        if value.startswith(_ATTACHMENT):
            return attachments.get(value.removeprefix(_ATTACHMENT), value)
        return value
    if not attachments or not isinstance(value, list | dict):
        return value
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    return {name: _with_attachments(item, attachments) for name, item in value.items()}


class _Answer:
    """What the log recorded of one request to a model."""

    def __init__(self, recorded_event: Any, agent_ids: set[str]) -> None:
        self._recorded = recorded_event
        output = mapping(recorded_event.get("output"))
        self._output = output
        self._choice = mapping(next(iter(items(output.get("choices"))), None))
        self.message = mapping(self._choice.get("message"))
        self.is_used = False
        self.is_of_the_agent = text(self.message.get("id")) in agent_ids

    def fields(self) -> EventFields:
        """Return model, tokens, time and why the model stopped."""
        usage = mapping(self._output.get("usage"))
        seconds = self._output.get("time")
        tokens = usage_of(
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            cached=usage.get("input_tokens_cache_read"),
            cache_write=usage.get("input_tokens_cache_write"),
            reasoning=usage.get("reasoning_tokens"),
        )
        known = {
            "model": text(self._output.get("model")),
            "usage": tokens,
            "stop_reason": text(self._choice.get("stop_reason")),
            "ts": timestamp_of(self._recorded.get("timestamp")),
            "latency_ms": seconds * 1000 if isinstance(seconds, int | float) else None,
        }
        return {name: value for name, value in known.items() if value is not None}

    def event(self) -> EventFields:
        """Return the request as an event of its own."""
        return event("agent", "model_call", **self.fields())


def _answers(sample: Any) -> list[_Answer]:
    ids = {
        str(message["id"])
        for message in map(mapping, items(sample.get("messages")))
        if message.get("role") == "assistant" and text(message.get("id"))
    }
    recorded_events = items(sample.get("events")) or items(mapping(sample.get("transcript")).get("events"))
    requests = [each for each in map(mapping, recorded_events) if each.get("event") == "model"]
    if not requests and isinstance(sample.get("output"), dict):
        requests = [{"output": sample["output"]}]
    return [_Answer(request, ids) for request in requests]


def _message_events(message: Any, answers: Sequence[_Answer]) -> list[EventFields]:
    role, content = message.get("role"), message.get("content")
    if role == "system":
        return [system_message(content)]
    if role == "user":
        return [user_message(content)]
    if role == "tool":
        error = mapping(message.get("error")) or None
        output = None if error is not None and content in ("", None, _message(error)) else content
        tool = text(message.get("function"))
        return [tool_result(output, message.get("tool_call_id"), tool=tool, error=error)]
    events = _written(message)
    answer = _answer_of(message, answers)
    if answer is not None:
        answer.is_used = True
        events[-1] |= {name: value for name, value in answer.fields().items() if name not in events[-1]}
    return events


def _written(message: Any) -> list[EventFields]:
    events: list[EventFields] = []
    content = message.get("content")
    if isinstance(content, list):
        thoughts = [mapping(block) for block in content if mapping(block).get("type") == "reasoning"]
        events += [reasoning(None if block.get("redacted") else block.get("reasoning")) for block in thoughts]
        content = [block for block in content if mapping(block).get("type") != "reasoning"]
    if text(message.get("reasoning")):
        events.append(reasoning(message["reasoning"]))
    calls = [mapping(call) for call in items(message.get("tool_calls"))]
    if content not in (None, "", []) or not calls:
        events.append(agent_message(content))
    for call in calls:
        made = tool_call(text(call.get("function")), call.get("arguments"), call.get("id"))
        if text(call.get("parse_error")):
            made["error"] = call["parse_error"]
        events.append(made)
    return events


def _answer_of(message: Any, answers: Sequence[_Answer]) -> _Answer | None:
    """Find the request that a message answers: by its id, or in older logs by what it says."""
    identifier = text(message.get("id"))
    for answer in answers:
        if answer.is_used:
            continue
        if identifier is not None and text(answer.message.get("id")) is not None:
            if answer.message["id"] == identifier:
                return answer
        elif all(answer.message.get(name) == message.get(name) for name in ("content", "tool_calls")):
            return answer
    return None


def _message(error: Any) -> Any:
    return mapping(error).get("message", error)

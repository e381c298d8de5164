"""Logs of Inspect: `.json` documents and `.eval` archives. Epochs are trials, scores are verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers import events as make
from agent_eval.importers.benchmarks import RecordedRun, as_metadata, conversations_of, recorded
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, items, mapping, text, text_or_none
from agent_eval.importers.format import ALONE, Conversation, Format, Link, Match, Part
from agent_eval.importers.messages import MessageReader
from agent_eval.importers.records import Record
from agent_eval.importers.usage import usage_in

_ATTACHMENT = "attachment://"


class Inspect(Format):
    """Reads logs of Inspect: a document with all samples, or the members of an `.eval` archive."""

    name = "inspect"

    @override
    def detect(self, value: Any) -> Match | None:
        if isinstance(value, list):
            rows = [mapping(row) for row in value[:20]]
            is_table = bool(rows) and all(
                ({"id", "epoch", "input", "target"} <= set(row) and "messages" not in row)
                or {"scorer", "samples"} <= set(row)
                for row in rows
            )
            return Match(0.9, "table of an archive") if is_table else None
        if not isinstance(value, dict):
            return None
        if isinstance(value.get("eval"), dict) and ("plan" in value or "samples" in value):
            return Match(0.95, "log" if "samples" in value else "header")
        is_sample = {"id", "epoch", "input", "target", "messages"} <= set(value)
        return Match(0.95, "sample") if is_sample else None

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
            evaluation = mapping(value.get("eval"))
            names = ("task", "model", "run_id", "eval_id")
            about = {name: evaluation[name] for name in names if text(evaluation.get(name))}
            if "messages" in value:
                runs.append(_run(value, part.place, about, diagnostics))
            runs += [
                _run(mapping(sample), f"{part.place}#samples[{number}]", about, diagnostics)
                for number, sample in enumerate(items(value.get("samples")))
            ]
            if value.get("status") == "error":
                diagnostics.note(part.place, "status", f"is error: {_words(value.get('error'))}"[:500])
        return conversations_of(runs, diagnostics)


def _run(
    sample: Mapping[str, Any], place: str, about: dict[str, Any], diagnostics: Diagnostics
) -> RecordedRun:
    attachments = mapping(sample.get("attachments"))
    sample = _with_attachments({name: sample[name] for name in sample if name != "attachments"}, attachments)
    answers = _answers(sample)
    reader, events = MessageReader(place, diagnostics), list[EventFields]()
    for number, message in enumerate(map(mapping, items(sample.get("messages")))):
        plain = {name: value for name, value in message.items() if name != "model"}
        made = reader.events(plain, f"messages[{number}]")
        if message.get("role") == "assistant":
            made = made or [make.agent_message(None)]
            answer = _answer_of(message, answers)
            if answer is not None:
                answer["is_used"] = True
                made[-1] |= {name: value for name, value in answer["fields"].items() if name not in made[-1]}
        events += made
    ids = {str(message.get("id")) for message in map(mapping, items(sample.get("messages")))}
    events += [
        make.event("agent", "model_call", **answer["fields"])
        for answer in answers
        if not answer["is_used"] and text(answer["message"].get("id")) in ids
    ]
    if sample.get("error"):
        events.append(make.error_event(_words(sample["error"])))
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


def _with_attachments(value: Any, attachments: Mapping[str, Any]) -> Any:
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


def _answers(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the log recorded of each request to a model: its message, and the fields of its event."""
    recorded_events = items(sample.get("events")) or items(mapping(sample.get("transcript")).get("events"))
    requests = [each for each in map(mapping, recorded_events) if each.get("event") == "model"]
    if not requests and isinstance(sample.get("output"), dict):
        requests = [{"output": sample["output"]}]
    answers = []
    for request in requests:
        output = mapping(request.get("output"))
        choice = mapping(next(iter(items(output.get("choices"))), None))
        seconds = output.get("time")
        fields = {
            "model": text(output.get("model")),
            "usage": usage_in(output.get("usage")),
            "stop_reason": text(choice.get("stop_reason")),
            "ts": make.timestamp_of(request.get("timestamp")),
            "latency_ms": seconds * 1000 if isinstance(seconds, int | float) else None,
        }
        known = {name: value for name, value in fields.items() if value is not None}
        answers.append({"message": mapping(choice.get("message")), "fields": known, "is_used": False})
    return answers


def _answer_of(message: Mapping[str, Any], answers: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Find the request that a message answers: by its id, or in older logs by what it says."""
    identifier = text(message.get("id"))
    for answer in answers:
        if answer["is_used"]:
            continue
        stated = answer["message"]
        if identifier is not None and text(stated.get("id")) is not None:
            if stated["id"] == identifier:
                return answer
        elif all(stated.get(name) == message.get(name) for name in ("content", "tool_calls")):
            return answer
    return None


def _words(error: Any) -> Any:
    return mapping(error).get("message", error)

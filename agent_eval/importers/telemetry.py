"""Traces of OpenTelemetry, OpenInference and MLflow, and what evaluations in them say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.benchmarks import as_metadata, recorded
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import EventFields, event, items, mapping, text, text_or_none
from agent_eval.importers.format import Conversation, Format, Link, Match, Part
from agent_eval.importers.records import Record
from agent_eval.importers.span_facts import answer_fields
from agent_eval.importers.span_messages import SpanMessages
from agent_eval.importers.span_records import (
    SpanFields,
    forget_spans,
    is_jaeger,
    is_mlflow,
    is_otlp,
    is_row,
    rows_of,
    spans_of,
)
from agent_eval.importers.span_tree import SpanTree

_OWN = "agent_eval.events"
_NOT_COPIED = frozenset({"ts", "latency_ms"})


def is_own(spans: Sequence[SpanFields]) -> bool:
    """Whether all spans of a trace that have content are of this program's export."""
    roots = [span for span in spans if "agent_eval.case_id" in span["attributes"]]
    return bool(roots) and all(span in roots or _OWN in span["attributes"] for span in spans)


def own_events(spans: Sequence[tuple[SpanFields, str]], diagnostics: Diagnostics) -> list[EventFields]:
    """Return the events of a trial that this program exported, in the order of the trace.

    Each span comes with the place of its record.
    """
    reader = _Reader(diagnostics)
    for span, place in spans:
        reader.add(span, place)
    return [fields for _, _, fields in sorted(reader.events, key=lambda item: item[:2])]


class _Reader:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self.events: list[tuple[float, int, EventFields]] = []
        self._diagnostics = diagnostics

    def _put(self, index: Any, fields: EventFields) -> None:
        self.events.append((index if isinstance(index, int) else 0, len(self.events), fields))

    def add(self, span: SpanFields, place: str) -> None:
        operation = span["attributes"].get("gen_ai.operation.name")
        if operation == "execute_tool":
            self._add_call(span)
        elif operation == "chat":
            self._add_answer(span, place)
        for marked in span["events"]:
            stated = mapping(mapping(marked.get("attributes")).get("agent_eval.event"))
            if stated.get("type") and stated.get("actor"):
                fields = {name: value for name, value in stated.items() if name not in _DERIVED}
                self._put(stated.get("idx"), fields)

    def _add_call(self, span: SpanFields) -> None:
        attributes, indices = span["attributes"], items(span["attributes"].get(_OWN))
        common = {
            "tool": text(attributes.get("gen_ai.tool.name")),
            "call_id": text(attributes.get("gen_ai.tool.call.id")),
            "ran_on": text(attributes.get("agent_eval.ran_on")),
        }
        has_call = attributes.get("agent_eval.call_recorded") is not False
        has_result = "gen_ai.tool.call.result" in attributes
        error = attributes.get("agent_eval.error", span["problem"])
        if has_call:
            actor = text(attributes.get("agent_eval.actor")) or "agent"
            call = event(actor, "tool_call", **common, agent_name=text(attributes.get("gen_ai.agent.name")))
            call["input"] = attributes.get("gen_ai.tool.call.arguments")
            if error is not None and not has_result:
                call["error"] = error
            self._put(indices[0] if indices else 0, call)
        if has_result:
            result = event("tool", "tool_result", **common)
            result["output"] = attributes.get("gen_ai.tool.call.result")
            if error is not None:
                result["error"] = error
            self._put(indices[-1] if indices else 0, result)

    def _add_answer(self, span: SpanFields, place: str) -> None:
        read = SpanMessages(span, place, self._diagnostics)
        attributes = span["attributes"]
        inputs = items(attributes.get("agent_eval.input_events"))
        for index, message in zip(inputs, read.inputs(), strict=False):
            for fields in message.events:
                if fields["type"] != "tool_result":  # the span of the call has it
                    self._put(index, fields)
        indices = items(attributes.get(_OWN))
        written = [fields for message in read.outputs() for fields in message.events]
        texts = [fields for fields in written if fields["type"] != "tool_call"]
        if attributes.get("agent_eval.content_recorded") is False:
            texts.append(event("agent", "message", content_recorded=False))
        # What carries tokens and model is the message, or a record of the request.
        has_own = bool(texts) and len(indices) <= len(written)
        fields = texts[-1] if has_own else event("agent", "model_call")
        for position, made in enumerate(texts):
            self._put(indices[min(position, len(indices) - 1)] if indices else 0, made)
        for name, value in answer_fields(span).items():
            if name not in _NOT_COPIED:
                fields.setdefault(name, value)
        for name in ("cost_usd", "block_reason", "turn"):
            if f"agent_eval.{name}" in attributes:
                fields[name] = attributes[f"agent_eval.{name}"]
        if span["problem"] is not None:
            fields["error"] = attributes.get("agent_eval.error", span["problem"])
        if fields not in texts and set(fields) > {"actor", "type", "attributes"}:
            self._put(indices[-1] if indices else 0, fields)


_DERIVED = frozenset({"idx", "trace_id", "span_id", "parent_span_id"})


EVALUATION = "gen_ai.evaluation.result"

_SESSIONS = ("gen_ai.conversation.id", "session.id", "mlflow.trace.session", "langsmith.trace.session_id")
_SESSION_NAMES = frozenset(_SESSIONS)
_OPENINFERENCE = ("openinference.", "llm.", "input.value", "output.value")
_PASSED = {"pass": True, "passed": True, "true": True, "fail": False, "failed": False, "false": False}
_PASSED |= {"error": False}


class OpenTelemetry(Format):
    """Reads spans by the GenAI conventions: OTLP/JSON, flat rows, and what `export otel` writes."""

    name = "otel"

    @override
    def detect(self, value: Any) -> Match | None:
        variant = _variant(value)
        if variant is None:
            return None
        return Match(0.5 if _is_openinference(value) else _confidence(value), variant)

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        spans = spans_of(record.value)
        forget_spans()
        traces = {f"trace:{span['trace']}" for span in spans if span["trace"] is not None}
        sessions = {f"session:{name}" for span in spans if (name := _session(span)) is not None}
        about = mapping(record.value.get("info")) if is_mlflow(record.value) else {}
        return Link(ids=(*sorted(traces), *sorted(sessions))), {"spans": spans, "info": about}

    @override
    def read(self, parts: Sequence[Part], diagnostics: Diagnostics) -> Iterable[Conversation]:
        spans = [(span, part.place) for part in parts for span in mapping(part.payload)["spans"]]
        infos = [info for part in parts if (info := mapping(part.payload)["info"])]
        by_key: dict[str, list[tuple[SpanFields, str]]] = {}
        sessions = _sessions_of_traces(spans)
        for span, place in spans:
            key = sessions.get(span["trace"], span["trace"]) or place
            by_key.setdefault(key, []).append((span, place))
        groups = [_with_logs(group) for group in by_key.values()]
        own: list[Group] = []
        others: list[Group] = []
        for group in groups:
            (own if is_own([span for span, _ in group[0]]) else others).append(group)
        conversations = [_conversation(group, infos, diagnostics) for group in others]
        return [*_own_conversations(own, diagnostics), *filter(None, conversations)]


class OpenInference(OpenTelemetry):
    """Reads spans by OpenInference's conventions, as Phoenix and many instrumentations write them."""

    name = "openinference"

    @override
    def detect(self, value: Any) -> Match | None:
        variant = _variant(value)
        return Match(0.95, variant) if variant is not None and _is_openinference(value) else None


class MLflow(OpenTelemetry):
    """Reads traces of MLflow, `{"info", "data": {"spans"}}`, with their assessments."""

    name = "mlflow"

    @override
    def detect(self, value: Any) -> Match | None:
        return Match(0.95, "trace") if is_mlflow(value) else None


def _variant(value: Any) -> str | None:
    if is_otlp(value) or is_otlp(mapping(value).get("trace")):
        return "otlp"
    if is_jaeger(value):
        return "jaeger"
    if is_row(value):
        return "rows"
    rows = rows_of(value)
    return "rows" if rows and all(map(is_row, rows[:20])) else None


def _is_openinference(value: Any) -> bool:
    spans = spans_of(value)[:200]
    return any(name.startswith(_OPENINFERENCE) for span in spans for name in span["attributes"]) or any(
        str(mapping(value).get("name")).startswith("openinference.") for _ in spans
    )


def _confidence(value: Any) -> float:
    spans = spans_of(value)[:200]
    names = [name for span in spans for name in span["attributes"]]
    names += [name for span in spans for each in span["events"] for name in each["attributes"]]
    return 0.95 if any(name.startswith("gen_ai.") for name in names) else 0.7


def _session(span: SpanFields) -> str | None:
    attributes = span["attributes"]
    if text(attributes.get("agent_eval.case_id")) is not None:
        return f"agent_eval:{attributes.get('agent_eval.run_id')}:{attributes['agent_eval.case_id']}"
    if _SESSION_NAMES.isdisjoint(attributes):
        return None
    return next((name for key in _SESSIONS if (name := text_or_none(attributes.get(key)))), None)


def _sessions_of_traces(spans: Sequence[tuple[SpanFields, str]]) -> dict[str | None, str]:
    """Map each trace to its session; trials that this program exported remain traces of their own."""
    sessions: dict[str | None, str] = {}
    own = {span["trace"] for span, _ in spans if "agent_eval.case_id" in span["attributes"]}
    for span, _ in spans:
        session = _session(span)
        if session is not None and span["trace"] not in own:
            sessions.setdefault(span["trace"], session)
    return sessions


Group = tuple[list[tuple[SpanFields, str]], list[SpanFields]]
"""The spans of a conversation, and its evaluations."""


def _with_logs(members: Sequence[tuple[SpanFields, str]]) -> Group:
    """Give log records to the spans that they are of; one of no known span counts as a span."""
    spans = [(span, place) for span, place in members if not span.get("is_log")]
    by_id = {span["span"]: span for span, _ in spans if span["span"] is not None}
    evaluations: list[SpanFields] = []
    seen: set[str | None] = set()
    for record, place in members:
        if not record.get("is_log"):
            if record["span"] is not None and record["span"] in seen:
                spans = [each for each in spans if each[0] is not record]
            seen.add(record["span"])
        elif record["name"] == EVALUATION:
            evaluations.append(record)
        elif record["span"] in by_id:
            by_id[record["span"]]["events"] += record["events"]
        else:
            own = {**record, "attributes": record["events"][0]["attributes"]}
            spans.append((own, place))
            if record["span"] is not None:
                by_id[record["span"]] = own
    for span, _ in spans:
        evaluations += [{**span, "events": [each]} for each in span["events"] if each["name"] == EVALUATION]
    return spans, evaluations


def _verdicts(evaluations: Sequence[SpanFields]) -> dict[str, Any]:
    verdicts: dict[str, Any] = {}
    for evaluation in evaluations:
        attributes = mapping(evaluation["events"][0]["attributes"])
        name = text(attributes.get("gen_ai.evaluation.name"))
        score, label = (
            attributes.get("gen_ai.evaluation.score.value"),
            attributes.get("gen_ai.evaluation.score.label"),
        )
        if name is None or label == "skipped":
            continue
        verdict = recorded(score, attributes.get("gen_ai.evaluation.explanation")) or {"score": None}
        passed = _PASSED.get(str(label).lower(), None if label is not None else verdict.get("passed"))
        verdicts[name] = {**verdict, "passed": passed}
    return as_metadata(verdicts)


def _conversation(group: Group, infos: Sequence[Any], diagnostics: Diagnostics) -> Conversation | None:
    spans, evaluations = group
    events = SpanTree(spans, diagnostics).events()
    places = list(dict.fromkeys(place for _, place in spans))
    if not events:
        names = ", ".join(sorted({span["name"] for span, _ in spans})[:3])
        diagnostics.note(
            places[0] if places else "", "", f"has no answer and no tool call, only {names[:200]}"
        )
        return None
    traces = {span["trace"] for span, _ in spans if span["trace"] is not None}
    session = next((name for span, _ in spans if (name := _session(span)) is not None), None)
    expected, assessed = _assessments(infos)
    case = {"metadata": _verdicts(evaluations) or assessed}
    trace = next(iter(traces), None) if len(traces) == 1 else None
    return Conversation(
        events,
        id=session or next((text(info.get("trace_id")) for info in infos), None) or trace,
        aliases=tuple(sorted(traces)),
        expected_output=expected,
        case={name: value for name, value in case.items() if value},
        trace_id=trace if trace is not None and len(trace) == 32 else None,
        records=places,
    )


def _assessments(infos: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    """Read the assessments of MLflow: an expectation is what is expected, feedback is a verdict."""
    expected, verdicts = None, {}
    for assessment in (mapping(each) for info in infos for each in items(info.get("assessments"))):
        name = text(assessment.get("assessment_name")) or text(assessment.get("name"))
        if "expectation" in assessment:
            expected = mapping(assessment["expectation"]).get("value", expected)
        elif name is not None:
            value = mapping(assessment.get("feedback")).get("value")
            named = _PASSED.get(str(value).lower()) if isinstance(value, str) else None
            verdicts[name] = recorded(value if named is None else named, assessment.get("rationale"))
    return expected, as_metadata(verdicts)


def _own_conversations(groups: Sequence[Group], diagnostics: Diagnostics) -> list[Conversation]:
    """Make conversations of exported trials: those of one case together."""
    by_case: dict[str, list[tuple[int, Group, Mapping[str, Any]]]] = {}
    for group in groups:
        root = next(span for span, _ in group[0] if "agent_eval.case_id" in span["attributes"])
        attributes = root["attributes"]
        number = attributes.get("agent_eval.trial")
        key = f"{attributes.get('agent_eval.run_id')}\0{attributes['agent_eval.case_id']}"
        by_case.setdefault(key, []).append((number if isinstance(number, int) else 0, group, attributes))
    conversations = []
    for trials in by_case.values():
        trials.sort(key=lambda trial: trial[0])
        traces: list[list[EventFields]] = [own_events(group[0], diagnostics) for _, group, _ in trials]
        verdicts = [_verdicts(group[1]) for _, group, _ in trials]
        conversations.append(
            Conversation(
                traces[0],
                id=text(trials[0][2].get("agent_eval.case_id")),
                case={"metadata": verdicts[0]} if verdicts[0] else {},
                trials=traces[1:],
                trial_metadata=verdicts[1:],
                records=list(dict.fromkeys(place for _, group, _ in trials for _, place in group[0])),
            )
        )
    return conversations

"""Traces of OpenTelemetry, OpenInference, MLflow and Langfuse, and what evaluations in them say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from agent_eval.importers.benchmarks import as_metadata, recorded
from agent_eval.importers.diagnostics import Diagnostics
from agent_eval.importers.events import items, mapping, text, text_or_none
from agent_eval.importers.format import Conversation, Format, Link, Match, Part
from agent_eval.importers.records import Record
from agent_eval.importers.span_records import (
    KIND,
    OUTPUTS,
    RUNS,
    SESSION,
    SpanFields,
    by_conventions,
    forget_spans,
    is_jaeger,
    is_mlflow,
    is_otlp,
    is_own_export,
    is_row,
    json_or_text,
    of_model,
    of_tool,
    rows_of,
    span_fields,
    spans_of,
)
from agent_eval.importers.span_tree import SpanTree

EVALUATION = "gen_ai.evaluation.result"

_SESSIONS = ("gen_ai.conversation.id", "session.id", "mlflow.trace.session", "langsmith.trace.session_id")
_SESSION_NAMES = frozenset(_SESSIONS)
_OPENINFERENCE = ("openinference.", "llm.", "input.value", "output.value")
_PASSED = {"pass": True, "passed": True, "true": True, "fail": False, "failed": False, "false": False}
_PASSED |= {"error": False}


class OpenTelemetry(Format):
    """Reads spans by the GenAI conventions: OTLP/JSON, and flat rows."""

    name = "otel"

    @override
    def detect(self, value: Any) -> Match | None:
        variant = _variant(value)
        if variant is None:
            return None
        if _is_openinference(value):
            return Match(0.5, variant)
        about = [each for span in spans_of(value)[:200] for each in (span, *span["events"])]
        is_own = any(name.startswith("gen_ai.") for each in about for name in each["attributes"])
        return Match(0.95 if is_own else 0.7, variant)

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
        sessions: dict[str | None, str] = {}
        for span, _ in spans:
            if (session := _session(span)) is not None:
                sessions.setdefault(span["trace"], session)
        for span, place in spans:
            key = sessions.get(span["trace"], span["trace"]) or place
            by_key.setdefault(key, []).append((span, place))
        conversations = [_conversation(_with_logs(group), infos, diagnostics) for group in by_key.values()]
        return [made for made in conversations if made is not None]


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
    if is_own_export(value):
        return None
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


def _session(span: SpanFields) -> str | None:
    attributes = span["attributes"]
    if _SESSION_NAMES.isdisjoint(attributes):
        return None
    return next((name for key in _SESSIONS if (name := text_or_none(attributes.get(key)))), None)


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
        score, label = (attributes.get(f"gen_ai.evaluation.score.{each}") for each in ("value", "label"))
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
        reason = f"has no answer and no tool call, only {names[:200]}"
        diagnostics.note(places[0] if places else "", "", reason)
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


_OBSERVED = {"GENERATION": "LLM", "TOOL": "TOOL", "RETRIEVER": "RETRIEVER", "AGENT": "AGENT"}

_TYPES = frozenset({*_OBSERVED, "SPAN", "EVENT", "CHAIN", "EVALUATOR", "EMBEDDING", "GUARDRAIL"})
"""Types of observations."""


class Langfuse(OpenTelemetry):
    """Reads traces of Langfuse, as its page downloads and its API returns them: observations, as spans."""

    name = "langfuse"

    @override
    def detect(self, value: Any) -> Match | None:
        observations = _observations(value)
        if not observations:
            return None
        known = all("type" in each and ("traceId" in each or "id" in each) for each in observations[:20])
        return Match(0.95, "trace") if known else None

    @override
    def prepare(self, record: Record, diagnostics: Diagnostics) -> tuple[Link, Any]:
        value = mapping(record.value)
        trace = mapping(value.get("trace", value))
        observations = _observations(value)
        generations = [each for each in observations if each.get("type") == "GENERATION"]
        outer = {text(each.get("parentObservationId")) for each in generations}
        steps = {str(each.get("name")) for each in observations}
        spans = [_span(each, trace, steps, is_outer=text(each.get("id")) in outer) for each in observations]
        ids = [f"trace:{name}" for name in sorted({span["trace"] for span in spans if span["trace"]})]
        session = text(trace.get("sessionId"))
        if session is not None:
            ids.append(f"session:{session}")
        return Link(ids=tuple(ids)), {"spans": spans, "info": {}}


def _observations(value: Any) -> list[Mapping[str, Any]]:
    """Return the observations; newer downloads have them twice, within the trace without their content."""
    fields = mapping(value)
    inner = mapping(fields.get("trace"))
    if {"id", "traceId", "startTime"} <= set(fields) and fields.get("type") in _TYPES:
        return [fields]
    listed = items(fields.get("observations")) or items(inner.get("observations"))
    return [mapping(each) for each in listed] if "projectId" in {**inner, **fields} or inner else []


def _with_roles(messages: Any, steps: Collection[str]) -> Any:
    """Give results the role of a tool where LangGraph's handler wrote the tool's name as role."""
    if not isinstance(messages, list):
        return messages
    roles = [str(mapping(message).get("role")) for message in messages]
    return [
        {**message, "role": "tool"} if role in steps else message
        for message, role in zip(messages, roles, strict=True)
    ]


def _span(
    each: Mapping[str, Any], trace: Mapping[str, Any], steps: Collection[str], *, is_outer: bool
) -> SpanFields:
    metadata = json_or_text(each.get("metadata"))
    own = mapping(mapping(metadata).get("attributes"))
    kind = _OBSERVED.get(str(each.get("type")))
    if kind is None and ("gen_ai.tool.name" in own or own.get("openinference.span.kind") == "TOOL"):
        kind = "TOOL"
    if kind == "LLM" and (is_outer or each.get("name") in RUNS):
        kind = "AGENT"  # what it states is the sum of the generations in it
    asked, answered = (_with_roles(json_or_text(each.get(side)), steps) for side in ("input", "output"))
    attributes: dict[str, Any] = {SESSION: text(trace.get("sessionId"))}
    if kind == "LLM":
        calls, answer = items(answered), answered
        if calls and all({"toolCallId", "toolName"} <= mapping(call).keys() for call in calls):
            answer = {"role": "assistant", "content": None, "toolCalls": calls}  # all that the AI SDK records
        usage = each.get("usageDetails") or each.get("usage")
        attributes |= of_model(asked, answer, usage, each.get("model"))
        attributes["llm.cost.total"] = mapping(each.get("costDetails")).get("total") or None
    elif kind in ("TOOL", "RETRIEVER"):
        named = by_conventions(str(each.get("name")), dict(own))
        name = text(named.get("gen_ai.tool.name")) or text(named.get("tool.name")) or str(each.get("name"))
        name = name.removeprefix("running tool: ").removeprefix("execute_tool ")
        attributes |= of_tool(name, asked["input"] if set(mapping(asked)) == {"input"} else asked, kind)
        attributes |= {"gen_ai.tool.call.id": named.get("gen_ai.tool.call.id"), OUTPUTS: answered}
    elif kind is not None:
        attributes[KIND] = kind
    failed = each.get("level") == "ERROR"
    return span_fields(
        each.get("name"),
        (each.get("traceId") or trace.get("id"), each.get("id"), each.get("parentObservationId")),
        (each.get("startTime"), each.get("endTime")),
        attributes,
        (text(each.get("statusMessage")) or answered or "error") if failed else None,
    )

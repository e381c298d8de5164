"""Runs of LangSmith, nested or as the flat list that its API exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_eval.importers.events import items, mapping, text
from agent_eval.importers.span_records import (
    AGENT_NAME,
    INPUTS,
    KIND,
    OUTPUTS,
    SESSION,
    SpanFields,
    model_attributes,
    span_fields,
)

_KINDS = {"llm": "LLM", "chat_model": "LLM", "tool": "TOOL", "retriever": "RETRIEVER"}
_THREADS = ("thread_id", "session_id", "conversation_id")


def is_run(value: Any) -> bool:
    """Whether a value is a run."""
    run = mapping(value)
    return isinstance(run.get("run_type"), str) and "id" in run and ("inputs" in run or "outputs" in run)


def runs_in(value: Any) -> list[Mapping[str, Any]]:
    """Return the runs of a request to the API (`post` and `patch`), of an answer of it, or of a webhook."""
    fields = mapping(value)
    if not {"post", "patch"} <= set(fields):
        runs = [mapping(run) for run in items(fields.get("runs"))]
        return runs if runs and all(map(is_run, runs)) else []
    posted = {str(run.get("id")): dict(run) for run in map(mapping, items(fields["post"]))}
    order = list(posted)
    for number, change in enumerate(map(mapping, items(fields["patch"]))):
        # The client of JavaScript names none: its changes are in the order of the runs.
        own = str(change.get("id") or (order[number] if number < len(order) else number))
        run = posted.setdefault(own, {"id": own})
        run |= {name: stated for name, stated in change.items() if stated not in (None, {}, [])}
    return list(posted.values()) if all(map(is_run, posted.values())) else []


def thread_of(run: Mapping[str, Any]) -> str | None:
    """Return the thread that a run belongs to, by its metadata."""
    metadata = mapping(mapping(run.get("extra")).get("metadata"))
    return next((text(metadata.get(name)) for name in _THREADS if text(metadata.get(name))), None)


def trace_of(run: Mapping[str, Any]) -> str | None:
    """Return the id of a run's trace."""
    return text(run.get("trace_id")) or text(run.get("id"))


def run_spans(runs: Sequence[Mapping[str, Any]]) -> list[SpanFields]:
    """Return runs, and those within them, as spans.

    Chains are steps of the framework that repeat what the runs within them record, so they count for nothing.
    """
    flat = [run for outer in runs for run in _flat(outer)]
    by_id = {text(run.get("id")): run for run in flat}
    return [_span(run, by_id) for run in flat]


def _flat(run: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield run
    for child in items(run.get("child_runs")):
        yield from _flat({"parent_run_id": run.get("id"), "trace_id": trace_of(run), **mapping(child)})


def _span(run: Mapping[str, Any], by_id: Mapping[Any, Mapping[str, Any]]) -> SpanFields:
    kind = _KINDS.get(str(run.get("run_type")))
    inputs, outputs = mapping(run.get("inputs")), run.get("outputs")
    attributes: dict[str, Any] = {SESSION: thread_of(run)}
    if kind == "LLM":
        attributes |= {KIND: kind, INPUTS: _request(run, by_id), OUTPUTS: outputs}
        settings = mapping(mapping(run.get("extra")).get("invocation_params"))
        model = settings.get("model") or settings.get("model_name") or inputs.get("model")
        stated = mapping(outputs).get("usage_metadata")
        attributes |= model_attributes(run if "prompt_tokens" in run else mapping(stated), model=model)
        attributes["llm.cost.total"] = _amount(run.get("total_cost"))
        metadata = mapping(mapping(run.get("extra")).get("metadata"))
        attributes[AGENT_NAME] = text(metadata.get("lc_agent_name"))
    elif kind is not None:
        arguments = inputs["input"] if set(inputs) == {"input"} else dict(inputs)
        answer = mapping(outputs)
        attributes |= {KIND: kind, "gen_ai.tool.name": run.get("name"), INPUTS: arguments}
        attributes[OUTPUTS] = answer["output"] if set(answer) == {"output"} else outputs
    ids = (trace_of(run), run.get("id"), run.get("parent_run_id"))
    return span_fields(
        run.get("name"), ids, (run.get("start_time"), run.get("end_time")), attributes, run.get("error")
    )


def _request(run: Mapping[str, Any], by_id: Mapping[Any, Mapping[str, Any]]) -> Any:
    """Return the messages that a model was asked; older clients record them as one text.

    Then those of the step around it are taken, which has them as they were.
    """
    inputs = mapping(run.get("inputs"))
    if "messages" in inputs:
        return dict(inputs)
    outer = by_id.get(text(run.get("parent_run_id")))
    while outer is not None:
        around = mapping(outer.get("inputs"))
        if isinstance(around.get("messages"), list):
            return {"messages": around["messages"]}
        outer = by_id.get(text(outer.get("parent_run_id")))
    prompts = items(inputs.get("prompts"))
    return prompts[0] if prompts else inputs.get("prompt", dict(inputs))


def _amount(value: Any) -> Any:
    """Read an amount of money, which the API writes as text."""
    try:
        return float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except ValueError:
        return None

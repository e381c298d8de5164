"""Rows of `run/index.jsonl`: the facts of a case that a comparison needs without its trajectory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from agent_eval.contracts import Case, CaseIndexRow, Event, TokenUsage, Trace, definition_digest, digest

ARGUMENTS_DIGEST_CHARACTERS = 16

# The first name present counts, so that an event that has the figure under two names counts once.
MODEL_ATTRIBUTES = ("gen_ai.response.model", "gen_ai.request.model", "model")
INPUT_TOKEN_ATTRIBUTES = ("gen_ai.usage.input_tokens", "input_tokens", "prompt_tokens")
OUTPUT_TOKEN_ATTRIBUTES = ("gen_ai.usage.output_tokens", "output_tokens", "completion_tokens")
COST_ATTRIBUTES = ("cost_usd",)

_LARGEST_COUNT = 2**53
"""Largest number that is accepted as a count; larger ones are not exact in JSON."""

_SUMMED = {
    "input_tokens": INPUT_TOKEN_ATTRIBUTES,
    "output_tokens": OUTPUT_TOKEN_ATTRIBUTES,
    "cost_usd": COST_ATTRIBUTES,
}
_READ = frozenset((*MODEL_ATTRIBUTES, *INPUT_TOKEN_ATTRIBUTES, *OUTPUT_TOKEN_ATTRIBUTES, *COST_ATTRIBUTES))


def index_row(raw: dict[str, Any], case: Case, trace: Trace) -> CaseIndexRow:
    """Build the row of one case.

    Tokens and cost are the sums over the events (their `usage` and `cost_usd`, or attributes), else the
    values in the case's `metadata` (`usage`, `cost_usd`). Latency is the sum of the events' `latency_ms`,
    else last minus first `ts`. Figures that are in neither are null.
    """
    output = trace.final_output
    usage = case.metadata.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    totals: dict[str, float | None] = dict.fromkeys(_SUMMED)
    models: dict[str, None] = {}
    for event in trace.events:
        attributes = event.attributes
        if event.model is not None or event.usage is not None or event.cost_usd is not None:
            attributes = _with_fields(event)
        elif _READ.isdisjoint(attributes):
            continue
        if (model := _model(attributes)) is not None:
            models[model] = None
        for name, names in _SUMMED.items():
            if (figure := _figure(attributes, names)) is not None:
                totals[name] = (totals[name] or 0) + figure
    if (model := _model(case.metadata)) is not None:
        models[model] = None
    cost = totals["cost_usd"]
    return {
        "case_id": case.case_id,
        "definition_digest": definition_digest(raw),
        "output_digest": None if output is None else digest(output),
        "calls": [[call.tool, digest(call.arguments)[:ARGUMENTS_DIGEST_CHARACTERS]] for call in trace.calls],
        "models": list(models),
        "input_tokens": _count(totals["input_tokens"], usage, INPUT_TOKEN_ATTRIBUTES),
        "output_tokens": _count(totals["output_tokens"], usage, OUTPUT_TOKEN_ATTRIBUTES),
        "cost_usd": _finite(_figure(case.metadata, COST_ATTRIBUTES) if cost is None else cost),
        "latency_ms": _latency(trace.events),
    }


def _with_fields(event: Event) -> dict[str, Any]:
    """Return the attributes of an event with its own fields, which count where both have a figure."""
    usage = event.usage or TokenUsage()
    fields = {
        MODEL_ATTRIBUTES[0]: event.model,
        INPUT_TOKEN_ATTRIBUTES[0]: usage.input_tokens,
        OUTPUT_TOKEN_ATTRIBUTES[0]: usage.output_tokens,
        COST_ATTRIBUTES[0]: event.cost_usd,
    }
    return {**event.attributes, **{name: value for name, value in fields.items() if value is not None}}


def _model(source: Mapping[str, Any]) -> str | None:
    for name in MODEL_ATTRIBUTES:
        model = source.get(name)
        if model and isinstance(model, str):
            return model
    return None


def _figure(source: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """Return the first of the named values that is a finite number from 0 up, and no bool."""
    for name in names:
        value: Any = source.get(name)
        if value is not None and type(value) in (int, float) and 0 <= value < math.inf:
            return value  # type: ignore[no-any-return]
    return None


def _count(total: float | None, usage: Mapping[str, Any], names: Sequence[str]) -> int | None:
    if total is None:
        total = _figure(usage, names)
    if total is None or total > _LARGEST_COUNT or total != int(total):
        return None
    return int(total)


def _latency(events: Sequence[Event]) -> float | None:
    spent = [
        latency for event in events if (latency := event.latency_ms) is not None and 0 <= latency < math.inf
    ]
    if spent:
        return _finite(sum(spent))
    stamps = [event.ts for event in events if event.ts]
    if len(stamps) < 2:
        return None
    try:
        between = datetime.fromisoformat(stamps[-1]) - datetime.fromisoformat(stamps[0])
    except (ValueError, TypeError, OverflowError):  # no date, or only one has an offset
        return None
    return between.total_seconds() * 1000 if between >= timedelta(0) else None


def _finite(total: float | None) -> float | None:
    if total is None or not math.isfinite(total):
        return None
    return float(total)

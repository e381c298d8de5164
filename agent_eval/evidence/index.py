"""Rows of `run/index.jsonl`: the facts of a case that a comparison needs without its trajectory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
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

_READ_TOGETHER = 64
"""Maximum number of attributes of an event for which `_readings` is cached."""


def index_row(raw: dict[str, Any], case: Case, trace: Trace) -> CaseIndexRow:
    """Build the row of one case.

    Tokens and cost are the sums over the events (their `usage` and `cost_usd`, or attributes), else the
    values in the case's `metadata` (`usage`, `cost_usd`). Latency is the sum of the events' `latency_ms`,
    else last minus first `ts`. Figures that are in neither are null.
    """
    output = trace.final_output
    usage = case.metadata.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    totals = _UsageTotals()
    for event in trace.events:
        attributes, model, usage_of_event, cost_usd = _what_it_spent(event.__dict__)
        if model is not None or usage_of_event is not None or cost_usd is not None:
            totals.add(_with_fields(event))
        elif attributes:
            totals.add(attributes)
    totals.add_model(case.metadata, MODEL_ATTRIBUTES)
    return {
        "case_id": case.case_id,
        "definition_digest": definition_digest(raw),
        "output_digest": None if output is None else digest(output),
        "calls": [[call.tool, digest(call.arguments)[:ARGUMENTS_DIGEST_CHARACTERS]] for call in trace.calls],
        "models": list(totals.models),
        "input_tokens": _count(totals.input_tokens, usage, INPUT_TOKEN_ATTRIBUTES),
        "output_tokens": _count(totals.output_tokens, usage, OUTPUT_TOKEN_ATTRIBUTES),
        "cost_usd": _cost(totals.cost_usd, case.metadata),
        "latency_ms": _latency(trace.events),
    }


# One call of C for four fields of every event of every run.
_what_it_spent = itemgetter("attributes", "model", "usage", "cost_usd")


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


class _UsageTotals:
    """Sums over the attributes of events; None without any figure. Models in order of appearance."""

    def __init__(self) -> None:
        self.models: dict[str, None] = {}
        self.input_tokens: float | None = None
        self.output_tokens: float | None = None
        self.cost_usd: float | None = None

    def add(self, attributes: Mapping[str, Any]) -> None:
        names = tuple(attributes)
        readings = _readings(names) if len(names) <= _READ_TOGETHER else _readings.__wrapped__(names)
        models, input_tokens, output_tokens, cost_usd = readings
        if models:
            self.add_model(attributes, models)
        if input_tokens:
            self.input_tokens = _plus(self.input_tokens, _figure(attributes, input_tokens))
        if output_tokens:
            self.output_tokens = _plus(self.output_tokens, _figure(attributes, output_tokens))
        if cost_usd:
            self.cost_usd = _plus(self.cost_usd, _figure(attributes, cost_usd))

    def add_model(self, source: Mapping[str, Any], names: Sequence[str]) -> None:
        for name in names:
            model = source.get(name)
            if model and isinstance(model, str):
                self.models[model] = None
                return


@lru_cache(maxsize=256)
def _readings(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Select the attributes that name model, tokens and cost; cached, as events share few sets of names."""
    wanted = (MODEL_ATTRIBUTES, INPUT_TOKEN_ATTRIBUTES, OUTPUT_TOKEN_ATTRIBUTES, COST_ATTRIBUTES)
    return [tuple(name for name in group if name in names) for group in wanted]


def _plus(total: float | None, figure: float | None) -> float | None:
    if figure is None:
        return total
    return figure if total is None else total + figure


def _figure(source: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """Return the first of the named values that is a finite number from 0 up, and no bool."""
    for name in names:
        value: Any = source.get(name)
        if type(value) in (int, float) and 0 <= value < math.inf:
            return value  # type: ignore[no-any-return]
    return None


def _count(total: float | None, usage: Mapping[str, Any], names: Sequence[str]) -> int | None:
    if total is None:
        total = _figure(usage, names)
    if total is None or total > _LARGEST_COUNT or total != int(total):
        return None
    return int(total)


def _cost(total: float | None, metadata: Mapping[str, Any]) -> float | None:
    if total is None:
        total = _figure(metadata, COST_ATTRIBUTES)
    return _finite(total)


def _latency(events: Sequence[Event]) -> float | None:
    spent = [
        latency for event in events if (latency := event.latency_ms) is not None and 0 <= latency < math.inf
    ]
    if spent:
        return _finite(sum(spent))
    stamps = [event.ts for event in events if event.ts]
    return _between(stamps[0], stamps[-1]) if len(stamps) > 1 else None


def _between(first: str, last: str) -> float | None:
    """Compute the milliseconds between two ISO 8601 times; None where they cannot be compared."""
    try:
        milliseconds = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds() * 1000
    except (ValueError, TypeError, OverflowError):  # no date, or only one has an offset
        return None
    return milliseconds if milliseconds >= 0 else None


def _finite(total: float | None) -> float | None:
    if total is None or not math.isfinite(total):
        return None
    return float(total)

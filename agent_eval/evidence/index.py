"""A case's row in `run/index.jsonl`: what comparing needs without reading the trajectory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from agent_eval.contracts import Case, CaseIndexRow, Event, Trace, definition_digest, digest

ARGUMENTS_DIGEST_CHARACTERS = 16

# The first name present counts, so that an event which says the same twice is counted once.
MODEL_ATTRIBUTES = ("gen_ai.response.model", "gen_ai.request.model", "model")
INPUT_TOKEN_ATTRIBUTES = ("gen_ai.usage.input_tokens", "input_tokens", "prompt_tokens")
OUTPUT_TOKEN_ATTRIBUTES = ("gen_ai.usage.output_tokens", "output_tokens", "completion_tokens")
COST_ATTRIBUTES = ("cost_usd",)

_LARGEST_COUNT = 2**53
"""Largest count taken for one; beyond it JSON numbers are no longer exact."""


_READ_TOGETHER = 64
"""Most attributes of an event for which the names to read are remembered."""


def index_row(raw: dict[str, Any], case: Case, trace: Trace) -> CaseIndexRow:
    """The row of one case.

    Tokens and cost are summed over the events, else taken from the case's `metadata` (`usage`,
    `cost_usd`). Latency is the sum of the events' `latency_ms`, else last minus first `ts`. What the
    trace does not say is null.

    Args:
        raw: The case as read from the suite.
        case: The same as a contract.
        trace: Its trace.
    """
    output = trace.final_output
    usage = case.metadata.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    spent = _Spent()
    for event in trace.events:
        if event.attributes:
            spent.add(event.attributes)
    spent.add_model(case.metadata, MODEL_ATTRIBUTES)
    return {
        "case_id": case.case_id,
        "definition_digest": definition_digest(raw),
        "output_digest": None if output is None else digest(output),
        "calls": [[call.tool, digest(call.arguments)[:ARGUMENTS_DIGEST_CHARACTERS]] for call in trace.calls],
        "models": list(spent.models),
        "input_tokens": _count(spent.input_tokens, usage, INPUT_TOKEN_ATTRIBUTES),
        "output_tokens": _count(spent.output_tokens, usage, OUTPUT_TOKEN_ATTRIBUTES),
        "cost_usd": _cost(spent.cost_usd, case.metadata),
        "latency_ms": _latency(trace.events),
    }


class _Spent:
    """Sums over the attributes of events; None until one has a figure. Models in order of appearance."""

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
    """Which of an event's attributes tell its model, tokens and cost; events share few sets of names."""
    wanted = (MODEL_ATTRIBUTES, INPUT_TOKEN_ATTRIBUTES, OUTPUT_TOKEN_ATTRIBUTES, COST_ATTRIBUTES)
    return [tuple(name for name in group if name in names) for group in wanted]


def _plus(total: float | None, figure: float | None) -> float | None:
    if figure is None:
        return total
    return figure if total is None else total + figure


def _figure(source: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """The first of the named values that is a number from 0 up, not a bool and not infinite."""
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
    """Milliseconds between two ISO 8601 instants; None where they do not say."""
    try:
        milliseconds = (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds() * 1000
    except (ValueError, TypeError, OverflowError):  # not a date; one with an offset, one without
        return None
    return milliseconds if milliseconds >= 0 else None


def _finite(total: float | None) -> float | None:
    if total is None or not math.isfinite(total):
        return None
    return float(total)

"""A case's row in `run/index.jsonl`: what comparing needs without reading the trajectory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
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
    attributes = [event.attributes for event in trace.events if event.attributes]
    usage = case.metadata.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return {
        "case_id": case.case_id,
        "definition_digest": definition_digest(raw),
        "output_digest": None if output is None else digest(output),
        "calls": [[call.tool, digest(call.arguments)[:ARGUMENTS_DIGEST_CHARACTERS]] for call in trace.calls],
        "models": _models([*attributes, case.metadata]),
        "input_tokens": _count(attributes, usage, INPUT_TOKEN_ATTRIBUTES),
        "output_tokens": _count(attributes, usage, OUTPUT_TOKEN_ATTRIBUTES),
        "cost_usd": _cost(attributes, case.metadata),
        "latency_ms": _latency(trace.events),
    }


def _models(sources: Iterable[Mapping[str, Any]]) -> list[str]:
    """Models in the order of their first appearance."""
    found: dict[str, None] = {}
    for source in sources:
        for name in MODEL_ATTRIBUTES:
            model = source.get(name)
            if isinstance(model, str) and model:
                found[model] = None
                break
    return list(found)


def _sum(sources: Iterable[Mapping[str, Any]], names: Sequence[str]) -> float | int | None:
    """Sum of the first usable figure of each source; None when no source has one."""
    figures = [figure for figure in (_figure(source, names) for source in sources) if figure is not None]
    return sum(figures) if figures else None


def _figure(source: Mapping[str, Any], names: Sequence[str]) -> float | int | None:
    for name in names:
        value = source.get(name)
        if value is not None and _is_figure(value):
            return value  # type: ignore[no-any-return]
    return None


def _is_figure(value: Any) -> bool:
    """Whether it is a number that can be summed: not a bool, not negative, not infinite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value >= 0 and math.isfinite(value)


def _count(
    attributes: Sequence[Mapping[str, Any]], usage: Mapping[str, Any], names: Sequence[str]
) -> int | None:
    total = _sum(attributes, names)
    if total is None:
        total = _figure(usage, names)
    if total is None or total > _LARGEST_COUNT or total != int(total):
        return None
    return int(total)


def _cost(attributes: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> float | None:
    total = _sum(attributes, COST_ATTRIBUTES)
    if total is None:
        total = _figure(metadata, COST_ATTRIBUTES)
    return _finite(total)


def _latency(events: Sequence[Event]) -> float | None:
    spent = [
        event.latency_ms for event in events if event.latency_ms is not None and _is_figure(event.latency_ms)
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


def _finite(total: float | int | None) -> float | None:
    if total is None or not math.isfinite(total):
        return None
    return float(total)

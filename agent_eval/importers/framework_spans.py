"""Runs of frameworks that record them as a tree: LangSmith, Agents SDK, CrewAI's events. Written as spans.

What is read of a span is in `span_tree.py`; here each kind of run gets the attributes that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.importers.events import mapping, seconds_of, text
from agent_eval.importers.span_facts import USAGE
from agent_eval.importers.span_records import SpanFields
from agent_eval.importers.usage import usage_in

INPUTS, OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
KIND, AGENT_NAME, SESSION = "openinference.span.kind", "gen_ai.agent.name", "session.id"


def span_fields(
    name: Any,
    ids: tuple[Any, Any, Any],
    times: tuple[Any, Any],
    attributes: Mapping[str, Any],
    error: Any = None,
) -> SpanFields:
    """Make a span of what a framework recorded.

    Args:
        ids: The ids of its trace, of itself, and of its parent.
        times: When it began and ended, in any form that `seconds_of` reads.
        attributes: By the names that spans have; null ones are left out.
        error: What went wrong; null if nothing did.
    """
    trace, span, parent = (text(identifier) for identifier in ids)
    start, end = (seconds_of(time) for time in times)
    words = mapping(error).get("message", error)
    return {
        "trace": None if trace is None else trace.replace("-", ""),
        "span": span,
        "parent": parent,
        "name": str(name or ""),
        "start": None if start is None else round(start * 1e6) * 1000,
        "end": None if end is None else round(end * 1e6) * 1000,
        "attributes": {key: value for key, value in attributes.items() if value is not None},
        "problem": None if words in (None, "") else str(words),
        "events": [],
    }


def model_attributes(usage: Any, *, model: Any = None, reason: Any = None) -> dict[str, Any]:
    """Write what an answer says of its model, by the names of the GenAI conventions."""
    return {
        "gen_ai.response.model": text(model),
        "gen_ai.response.finish_reasons": [reason] if text(reason) else None,
        USAGE: usage_in(usage),
    }

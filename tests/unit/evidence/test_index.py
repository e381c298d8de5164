"""A case's row in the index: what it knows, and what it leaves open."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import Case, CaseIndex, digest
from agent_eval.evidence.index import index_row
from agent_eval.storage.json import dumps
from tests.unit.evidence.test_writer import json_values


def row(trace: list[dict[str, Any]], **case: Any) -> dict[str, Any]:
    raw = {"case_id": "c", "trace": trace, **case}
    model = Case.model_validate(raw)
    return dict(index_row(raw, model, model.recorded))


def said(**fields: Any) -> dict[str, Any]:
    return {"idx": 0, "actor": "agent", "type": "message", **fields}


def spent(**attributes: Any) -> dict[str, Any]:
    return said(attributes=attributes)


def said_at(*times: Any) -> list[dict[str, Any]]:
    return [said(ts=time) for time in times]


UNKNOWN = {"input_tokens": None, "output_tokens": None, "cost_usd": None, "latency_ms": None}
NOTHING = digest(None)[:16]
CALLS = [
    {"idx": 0, "actor": "tool", "type": "tool_result", "tool": "orphan"},
    {"idx": 1, "actor": "agent", "type": "tool_call", "tool": "b", "call_id": "1", "input": {"x": 1}},
    {"idx": 2, "actor": "agent", "type": "tool_call", "tool": "a", "call_id": "2"},
    {"idx": 3, "actor": "tool", "type": "tool_result", "call_id": "2", "output": 1},
    {"idx": 4, "actor": "tool", "type": "tool_result", "call_id": "1", "output": 1},
]
MODELS = [
    spent(**{"gen_ai.request.model": "small", "gen_ai.response.model": "small-2026"}), spent(model="large"),
    spent(model="small-2026"), spent(model=3), spent(model=""),
]  # fmt: skip
IN_FIELDS = {"usage": {"input_tokens": 3, "output_tokens": 5}, "cost_usd": 0.25, "model": "small-2026"}
IN_BOTH = spent(**{"gen_ai.usage.input_tokens": 3, "cost_usd": 0.5, "model": "small"}) | IN_FIELDS
SUBMITTED = [{"idx": 0, "actor": "agent", "type": "tool_call", "tool": "submit", "input": {"total": 7}}]
OF_THE_CASE = {"usage": {"prompt_tokens": 9, "completion_tokens": 8}, "cost_usd": 0.5}
MANY = {f"name{number}": number for number in range(500)}
NAMES = {
    "gen_ai.usage.input_tokens": "gen_ai.usage.output_tokens", "input_tokens": "output_tokens",
    "prompt_tokens": "completion_tokens",
}  # fmt: skip
ROWS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], dict[str, Any]]] = {
    "an empty trace knows nothing": (
        *([], {}),
        {"case_id": "c", "definition_digest": digest({"case_id": "c"}), "output_digest": None, **UNKNOWN},
    ),
    "the output is digested": (
        *([said(output={"b": 1, "a": 2})], {}, {"output_digest": digest({"a": 2, "b": 1})}),
    ),
    "an answer by tool call is the output": (
        *(SUBMITTED, {"final_output_tool": "submit"}, {"output_digest": digest({"total": 7})}),
    ),
    "a tool call is no output unless it is named": (SUBMITTED, {}, {"output_digest": None}),
    "calls in call order, results that nothing called last": (
        *(CALLS, {}, {"calls": [["b", digest({"x": 1})[:16]], ["a", NOTHING], ["orphan", NOTHING]]}),
    ),
    "models in the order of their first appearance": (
        *(MODELS, {"metadata": {"model": "named"}}, {"models": ["small-2026", "large", "named"]}),
    ),
    **{
        f"tokens are summed as {first}": (
            [spent(**{first: 3, second: 5}), spent(**{first: 4}), spent()],
            *({}, {"input_tokens": 7, "output_tokens": 5}),
        )
        for first, second in NAMES.items()
    },
    "said twice, counted once": ([spent(input_tokens=3, prompt_tokens=3)], {}, {"input_tokens": 3}),
    "fields of events are summed and win over their attributes": (
        [IN_BOTH, spent() | {"usage": IN_FIELDS["usage"]}],
        *({}, {"input_tokens": 6, "output_tokens": 10, "cost_usd": 0.25, "models": ["small-2026"]}),
    ),
    "what the case says counts only where events say nothing": (
        [spent(input_tokens=1, cost_usd=0.25)],
        *({"metadata": OF_THE_CASE}, {"input_tokens": 1, "output_tokens": 8, "cost_usd": 0.25}),
    ),
    "what the case says of no event": (
        *([], {"metadata": OF_THE_CASE}, {"input_tokens": 9, "output_tokens": 8, "cost_usd": 0.5}),
    ),
    "sums beyond what JSON holds are unknown": (
        *([spent(cost_usd=1e308), spent(cost_usd=1e308)], {}, {"cost_usd": None}),
    ),
    "latency is the sum of the events": (
        *([said(latency_ms=3), said(latency_ms=1.5), said(), said(latency_ms=-4)], {}, {"latency_ms": 4.5}),
    ),
    **{
        f"latency else is the time from {first} to {last}": (
            *(said_at(first, None, "garbage", last), {}, {"latency_ms": milliseconds}),
        )
        for first, last, milliseconds in (
            ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.5+00:00", 1500.0),
            ("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z", None),
            ("2026-01-01T00:00:00", "2026-01-01T00:00:01Z", None),
            ("yesterday", "today", None),
        )
    },
    "no time from one moment": (said_at("2026-01-01T00:00:00Z"), {}, {"latency_ms": None}),
    "very many attributes": ([spent(**MANY, input_tokens=3)], {}, {"input_tokens": 3}),
    **{
        f"{figure!r} is no count of tokens": (
            [spent(input_tokens=figure)],
            {"metadata": {"usage": [figure], "cost_usd": "much"}},
            {"input_tokens": None, "cost_usd": None},
        )
        for figure in (True, -1, "7", None, 2**60, 1.5, [], float("inf"), float("nan"))
    },
}
"""By what is so: events, fields of the case, and of the row."""


@pytest.mark.parametrize("what", ROWS)
def test_row_of_a_case(what: str) -> None:
    trace, case, expected = ROWS[what]
    found = row(trace, **case)
    assert {name: found[name] for name in expected} == expected
    assert trace or (found["calls"], found["models"]) == ([], [])


def test_definition_is_what_was_asked_not_what_was_done() -> None:
    same = row([said(output="a")], input="x")["definition_digest"]
    assert row([said(output="b")], input="x")["definition_digest"] == same
    assert row([said(output="a")], input="y")["definition_digest"] != same


_names = st.sampled_from(["model", "usage", "input_tokens", "cost_usd", "x"])
_json = json_values(_names)
_events = st.fixed_dictionaries(
    {
        "idx": st.integers(0, 9), "actor": st.sampled_from(["agent", "tool"]),
        "type": st.sampled_from(["tool_call", "tool_result", "message"]),
    },
    optional={
        "tool": st.sampled_from(["a", "b", None]), "call_id": st.sampled_from(["1", None]), "input": _json,
        "output": _json, "attributes": st.dictionaries(_names, _json),
        "latency_ms": st.none() | st.integers(-5, 2**63) | st.floats(allow_nan=False, allow_infinity=False),
        "ts": st.none() | st.text(max_size=5) | st.datetimes().map(lambda moment: moment.isoformat()),
    },
)  # fmt: skip


@given(st.lists(_events, max_size=6), st.dictionaries(st.sampled_from(["usage", "model", "cost_usd"]), _json))
def test_every_case_has_a_valid_row(trace: list[dict[str, Any]], metadata: dict[str, Any]) -> None:
    found = row(trace, metadata=metadata)
    assert CaseIndex.model_validate(found).to_json() == found
    assert dumps(found)

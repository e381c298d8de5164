"""A case's row in the index: what it knows, and what it leaves open."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import Case, CaseIndex, digest
from agent_eval.evidence.index import index_row
from agent_eval.storage.json import dumps


def row(trace: list[dict[str, Any]], **case: Any) -> dict[str, Any]:
    raw = {"case_id": "c", "trace": trace, **case}
    model = Case.model_validate(raw)
    return dict(index_row(raw, model, model.recorded))


def said(**fields: Any) -> dict[str, Any]:
    return {"idx": 0, "actor": "agent", "type": "message", **fields}


def spent(**attributes: Any) -> dict[str, Any]:
    return said(attributes=attributes)


def test_empty_trace_knows_nothing() -> None:
    assert row([]) == {
        "case_id": "c", "definition_digest": digest({"case_id": "c"}), "output_digest": None, "calls": [],
        "models": [], "input_tokens": None, "output_tokens": None, "cost_usd": None, "latency_ms": None,
    }  # fmt: skip


def test_definition_is_what_was_asked_not_what_was_done() -> None:
    same = row([said(output="a")], input="x")["definition_digest"]
    assert row([said(output="b")], input="x")["definition_digest"] == same
    assert row([said(output="a")], input="y")["definition_digest"] != same


def test_output_is_digested() -> None:
    assert row([said(output={"b": 1, "a": 2})])["output_digest"] == digest({"a": 2, "b": 1})


def test_calls_are_listed_in_call_order_and_results_that_nothing_called_last() -> None:
    trace = [
        {"idx": 0, "actor": "tool", "type": "tool_result", "tool": "orphan"},
        {"idx": 1, "actor": "agent", "type": "tool_call", "tool": "b", "call_id": "1", "input": {"x": 1}},
        {"idx": 2, "actor": "agent", "type": "tool_call", "tool": "a", "call_id": "2"},
        {"idx": 3, "actor": "tool", "type": "tool_result", "call_id": "2", "output": 1},
        {"idx": 4, "actor": "tool", "type": "tool_result", "call_id": "1", "output": 1},
    ]
    nothing = digest(None)[:16]
    assert row(trace)["calls"] == [["b", digest({"x": 1})[:16]], ["a", nothing], ["orphan", nothing]]


def test_models_stand_in_the_order_of_their_first_appearance() -> None:
    trace = [
        spent(**{"gen_ai.request.model": "small", "gen_ai.response.model": "small-2026"}),
        spent(model="large"),
        spent(model="small-2026"),
        spent(model=3),
        spent(model=""),
    ]
    assert row(trace, metadata={"model": "named"})["models"] == ["small-2026", "large", "named"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
        ("input_tokens", "output_tokens"),
        ("prompt_tokens", "completion_tokens"),
    ],
)
def test_tokens_are_summed_under_every_name(first: str, second: str) -> None:
    found = row([spent(**{first: 3, second: 5}), spent(**{first: 4}), spent()])
    assert (found["input_tokens"], found["output_tokens"]) == (7, 5)
    assert row([spent(**{first: 3, "prompt_tokens": 3})])["input_tokens"] == 3, "said twice, counted once"


def test_fields_of_events_are_summed_and_win_over_their_attributes() -> None:
    usage = {"input_tokens": 3, "output_tokens": 5}
    both = spent(**{"gen_ai.usage.input_tokens": 3, "cost_usd": 0.5, "model": "small"})
    counted = row(
        [{**both, "usage": usage, "cost_usd": 0.25, "model": "small-2026"}, {**spent(), "usage": usage}]
    )
    assert (counted["input_tokens"], counted["output_tokens"], counted["cost_usd"]) == (6, 10, 0.25)
    assert counted["models"] == ["small-2026"]


def test_an_answer_by_tool_call_is_the_output_of_the_row() -> None:
    trace = [{"idx": 0, "actor": "agent", "type": "tool_call", "tool": "submit", "input": {"total": 7}}]
    assert row(trace)["output_digest"] is None
    assert row(trace, final_output_tool="submit")["output_digest"] == digest({"total": 7})


def test_usage_and_cost_of_the_case_count_only_where_events_say_nothing() -> None:
    metadata = {"usage": {"prompt_tokens": 9, "completion_tokens": 8}, "cost_usd": 0.5}
    known = row([spent(input_tokens=1, cost_usd=0.25)], metadata=metadata)
    assert (known["input_tokens"], known["output_tokens"], known["cost_usd"]) == (1, 8, 0.25)
    unknown = row([], metadata=metadata)
    assert (unknown["input_tokens"], unknown["output_tokens"], unknown["cost_usd"]) == (9, 8, 0.5)


@pytest.mark.parametrize(
    "figure", [True, -1, "7", None, 2**60, 1.5, [], float("inf"), float("nan")], ids=repr
)
def test_what_is_no_count_of_tokens_is_unknown(figure: Any) -> None:
    found = row([spent(input_tokens=figure)], metadata={"usage": [figure], "cost_usd": "much"})
    assert (found["input_tokens"], found["cost_usd"]) == (None, None)


def test_sums_beyond_what_json_holds_are_unknown() -> None:
    assert row([spent(cost_usd=1e308), spent(cost_usd=1e308)])["cost_usd"] is None


def test_latency_is_the_sum_of_the_events() -> None:
    trace = [said(latency_ms=3), said(latency_ms=1.5), said(), said(latency_ms=-4)]
    assert row(trace)["latency_ms"] == 4.5


@pytest.mark.parametrize(
    ("first", "last", "milliseconds"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.5+00:00", 1500.0),
        ("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z", None),
        ("2026-01-01T00:00:00", "2026-01-01T00:00:01Z", None),
        ("yesterday", "today", None),
    ],
)
def test_latency_else_is_from_first_to_last(first: str, last: str, milliseconds: float | None) -> None:
    trace = [said(ts=first), said(ts=None), said(ts="garbage"), said(ts=last)]
    assert row(trace)["latency_ms"] == milliseconds
    assert row(trace[:1])["latency_ms"] is None


def test_events_with_very_many_attributes_are_read_too() -> None:
    many = {f"name{number}": number for number in range(500)}
    assert row([spent(**many, input_tokens=3)])["input_tokens"] == 3


_floats = st.floats(allow_nan=False, allow_infinity=False)
_text = st.text(st.characters(exclude_categories=["Cs"]))
_names = st.sampled_from(["model", "usage", "input_tokens", "cost_usd", "x"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | _floats | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)
_events = st.fixed_dictionaries(
    {
        "idx": st.integers(0, 9),
        "actor": st.sampled_from(["agent", "tool"]),
        "type": st.sampled_from(["tool_call", "tool_result", "message"]),
    },
    optional={
        "tool": st.sampled_from(["a", "b", None]), "call_id": st.sampled_from(["1", None]), "input": _json,
        "output": _json, "attributes": st.dictionaries(_names, _json),
        "latency_ms": st.none() | st.integers(-5, 2**63) | _floats,
        "ts": st.none() | st.text(max_size=5) | st.datetimes().map(lambda moment: moment.isoformat()),
    },
)  # fmt: skip


@given(st.lists(_events, max_size=6), st.dictionaries(st.sampled_from(["usage", "model", "cost_usd"]), _json))
def test_every_case_has_a_valid_row(trace: list[dict[str, Any]], metadata: dict[str, Any]) -> None:
    found = row(trace, metadata=metadata)
    assert CaseIndex.model_validate(found).to_json() == found
    assert dumps(found)

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.judges.builtin.cost_budget import Usage, published_price
from tests.unit.judges.traces import Events, Row, asks, judge, says

GPT = {"gen_ai.response.model": "gpt-4o-2024-08-06"}
UNKNOWN, EXCEEDED = "error missing_output", "failed budget_exceeded"
UNPRICED, IN_PART = "there is no price for", "does not record it for every answer"
PRICES = {"input_cost_per_1k": 0.1, "output_cost_per_1k": 0.1}
LOW_PRICES = {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.001}


def answer(input_tokens: Any = None, output_tokens: Any = None, **attributes: Any) -> Events:
    figures = {"gen_ai.usage.input_tokens": input_tokens, "gen_ai.usage.output_tokens": output_tokens}
    known = {name: value for name, value in figures.items() if value is not None}
    return says("ok", attributes={**known, **attributes})


def row(
    title: str,
    gives: str,
    *events: Events,
    has: str = "",
    evidence: Any = None,
    of_case: Any = None,
    **limits: Any,
) -> Row:
    """What the judge gives on answers; `of_case` is the case's metadata."""
    fields: dict[str, Any] = {"config": limits, "metadata": of_case or {}}
    return Row(title, gives, *events, has=has, evidence=evidence, **fields)


SAME, SPAN = {"gen_ai.response.id": "r1"}, {"span_id": "00000000000000a1"}
TWICE = [says("a", attributes={"input_tokens": 5, "output_tokens": 5}, **SPAN)] * 2
USED = {"input_tokens": 50, "output_tokens": 5}

ROWS = [
    row("no budget", "skipped", answer(1, 1)),
    row("prices alone are no budget", "skipped", answer(1, 1), **PRICES),
    row("tokens are summed", "passed", answer(10, 1), answer(20, 3), has="tokens: events",
        evidence={"total_tokens": 34}, max_input_tokens=30, max_output_tokens=4, max_total_tokens=34),
    *(
        row(f"{name} too many", f"{EXCEEDED}: {name} {used} exceeds 29 (tokens: events)", answer(30, 40),
            **{f"max_{name}": 29})
        for name, used in (("input_tokens", 30), ("output_tokens", 40), ("total_tokens", 70))
    ),
    row("a recorded cost is used as it is", f"{EXCEEDED}: cost_usd 0.6 exceeds 0.5 (cost: recorded)",
        answer(cost_usd=0.4), answer(cost_usd=0.2), max_cost_usd=0.5),
    row("tokens are priced where no cost is recorded", "passed", answer(1_000_000, 0, **GPT),
        max_cost_usd=100, evidence={"cost_usd": pytest.approx(2.5), "cost_from": "priced from tokens"}),
    row("configured prices replace published ones", "passed", answer(1000, 500, **GPT), max_cost_usd=100,
        input_cost_per_1k=1, output_cost_per_1k=2, evidence={"cost_usd": pytest.approx(2)}),
    row("the model of the metadata", "passed", answer(1000, 10), max_cost_usd=1,
        evidence={"cost_usd": pytest.approx(0.0026)}, of_case={"model": "openai/gpt-4o"}),
    *(
        row(f"an unknown cost is never zero: {model}", UNKNOWN, answer(1000, 10, **model), max_cost_usd=1,
            has=UNPRICED, evidence={"cost_usd": None})
        for model in ({}, {"model": "a-model-nobody-sells"}, {"model": "nobody/gpt"})
    ),
    *(
        row(f"no usage at all: {name}", UNKNOWN, asks("?"), says("ok"), has="the trace records no usage",
            **{name: 1})
        for name in ("max_cost_usd", "max_total_tokens")
    ),
    row("half of a sum is no sum", UNKNOWN, answer(10), max_total_tokens=100),
    row("a cost known in part can already be too much",
        f"{EXCEEDED}: cost_usd 2 exceeds 1 (cost: known in part)", answer(cost_usd=2.0),
        answer(10, 10, model="unknown"), max_cost_usd=1),
    row("usage repeated for one answer counts once", "passed", answer(10, 1, **SAME), answer(10, 5, **SAME),
        answer(10, 3, **SAME), answer(7, 7), max_total_tokens=1000,
        evidence={"input_tokens": 17, "output_tokens": 12}),
    row("and for one span", "passed", *TWICE, max_total_tokens=1000, evidence={"total_tokens": 10}),
    row("totals of the metadata win where larger", "passed", answer(20, 8), max_total_tokens=1000,
        of_case={"usage": USED},
        evidence={"input_tokens": 50, "output_tokens": 8, "tokens_from": "events and metadata"}),
    row("totals of the metadata alone", "passed", says(), max_total_tokens=1000,
        of_case={"token_usage": USED}, evidence={"total_tokens": 55}),
    row("a cost of the metadata is of the whole run", "passed", answer(10, 10), max_cost_usd=1,
        of_case={"cost_usd": 0.5}, evidence={"cost_from": "metadata"}),
    row("unless the answers cost more", "passed", answer(cost_usd=0.9), max_cost_usd=1,
        of_case={"cost_usd": 0.5}, evidence={"cost_usd": 0.9}),
    *(
        row(f"no count: {value!r}", UNKNOWN, says(attributes={"input_tokens": value, "output_tokens": 1}),
            max_input_tokens=10)
        for value in (-1, float("inf"), float("nan"), "100", True, None, [1])
    ),
    row("counts that contradict each other have no price", UNKNOWN,
        answer(10, 0, cache_read_input_tokens=1000, **GPT), max_cost_usd=9),
    *(
        row(f"half of the counts are no cost: {counted} {limit} {prices}", gives, answer(*counted, **GPT),
            has=has, max_cost_usd=limit, **prices)
        for counted in ((1000, None), (None, 1000))
        for prices in ({}, LOW_PRICES)
        for limit, gives, has in ((1, UNKNOWN, IN_PART), (1e-6, EXCEEDED, ""))
    ),
    *(
        row(f"a count that one answer lacks has no total: {name} {limit}", gives, answer(10, 10), answer(10),
            has=has, **{f"max_{name}": limit})
        for name, limit, gives, has in (
            ("output_tokens", 100, UNKNOWN, IN_PART), ("output_tokens", 9, EXCEEDED, ""),
            ("input_tokens", 20, "passed", ""),
        )
    ),
    row("costs are added as decimals", "passed: cost_usd 0.3 of 0.3 (cost: recorded)",
        *[answer(cost_usd=0.10)] * 3, max_cost_usd=0.30),
    row("prices too", "passed", answer(1000, 2000), max_cost_usd=0.3, **PRICES),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("cost_budget")


def test_a_budget_that_is_exceeded_is_a_warning_sign() -> None:
    assert not judge("cost_budget", answer(30, 40), config={"max_input_tokens": 29}).hard


def test_prices_are_those_of_the_day_and_need_no_clock() -> None:
    usage = Usage({"input_tokens": 1000, "output_tokens": 100}, model="gpt-4o")
    assert published_price(usage) == published_price(usage)
    for at in ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00", "once"):
        usage.at = at
        assert published_price(usage) == pytest.approx(0.0035)


def test_cached_tokens_are_cheaper() -> None:
    answers = answer(1000, 0, cache_read_input_tokens=1000, **GPT), answer(1000, 0, **GPT)
    cached, plain = (judge("cost_budget", each, config={"max_cost_usd": 9}) for each in answers)
    assert cached.evidence["cost_usd"] < plain.evidence["cost_usd"]

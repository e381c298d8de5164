from __future__ import annotations

from typing import Any

import pytest

from agent_eval.judges.builtin.cost_budget import Usage, published_price
from tests.unit.judges.traces import asks, findings, judge, says

GPT = {"gen_ai.response.model": "gpt-4o-2024-08-06"}


def answer(input_tokens: Any = None, output_tokens: Any = None, **attributes: Any) -> Any:
    figures = {"gen_ai.usage.input_tokens": input_tokens, "gen_ai.usage.output_tokens": output_tokens}
    known = {name: value for name, value in figures.items() if value is not None}
    return says("ok", attributes={**known, **attributes})


def test_without_a_budget_there_is_nothing_to_judge() -> None:
    assert findings(judge("cost_budget", answer(1, 1))) == ("skipped", None)
    prices = {"input_cost_per_1k": 1.0, "output_cost_per_1k": 1.0}
    assert findings(judge("cost_budget", answer(1, 1), config=prices)) == ("skipped", None)


def test_tokens_are_summed_and_held_against_their_limits() -> None:
    config = {"max_input_tokens": 30, "max_output_tokens": 4, "max_total_tokens": 34}
    verdict = judge("cost_budget", answer(10, 1), answer(20, 3), config=config)
    assert findings(verdict) == ("passed", None)
    assert verdict.evidence["total_tokens"] == 34
    assert "tokens: events" in verdict.reason


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("max_input_tokens", "input_tokens 30 exceeds 29 (tokens: events)"),
        ("max_output_tokens", "output_tokens 40 exceeds 29 (tokens: events)"),
        ("max_total_tokens", "total_tokens 70 exceeds 29 (tokens: events)"),
    ],
)
def test_each_token_limit_is_named_when_it_breaks(key: str, words: str) -> None:
    verdict = judge("cost_budget", answer(30, 40), config={key: 29})
    assert findings(verdict) == ("failed", "budget_exceeded")
    assert verdict.reason == words
    assert not verdict.hard


def test_a_recorded_cost_is_used_as_it_is() -> None:
    verdict = judge("cost_budget", answer(cost_usd=0.4), answer(cost_usd=0.2), config={"max_cost_usd": 0.5})
    assert findings(verdict) == ("failed", "budget_exceeded")
    assert verdict.reason == "cost_usd 0.6 exceeds 0.5 (cost: recorded)"


def test_tokens_are_priced_when_no_cost_is_recorded_and_the_source_is_said() -> None:
    verdict = judge("cost_budget", answer(1_000_000, 0, **GPT), config={"max_cost_usd": 100})
    assert verdict.passed
    assert verdict.evidence["cost_usd"] == pytest.approx(2.5)
    assert verdict.evidence["cost_from"] == "priced from tokens"


def test_configured_prices_replace_published_ones() -> None:
    config = {"max_cost_usd": 100, "input_cost_per_1k": 1, "output_cost_per_1k": 2}
    verdict = judge("cost_budget", answer(1000, 500, **GPT), config=config)
    assert verdict.evidence["cost_usd"] == pytest.approx(2)


def test_the_model_may_stand_in_the_metadata() -> None:
    verdict = judge(
        "cost_budget", answer(1000, 10), config={"max_cost_usd": 1}, metadata={"model": "openai/gpt-4o"}
    )
    assert verdict.passed
    assert verdict.evidence["cost_usd"] > 0


@pytest.mark.parametrize("model", [{}, {"model": "a-model-nobody-sells"}, {"model": "nobody/gpt"}])
def test_an_unknown_cost_is_an_error_and_never_zero(model: dict[str, str]) -> None:
    verdict = judge("cost_budget", answer(1000, 10, **model), config={"max_cost_usd": 1})
    assert findings(verdict) == ("error", "missing_output")
    assert "there is no price for" in verdict.reason
    assert verdict.evidence["cost_usd"] is None


def test_no_usage_at_all_is_an_error() -> None:
    for config in ({"max_cost_usd": 1}, {"max_total_tokens": 1}):
        verdict = judge("cost_budget", asks("?"), says("ok"), config=config)
        assert findings(verdict) == ("error", "missing_output")
        assert "the trace records no usage" in verdict.reason


def test_half_of_a_sum_is_no_sum() -> None:
    verdict = judge("cost_budget", answer(10), config={"max_total_tokens": 100})
    assert findings(verdict) == ("error", "missing_output")


def test_a_cost_known_in_part_can_already_be_too_much() -> None:
    verdict = judge(
        "cost_budget", answer(cost_usd=2.0), answer(10, 10, model="unknown"), config={"max_cost_usd": 1}
    )
    assert findings(verdict) == ("failed", "budget_exceeded")
    assert verdict.reason == "cost_usd 2 exceeds 1 (cost: known in part)"


def test_usage_repeated_for_one_answer_counts_once() -> None:
    same = {"gen_ai.response.id": "r1"}
    config = {"max_total_tokens": 1000}
    verdict = judge("cost_budget", answer(10, 1, **same), answer(10, 5, **same), answer(7, 7), config=config)
    assert (verdict.evidence["input_tokens"], verdict.evidence["output_tokens"]) == (17, 12)
    span = "00000000000000a1"
    twice = says("a", span_id=span, attributes={"input_tokens": 5, "output_tokens": 5})
    assert judge("cost_budget", twice, twice, config=config).evidence["total_tokens"] == 10


def test_totals_in_the_metadata_are_not_added_but_win_where_larger() -> None:
    config = {"max_total_tokens": 1000}
    usage = {"usage": {"input_tokens": 50, "output_tokens": 5}}
    verdict = judge("cost_budget", answer(20, 8), config=config, metadata=usage)
    assert (verdict.evidence["input_tokens"], verdict.evidence["output_tokens"]) == (50, 8)
    assert verdict.evidence["tokens_from"] == "events and metadata"
    verdict = judge("cost_budget", says(), config=config, metadata={"token_usage": usage["usage"]})
    assert verdict.evidence["total_tokens"] == 55


def test_a_cost_in_the_metadata_stands_for_the_whole_run() -> None:
    config = {"max_cost_usd": 1}
    verdict = judge("cost_budget", answer(10, 10), config=config, metadata={"cost_usd": 0.5})
    assert verdict.passed
    assert verdict.evidence["cost_from"] == "metadata"
    verdict = judge("cost_budget", answer(cost_usd=0.9), config=config, metadata={"cost_usd": 0.5})
    assert verdict.evidence["cost_usd"] == 0.9


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan"), "100", True, None, [1]])
def test_what_is_no_count_is_not_counted(value: Any) -> None:
    event = says(attributes={"input_tokens": value, "output_tokens": 1})
    verdict = judge("cost_budget", event, config={"max_input_tokens": 10})
    assert findings(verdict) == ("error", "missing_output")


def test_prices_are_those_of_the_day_and_need_no_clock() -> None:
    usage = Usage({"input_tokens": 1000, "output_tokens": 100}, model="gpt-4o")
    assert published_price(usage) == published_price(usage)
    for at in ("2025-01-01T00:00:00Z", "2025-01-01T00:00:00", "once"):
        usage.at = at
        assert published_price(usage) == pytest.approx(0.0035)


def test_cached_tokens_are_cheaper() -> None:
    cached = answer(1000, 0, cache_read_input_tokens=1000, **GPT)
    plain = answer(1000, 0, **GPT)
    costs = [
        judge("cost_budget", a, config={"max_cost_usd": 9}).evidence["cost_usd"] for a in (cached, plain)
    ]
    assert costs[0] < costs[1]


def test_counts_that_contradict_each_other_have_no_price() -> None:
    verdict = judge(
        "cost_budget", answer(10, 0, cache_read_input_tokens=1000, **GPT), config={"max_cost_usd": 9}
    )
    assert findings(verdict) == ("error", "missing_output")


@pytest.mark.parametrize("config", [{}, {"input_cost_per_1k": 0.001, "output_cost_per_1k": 0.001}])
@pytest.mark.parametrize("counted", [(1000, None), (None, 1000)])
def test_half_of_the_token_counts_are_no_cost(counted: tuple[Any, Any], config: dict[str, Any]) -> None:
    verdict = judge("cost_budget", answer(*counted, **GPT), config={"max_cost_usd": 1, **config})
    assert findings(verdict) == ("error", "missing_output")
    assert "does not record it for every answer" in verdict.reason
    too_much = judge("cost_budget", answer(*counted, **GPT), config={"max_cost_usd": 1e-6, **config})
    assert findings(too_much) == ("failed", "budget_exceeded")


def test_a_count_that_one_answer_lacks_has_no_total() -> None:
    events = [answer(10, 10), answer(10, None)]
    verdict = judge("cost_budget", *events, config={"max_output_tokens": 100})
    assert findings(verdict) == ("error", "missing_output")
    assert "does not record it for every answer" in verdict.reason
    assert not judge("cost_budget", *events, config={"max_output_tokens": 9}).passed
    assert judge("cost_budget", *events, config={"max_input_tokens": 20}).passed


def test_costs_are_added_as_decimals() -> None:
    verdict = judge("cost_budget", *[answer(cost_usd=0.10)] * 3, config={"max_cost_usd": 0.30})
    assert verdict.reason == "cost_usd 0.3 of 0.3 (cost: recorded)"
    prices = {"input_cost_per_1k": 0.1, "output_cost_per_1k": 0.1}
    priced = judge("cost_budget", answer(1000, 2000), config={"max_cost_usd": 0.3, **prices})
    assert priced.passed

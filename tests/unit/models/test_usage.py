"""What agents and models report of their answers, in the words of every service."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.models.usage import facts_of, price_of, usage_of


@pytest.mark.parametrize(
    ("reported", "read"),
    [
        (
            {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 80}},
            {"input_tokens": 100, "cached_tokens": 80},
        ),
        (
            {"completion_tokens": 50, "completion_tokens_details": {"reasoning_tokens": 40}},
            {"output_tokens": 50, "reasoning_tokens": 40},
        ),
        (
            {"input_tokens": 3, "cache_read_input_tokens": 11, "cache_creation_input_tokens": 4},
            {"input_tokens": 3, "cached_tokens": 11, "cache_write_tokens": 4},
        ),
        (
            {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 2}},
            {"output_tokens": 9, "reasoning_tokens": 2},
        ),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, {"input_tokens": 9, "cached_tokens": 4}),
        ({"input_tokens": 0, "cached_tokens": 0}, {"input_tokens": 0}),
        ({"input_tokens": "12", "output_tokens": -1}, {"input_tokens": 12}),
    ],
)
def test_usage_is_read_by_the_names_of_every_service(reported: Any, read: dict[str, int]) -> None:
    usage = usage_of(reported)
    assert usage is not None
    assert usage.to_json() == read


@pytest.mark.parametrize("reported", [None, 3, "many", {}, {"input_tokens": {}}, {"cached_tokens": 0}])
def test_usage_that_says_nothing_is_none(reported: Any) -> None:
    assert usage_of(reported) is None


def test_an_answer_says_who_gave_it_and_why_it_ended() -> None:
    answer = {"stop_reason": "length", "block_reason": "moderation", "agent_name": "triage"}
    assert facts_of({**answer, "model": ""}).event_fields() == answer
    assert facts_of({"finish_reason": "stop"}).stop_reason == "stop"


@pytest.mark.parametrize("answer", [{"cost_usd": 0.5}, {"response_cost": "0.5"}, {"usage": {"cost": 0.5}}])
def test_a_cost_is_read_wherever_a_gateway_reports_it(answer: Any) -> None:
    assert facts_of(answer).cost_usd == 0.5


def test_a_model_has_its_price_under_the_names_of_its_resellers() -> None:
    tokens = {"input_tokens": 1000, "output_tokens": 100}
    bedrock = price_of("us.anthropic.claude-sonnet-4-5-20250929-v1:0", tokens)
    assert bedrock == price_of("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", tokens)
    assert bedrock is not None
    assert price_of("openrouter/anthropic/claude-sonnet-4.5", tokens) == price_of("claude-sonnet-4-5", tokens)
    assert price_of("nobody.knows-this", tokens) is None

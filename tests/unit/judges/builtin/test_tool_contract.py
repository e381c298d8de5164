from __future__ import annotations

from typing import Any

import pytest

from agent_eval.errors import InvalidInput
from tests.unit.judges.traces import calls, findings, judge, says, uses

WEATHER = {"search_weather": {"required_args": ["city"], "forbidden_args": ["password"]}}


def test_without_contracts_there_is_nothing_to_judge() -> None:
    assert findings(judge("tool_contract", uses("a"))) == ("skipped", None)


def test_kept_contracts_pass() -> None:
    verdict = judge("tool_contract", uses("search_weather", {"city": "Rome"}), tool_contracts=WEATHER)
    assert findings(verdict) == ("passed", None)
    assert verdict.reason == "1 tool call keeps its contract"


def test_a_missing_argument_is_named_with_tool_and_event() -> None:
    verdict = judge("tool_contract", says(), uses("search_weather", {"town": 1}), tool_contracts=WEATHER)
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.reason == 'search_weather was called without required argument "city" (event 1)'
    assert verdict.evidence_refs == [1]


def test_a_forbidden_argument_is_named() -> None:
    arguments = {"city": "Rome", "password": "x"}
    verdict = judge("tool_contract", uses("search_weather", arguments), tool_contracts=WEATHER)
    assert verdict.reason == 'search_weather was called with forbidden argument "password" (event 0)'


def test_an_argument_that_is_null_is_there() -> None:
    assert judge("tool_contract", uses("search_weather", {"city": None}), tool_contracts=WEATHER).passed


def test_every_call_is_checked_and_scored() -> None:
    good, bad = uses("search_weather", {"city": "a"}), uses("search_weather", {})
    verdict = judge("tool_contract", good, bad, good, bad, tool_contracts=WEATHER)
    assert verdict.score == 0.5
    assert verdict.evidence_refs == [2, 6]
    assert verdict.reason.endswith("; 1 more call broken")
    assert verdict.evidence["calls_checked"] == 4


def test_contracts_that_no_call_touches_fail() -> None:
    verdict = judge("tool_contract", uses("other"), tool_contracts=WEATHER)
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.reason == (
        "tool contracts are configured for search_weather, but there are no matching tool calls"
    )


def test_a_contracted_tool_that_is_not_called_has_nothing_to_check() -> None:
    contracts = {**WEATHER, "book": {"required_args": ["seat"]}}
    assert judge("tool_contract", uses("book", {"seat": 1}), tool_contracts=contracts).passed


@pytest.mark.parametrize(
    ("arguments", "failure", "words"),
    [
        ("{city: Rome}", "parse_error", "with arguments that are not JSON"),
        ('{"city": "Rome"', "parse_error", "with arguments that are not JSON"),
        ('{"city": 1, "city": 2}', "parse_error", "with arguments that are not JSON"),
        ("[1]", "type_error", "with arguments that are an array, not an object"),
        ('"city"', "type_error", "with arguments that are a string, not an object"),
        ("null", "type_error", "with arguments that are null, not an object"),
        ([["city", "Rome"]], "type_error", "with arguments that are an array, not an object"),
        (7, "type_error", "with arguments that are a number, not an object"),
        (True, "type_error", "with arguments that are a boolean, not an object"),
    ],
)
def test_arguments_that_are_no_object_fail(arguments: Any, failure: str, words: str) -> None:
    verdict = judge("tool_contract", calls("search_weather", arguments), tool_contracts=WEATHER)
    assert findings(verdict) == ("failed", failure)
    assert words in verdict.reason


def test_arguments_may_be_the_json_text_of_an_object() -> None:
    assert judge("tool_contract", calls("search_weather", '{"city": "Rome"}'), tool_contracts=WEATHER).passed


def test_a_call_without_arguments_lacks_the_required_ones() -> None:
    verdict = judge("tool_contract", calls("search_weather"), tool_contracts=WEATHER)
    assert findings(verdict) == ("failed", "contract_violation")


def test_arguments_are_held_to_their_schema() -> None:
    schema = {"properties": {"days": {"type": "integer", "maximum": 7}}}
    contracts = {"forecast": {"args_schema": schema}}
    assert judge("tool_contract", uses("forecast", {"days": 7}), tool_contracts=contracts).passed
    verdict = judge("tool_contract", uses("forecast", {"days": 8}), tool_contracts=contracts)
    assert verdict.reason == (
        "forecast was called with arguments against their schema at $.days: "
        "8 is greater than the maximum of 7 (event 0)"
    )


def test_an_invalid_schema_is_refused_before_anything_runs() -> None:
    contracts = {"forecast": {"args_schema": {"type": "whole number"}}}
    with pytest.raises(InvalidInput) as caught:
        judge("tool_contract", uses("forecast"), tool_contracts=contracts)
    assert caught.value.details["field"] == "tool_contracts.forecast.args_schema"
    assert caught.value.details["case_id"] == "case-1"


def test_a_megabyte_of_argument_name_stays_out_of_the_reason() -> None:
    verdict = judge(
        "tool_contract", calls("t", {}), tool_contracts={"t": {"required_args": ["x" * 1_000_000]}}
    )
    assert len(verdict.reason) < 200
    assert len(str(verdict.evidence)) < 500


def test_arguments_that_were_not_recorded_break_no_contract_and_keep_none() -> None:
    hidden = calls("refund", content_recorded=False)
    contracts = {"refund": {"required_args": ["amount"]}}
    assert findings(judge("tool_contract", hidden, tool_contracts=contracts)) == ("inconclusive", None)
    broken = judge("tool_contract", hidden, calls("refund", {}), tool_contracts=contracts)
    assert (findings(broken)[0], broken.evidence_refs) == ("failed", [1])


def test_the_evidence_names_every_broken_call_and_all_that_is_wrong_with_it() -> None:
    contracts = {"pay": {"required_args": ["to"], "forbidden_args": ["all"]}}
    verdict = judge("tool_contract", uses("pay", {"all": True}), tool_contracts=contracts)
    assert verdict.evidence["calls_broken"] == 1
    (violation,) = verdict.evidence["violations"]
    assert (violation["event"], violation["tool"]) == (0, "pay")
    assert violation["failure"] == "contract_violation"
    assert len(violation["problems"]) == 2
    unused = judge("tool_contract", says("done"), tool_contracts=contracts)
    assert unused.evidence == {"contracts": ["pay"]}

from __future__ import annotations

import pytest

from tests.unit.judges.traces import Row, calls, judge, says, uses

WEATHER = {"search": {"required_args": ["city"], "forbidden_args": ["password"]}}
GOOD, BAD = uses("search", {"city": "a"}), uses("search", {})
BROKEN = "failed contract_violation"
FORECAST = {"forecast": {"args_schema": {"properties": {"days": {"type": "integer", "maximum": 7}}}}}
HIDDEN = calls("search", content_recorded=False)


def weather(title: str, *events: list, gives: str, **more: object) -> Row:
    return Row(title, gives, *events, tool_contracts=WEATHER, **more)  # type: ignore[arg-type]


ROWS = [
    Row("without contracts there is nothing to judge", "skipped", uses("a")),
    weather("kept contracts pass", GOOD, gives="passed: 1 tool call keeps its contract"),
    weather("a missing argument is named with tool and event", *(says(), uses("search", {"town": 1})),
        gives=f'{BROKEN}: search was called without required argument "city" (event 1)', refs=[1]),
    weather("a forbidden argument is named", uses("search", {"city": "Rome", "password": "x"}),
        gives=f'{BROKEN}: search was called with forbidden argument "password" (event 0)'),
    weather("an argument that is null is there", uses("search", {"city": None}), gives="passed"),
    weather("every call is checked and scored", *(GOOD, BAD, GOOD, BAD), gives=BROKEN,
        has="; 1 more call broken", score=0.5, refs=[2, 6], evidence={"calls_checked": 4, "calls_broken": 2}),
    weather("contracts that no call touches fail", uses("other"),
        gives=f"{BROKEN}: tool contracts are configured for search, but there are no matching tool calls",
        evidence={"contracts": ["search"]}),
    Row("a contracted tool may go uncalled", "passed", uses("book", {"seat": 1}),
        tool_contracts={**WEATHER, "book": {"required_args": ["seat"]}}),
    *(
        weather(f"arguments {arguments!r}", calls("search", arguments), gives=f"failed {failure}", has=words)
        for arguments, failure, words in (
            ("{city: Rome}", "parse_error", "with arguments that are not JSON"),
            ('{"city": "Rome"', "parse_error", "with arguments that are not JSON"),
            ('{"city": 1, "city": 2}', "parse_error", "with arguments that are not JSON"),
            ("[1]", "type_error", "with arguments that are an array, not an object"),
            ('"city"', "type_error", "with arguments that are a string, not an object"),
            ("null", "type_error", "with arguments that are null, not an object"),
            ([["city", "Rome"]], "type_error", "with arguments that are an array, not an object"),
            (7, "type_error", "with arguments that are a number, not an object"),
            (True, "type_error", "with arguments that are a boolean, not an object"),
        )
    ),
    weather("arguments may be JSON text", calls("search", '{"city": "Rome"}'), gives="passed"),
    weather("a call without arguments lacks the required ones", calls("search"), gives=BROKEN),
    Row("arguments that keep their schema", "passed", uses("forecast", {"days": 7}), tool_contracts=FORECAST),
    Row("arguments are held to their schema",
        f"{BROKEN}: forecast was called with arguments against their schema at $.days: "
        "8 is greater than the maximum of 7 (event 0)",
        uses("forecast", {"days": 8}), tool_contracts=FORECAST),
    Row("an invalid schema is refused before anything runs", "refused tool_contracts.forecast.args_schema",
        uses("forecast"), tool_contracts={"forecast": {"args_schema": {"type": "whole number"}}}),
    weather("arguments that were not recorded break and keep nothing", HIDDEN, gives="inconclusive"),
    weather("others still break theirs", HIDDEN, calls("search", {}), gives=BROKEN, refs=[1]),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_verdicts(row: Row) -> None:
    row.check("tool_contract")


def test_a_megabyte_of_argument_name_stays_out_of_the_reason() -> None:
    contracts = {"t": {"required_args": ["x" * 1_000_000]}}
    verdict = judge("tool_contract", calls("t", {}), tool_contracts=contracts)
    assert len(verdict.reason) < 200
    assert len(str(verdict.evidence)) < 500


def test_the_evidence_names_every_broken_call_and_all_that_is_wrong_with_it() -> None:
    verdict = judge("tool_contract", uses("search", {"password": 1}), tool_contracts=WEATHER)
    (violation,) = verdict.evidence["violations"]
    assert (violation["event"], violation["tool"]) == (0, "search")
    assert (violation["failure"], len(violation["problems"])) == ("contract_violation", 2)

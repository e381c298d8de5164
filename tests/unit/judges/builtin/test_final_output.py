from __future__ import annotations

from typing import Any

import pytest

from agent_eval.errors import InvalidInput
from tests.unit.judges.traces import asks, findings, judge, says, uses


def final(output: Any, expected: Any = None, config: dict[str, Any] | None = None, **more: Any) -> Any:
    metadata = {"final_output": more} if more else {}
    return judge(
        "final_output", asks("?"), says(output), config=config, expected_output=expected, metadata=metadata
    )


def test_without_an_expectation_there_is_nothing_to_judge() -> None:
    assert findings(final("x")) == ("skipped", None)
    assert findings(final("x", mode="contains")) == ("skipped", None)


def test_text_is_compared_as_it_is_but_for_white_space_at_the_ends() -> None:
    assert final(" Paris\n", "Paris").passed
    verdict = final("Paris, France", "Paris")
    assert findings(verdict) == ("failed", "contract_violation")
    assert verdict.reason == 'the final output is "Paris, France" instead of "Paris" (event 1)'
    assert not final("paris", "Paris").passed
    assert final("paris", "Paris", ignore_case=True).passed
    assert final("paris", "Paris", config={"ignore_case": True}).passed


def test_the_expected_output_never_stands_in_for_a_missing_one() -> None:
    verdict = judge("final_output", uses("t", output="Paris"), expected_output="Paris")
    assert findings(verdict) == ("error", "missing_output")


def test_a_text_can_be_asked_for_or_ruled_out() -> None:
    assert final("It is Paris.", "Paris", mode="contains").passed
    assert final("It is Paris.", contains=["Paris", "is"], not_contains=["Rome"]).passed
    verdict = final("It is Rome.", contains=["Paris"], not_contains=["Rome"])
    assert verdict.reason == (
        'the final output does not contain "Paris" and the final output contains "Rome" (event 1)'
    )
    assert not final("It is Paris.", "Rome", mode="contains").passed


@pytest.mark.parametrize(
    ("output", "expected", "tolerance", "passed"),
    [
        ("The total is $1,234.50.", 1234.5, 0, True),
        ("first 3, then 4", "4", 0, True),
        ("about 3.15", 3.14, 0.02, True),
        ("about 3.17", 3.14, 0.02, False),
        ("-7", -7, 0, True),
        (42, 42, 0, True),
        ("none", 1, 0, False),
        ("1", "one", 0, False),
    ],
)
def test_the_last_number_is_compared(output: Any, expected: Any, tolerance: float, passed: bool) -> None:
    assert final(output, expected, mode="number", tolerance=tolerance).passed is passed


def test_values_are_compared_as_json() -> None:
    expected = {"total": 10, "items": [{"id": 1, "n": 2}]}
    assert final('{"items": [{"n": 2, "id": 1}], "total": 10.0}', expected).passed
    assert final(
        {"items": [{"n": 2, "id": 9}], "total": 10.4}, expected, tolerance=0.5, ignore=["items.*.id"]
    ).passed
    verdict = final({"items": [], "total": True}, expected)
    assert verdict.reason.startswith(
        "in the final output, total is true instead of 10 and in the final output, items has 0"
    )
    assert final('"1"', "1", mode="json").passed


def test_text_where_a_value_is_expected_is_a_parse_error() -> None:
    assert findings(final("Sure: {}", {"a": 1})) == ("failed", "parse_error")


def test_a_false_expectation_is_an_expectation() -> None:
    assert final(False, False).passed
    assert not final("true", False).passed


@pytest.mark.parametrize("more", [{"contians": ["x"]}, {"contains": "x"}, {"tolerance": -1}])
def test_a_malformed_expectation_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        final("x", **more)
    assert caught.value.details["field"] == f"metadata.final_output.{next(iter(more))}"

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
        ("about 19.91", 19.9, 0.01, True),
        (19.91, 19.9, 0.01, True),
        ("about 19.911", 19.9, 0.01, False),
        ("gpt4", 4, 0, False),
        ("42, says gpt4", 42, 0, True),
        ("\N{MINUS SIGN}5", 5, 0, False),
        ("\N{MINUS SIGN}5", -5, 0, True),
        ("3-5", -5, 0, False),
        ("3-5", 5, 0, False),
        ("not 42 but 1,5", 42, 0, False),
        ("1,5", 5, 0, False),
        ("at 12:30", 30, 0, False),
        ("0.5", 5, 0, False),
        (".5", 0.5, 0, True),
        ("9007199254740993", 9007199254740992, 0, False),
        (9007199254740993, "9007199254740993", 0, True),
        ("1e999999999", 1, 0, False),
        ([1, 2], 2, 0, True),
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


@pytest.mark.parametrize("blank", ["", " \n", "\N{ZERO WIDTH SPACE}"])
def test_an_output_in_which_nothing_can_be_seen_keeps_no_promise(blank: str) -> None:
    assert findings(final(blank, not_contains=["sorry"])) == ("error", "missing_output")
    assert findings(final(blank, "Paris")) == ("error", "missing_output")
    assert findings(final(blank, blank)) == ("passed", None)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"contains": [""]}, "metadata.final_output.contains.0"),
        ({"not_contains": ["a", " "]}, "metadata.final_output.not_contains.1"),
        ({"ignore": ["[z-a]"]}, "metadata.final_output.ignore"),
        ({"mode": "contains", "expected": ""}, "expected_output"),
        ({"mode": "number", "expected": "one"}, "expected_output"),
        ({"mode": "number", "expected": "3-5"}, "expected_output"),
    ],
)
def test_an_expectation_that_could_never_or_always_hold_is_refused_with_its_place(
    fields: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        final("x", **fields)
    assert caught.value.details["field"] == place
    assert "Value error" not in caught.value.message


def test_a_number_that_cannot_be_read_is_quoted() -> None:
    assert final("from 3-5 EUR", 5, mode="number").reason == (
        'the last number in the final output is "3-5", which cannot be read as one number instead of 5'
        " (event 1)"
    )


@pytest.mark.parametrize(
    ("output", "expected", "passed"),
    [
        ('{"b": 2, "a": 1.0}', {"a": 1, "b": 2}, True),
        ('{"a": 1}', {"a": 1, "b": 2}, False),
        ([1, 2], [1, 2], True),
        ("[2, 1]", [1, 2], False),
        ("42", 42, True),
        ("The answer is 42.", 42, False),
        ("true", True, True),
        ("1", True, False),
    ],
)
def test_values_are_compared_by_equality_where_no_mode_is_named(
    output: Any, expected: Any, passed: bool
) -> None:
    assert final(output, expected, config={"mode": "values"}).passed is passed


def test_a_text_that_no_mode_says_how_to_compare_is_not_checked_and_says_so() -> None:
    config = {"mode": "values"}
    verdict = final("Rome", "Paris", config=config)
    assert findings(verdict) == ("skipped", None)
    assert verdict.reason.startswith("answer not checked: ")
    assert verdict.evidence == {"answer_not_checked": True}
    beside = final("Rome", "Paris", config=config, contains=["Rome"])
    assert (beside.passed, beside.evidence) == (True, {"answer_not_checked": True})
    assert not final("Rome", "Paris", config=config, mode="exact").passed
    assert final("It is Paris.", "Paris", config=config, mode="contains").evidence == {}


def test_a_pattern_can_be_expected() -> None:
    assert final("It is Paris.", "P[a-z]+s", mode="regex").passed
    assert not final("It is paris.", "P[a-z]+s", mode="regex").passed
    assert final("It is paris.", "P[a-z]+s", mode="regex", ignore_case=True).passed
    for expected in ("(", "", 5):
        with pytest.raises(InvalidInput) as caught:
            final("x", expected, mode="regex")
        assert caught.value.details["field"] == "expected_output"


def test_numeric_is_another_name_of_number() -> None:
    assert final("about 42 EUR", 42, mode="numeric").passed
    assert not final("about 41 EUR", 42, mode="numeric").passed


def test_no_case_names_the_mode_that_checks_no_text() -> None:
    with pytest.raises(InvalidInput):
        final("x", "y", mode="values")


def of_turns(*events: Any, wanted: list[Any], **fields: Any) -> Any:
    turns = [{"input": "?", "expected_output": value} for value in wanted]
    return judge("final_output", *events, turns=turns, **fields)


TWO_TURNS = (asks("one"), says("1"), asks("two"), says("2"))


def test_the_answer_to_each_turn_is_compared_with_what_that_turn_expects() -> None:
    assert of_turns(*TWO_TURNS, wanted=["1", "2"]).passed
    verdict = of_turns(*TWO_TURNS, wanted=["1", "3"])
    assert (verdict.reason, verdict.score) == ('turn 2: the output is "2" instead of "3" (event 3)', 0.5)
    assert verdict.evidence["turns"] == [
        {"turn": 1, "event": 1, "outcome": "passed"},
        {"turn": 2, "event": 3, "outcome": "failed"},
    ]


def test_a_turn_that_expects_nothing_is_not_compared() -> None:
    assert of_turns(*TWO_TURNS, wanted=[None, "2"]).passed
    assert findings(of_turns(*TWO_TURNS, wanted=[None, None])) == ("skipped", None)


def test_turns_are_compared_as_the_case_says_and_the_last_answer_too() -> None:
    mode = {"final_output": {"mode": "number", "contains": ["EUR"]}}
    events = (asks("one"), says("It is 1."), asks("two"), says("It is 2 EUR."))
    assert of_turns(*events, wanted=[1, 2], metadata=mode, expected_output=2).passed
    verdict = of_turns(*events, wanted=[1, 3], metadata=mode)
    assert verdict.reason == "turn 2: the last number in the output is 2 instead of 3 (event 3)"


def test_a_turn_that_the_conversation_did_not_reach_is_an_error_and_a_wrong_one_fails() -> None:
    verdict = of_turns(*TWO_TURNS, wanted=["1", "2", "3"])
    assert findings(verdict) == ("error", "missing_output")
    assert verdict.reason == "turn 3: the conversation ended before it"
    assert findings(of_turns(*TWO_TURNS, wanted=["0", "2", "3"]))[0] == "failed"


def test_a_turn_without_an_answer_is_no_pass_whatever_was_said_before() -> None:
    verdict = of_turns(asks("one"), says("1"), asks("two"), uses("a"), wanted=["1", "1"])
    assert findings(verdict) == ("error", "missing_output")


def test_an_expectation_of_a_turn_that_could_never_hold_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidInput) as refused:
        of_turns(says(), wanted=[None, "none"], metadata={"final_output": {"mode": "number"}})
    assert refused.value.details["field"] == "turns[1].expected_output"


def test_an_answer_that_was_not_recorded_is_inconclusive_and_silence_is_an_error() -> None:
    verdict = judge("final_output", says(None, content_recorded=False), expected_output="yes")
    assert findings(verdict) == ("inconclusive", None)
    assert "not recorded (event 0)" in verdict.reason
    assert findings(judge("final_output", says(None), expected_output="yes")) == ("error", "missing_output")


@pytest.mark.parametrize(
    ("why", "failure", "words"),
    [
        ({"stop_reason": "max_tokens"}, "output_limit", 'the answer was cut off for "max_tokens"'),
        ({"stop_reason": "refusal"}, "agent_error", 'the answer was refused for "refusal"'),
        ({"block_reason": "moderation"}, "agent_error", 'the answer was blocked for "moderation"'),
    ],
)
def test_an_answer_that_was_stopped_is_told_apart_from_a_missing_one(
    why: dict[str, Any], failure: str, words: str
) -> None:
    verdict = judge("final_output", says(None, **why), expected_output="yes")
    assert findings(verdict) == ("error", failure)
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("rules", "expected", "outcome"),
    [
        ({"contains": ["ABC"], "ignore_case": True}, None, "passed"),
        ({"contains": ["ABC"]}, None, "failed"),
        ({"not_contains": ["ABC"], "ignore_case": True}, None, "failed"),
        ({"not_contains": ["ABC"]}, None, "passed"),
        ({"mode": "contains", "ignore_case": True}, "ABC", "passed"),
        ({"mode": "contains"}, "ABC", "failed"),
    ],
)
def test_case_is_ignored_where_it_is_asked_for(rules: Any, expected: Any, outcome: str) -> None:
    verdict = judge(
        "final_output", says("it is abc"), metadata={"final_output": rules}, expected_output=expected
    )
    assert verdict.outcome.value == outcome


def test_texts_are_looked_for_in_an_object_as_json() -> None:
    rules = {"final_output": {"contains": ['"total":3']}}
    assert judge("final_output", says({"total": 3}), metadata=rules).passed
    assert not judge("final_output", says({"total": 4}), metadata=rules).passed


def test_the_evidence_says_how_every_turn_was_answered() -> None:
    turns = [{"input": "a", "expected_output": 1}, {"input": "b", "expected_output": 2}]
    rules = {"final_output": {"mode": "exact"}}
    case = {"turns": turns, "metadata": rules}
    passed = judge("final_output", asks("a"), says(1), asks("b"), says(2), **case)
    assert [turn["outcome"] for turn in passed.evidence["turns"]] == ["passed", "passed"]
    missing = judge("final_output", asks("a"), says(1), **case)
    assert [turn["outcome"] for turn in missing.evidence["turns"]] == ["passed", "missing"]
    assert "turn 2" in missing.reason
    wrong = judge("final_output", asks("a"), says(1), asks("b"), says(3), **case)
    assert "turn 2" in wrong.evidence["problems"][0]
    assert wrong.evidence_refs

"""Two cases ask the same where they differ in nothing but what an agent did."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.contracts import Case, asked_digest, definition_digest
from tests.factories import make_case, make_trace

PLAIN = {"case_id": "a", "input": "Do it.", "metadata": {"topic": "refund"}}
SETTLED = {"attempt_history": [{"attempt": 0}], "selected_attempt": 0, "max_repairs": 2, "loop_passed": True}


@pytest.mark.parametrize(
    "recorded",
    [
        {"trace": make_trace("lookup")},
        {"trials": [{"trace": [], "metadata": {}}]},
        {"metadata": {"topic": "refund", **SETTLED}},
    ],
)
def test_what_an_agent_did_is_no_part_of_it(recorded: dict[str, Any]) -> None:
    assert definition_digest({**PLAIN, **recorded}) == definition_digest(PLAIN)


@pytest.mark.parametrize(
    "changed",
    [
        {"input": "Do it!"},
        {"metadata": {"topic": "return"}},
        {"policy": {"forbidden_tools": ["x"]}},
        {"turns": [{"input": "Do it."}]},
        {"final_output_tool": "submit"},
        {"own": 1},
    ],
)
def test_what_was_asked_is(changed: dict[str, Any]) -> None:
    assert definition_digest({**PLAIN, **changed}) != definition_digest(PLAIN)


def test_metadata_that_says_nothing_is_none_and_the_case_stays_as_it_was() -> None:
    bare: dict[str, Any] = {"case_id": "a", "input": "Do it."}
    for metadata in ({}, dict(SETTLED)):
        case = {**bare, "metadata": metadata, "trace": []}
        before = repr(case)
        assert definition_digest(case) == definition_digest(bare)
        assert repr(case) == before
    assert definition_digest({**bare, "metadata": "odd"}) != definition_digest(bare)


def test_a_case_is_shown_trial_by_trial() -> None:
    raw = make_case("a", "one", metadata={"topic": "refund", "selected_attempt": 0})
    raw["trials"] = [{"trace": make_trace("two"), "metadata": {"selected_attempt": 1}}]
    case = Case.model_validate(raw)
    assert case.trial_count == 2
    assert case.of_trial(0) is case
    second = case.of_trial(1)
    assert [event.tool for event in second.trace if event.type == "tool_call"] == ["two"]
    assert (second.metadata, second.trials) == ({"topic": "refund", "selected_attempt": 1}, [])
    for number in (-1, 2):
        with pytest.raises(IndexError):
            case.of_trial(number)


def test_what_the_user_says_in_each_turn_is_asked_and_what_is_expected_of_it_is_not() -> None:
    def asked(*turns: dict[str, Any], **metadata: Any) -> str:
        return asked_digest({"case_id": "a", "turns": list(turns), "metadata": metadata})

    first = {"input": "one", "expected_output": "1"}
    assert asked(first) == asked({"input": "one", "expected_tool_calls": []})
    assert asked(first) != asked({"input": "two"})
    assert asked(first) != asked(first, {"input": "two"})
    assert asked_digest({"case_id": "a", "turns": "many"}) == asked_digest({"case_id": "a"})
    shared = {"share_expected_output": True}
    assert asked(first, **shared) != asked({"input": "one", "expected_output": "2"}, **shared)


def test_the_inputs_of_a_case_are_those_of_its_turns() -> None:
    assert Case(case_id="a", input="one").inputs == ["one"]
    turns = [{"input": "one"}, {"input": 2}]
    assert Case.model_validate({"case_id": "a", "turns": turns}).inputs == ["one", 2]

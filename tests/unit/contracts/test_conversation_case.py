"""Cases with a simulated user: turns without an input, and what the user is like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from agent_eval.contracts import Case, asked_digest, definition_digest
from agent_eval.suites.validate import validate_suite


def conversation(**changes: Any) -> dict[str, Any]:
    """Build a case whose user is simulated in the second turn."""
    case = {
        "case_id": "refund",
        "turns": [{"input": "Hello"}, {"auto": True, "expectation": "it asks for the order"}],
        "conversation": {"guidelines": "You want your money back.", "user_info": {"plan": "Pro"}},
    }
    return {**case, **changes}


def faults(tmp_path: Path, case: dict[str, Any]) -> list[tuple[str, str]]:
    """Validate a suite of one case, and return place and message of each error."""
    path = tmp_path / "suite.json"
    path.write_bytes(orjson.dumps({"dataset_id": "shop", "cases": [case]}))
    return [(problem.place, problem.message) for problem in validate_suite(path).errors]


def test_a_turn_may_leave_the_input_to_the_simulated_user(tmp_path: Path) -> None:
    case = Case.model_validate(conversation())
    assert [turn.auto for turn in case.turns] == [False, True]
    assert case.conversation is not None
    assert case.conversation.max_turns == 7
    assert faults(tmp_path, conversation()) == []


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        ({}, "a turn needs an input, or auto"),
        ({"auto": False}, "a turn needs an input, or auto"),
        ({"auto": True, "input": "Hello"}, "a turn with auto has no input: the user is simulated"),
    ],
)
def test_a_turn_says_something_or_leaves_it_to_the_simulated_user(
    tmp_path: Path, turn: dict[str, Any], message: str
) -> None:
    assert faults(tmp_path, conversation(turns=[turn])) == [("$.cases[0].turns[0]", message)]


def test_a_misspelt_key_of_the_conversation_is_an_error(tmp_path: Path) -> None:
    case = conversation(conversation={"guideline": "You want your money back."})
    [(place, message)] = faults(tmp_path, case)
    assert place == "$.cases[0].conversation.guideline"
    assert "is not a key of the schema" in message


@pytest.mark.parametrize(
    "change",
    [
        {"conversation": {"guidelines": "You are in a hurry.", "user_info": {"plan": "Pro"}}},
        {"conversation": {"guidelines": "You want your money back.", "user_info": {"plan": "Free"}}},
        {"turns": [{"input": "Hello"}]},
        {"turns": [{"input": "Hello"}, {"auto": True, "timeout": 5}]},
    ],
)
def test_another_user_or_turn_is_another_question_to_the_agent(change: dict[str, Any]) -> None:
    assert asked_digest(conversation()) != asked_digest(conversation(**change))


def test_what_only_the_judge_reads_asks_the_agent_the_same() -> None:
    changed = conversation(turns=[{"input": "Hello"}, {"auto": True, "expectation": "it apologises"}])
    assert asked_digest(conversation()) == asked_digest(changed)
    assert definition_digest(conversation()) != definition_digest(changed)

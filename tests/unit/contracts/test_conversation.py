"""Conversations with a simulated user: what a case may say, and how traces record the end."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent_eval.contracts import Case, Event, asked_digest, definition_digest
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.conversation import (
    ConversationEnd,
    EndReason,
    conversation_end,
    has_error_answer,
    is_escalation,
)

USER = {"guidelines": "You want a refund.", "user_info": {"order": "7"}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"turns": [{"auto": True}]}, "needs a conversation"),
        ({"turns": [{"input": "Bye ###STOP###"}], "conversation": USER}, "###STOP###"),
        ({"input": "###STOP###", "conversation": USER}, "###STOP###"),
    ],
)
def test_a_conversation_that_cannot_be_held_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Case.model_validate({"case_id": "refund", **fields})


def test_a_conversation_of_a_suite_before_1_2_stays_the_authors_own() -> None:
    old = {"case_id": "a", "conversation": "from the archive", "input": "###STOP###"}
    assert Case.model_validate(old, context=EARLIER).conversation is None


def test_the_end_is_read_from_the_last_event_that_records_one() -> None:
    end = ConversationEnd(reason=EndReason.GOAL, turn=2, words="I have my refund")
    events = [
        Event(idx=0, actor="agent", type="message", output="Refunded."),
        Event(idx=1, actor="environment", type="conversation_end", output=end.to_json()),
    ]
    assert conversation_end(events) == end
    assert conversation_end(events[:1]) is None
    assert not events[1].is_message


def aui(**fields: Any) -> dict[str, Any]:
    return {"attributes": {"aui": fields}}


@pytest.mark.parametrize(
    ("fields", "escalates", "fails"),
    [
        (aui(executed_workflows=["CONVERSATION_FORWARDING_TIER2"]), True, False),
        (aui(executed_workflows="CONVERSATION_FORWARDING"), True, False),
        (aui(executed_workflows=["PRE_CONVERSATION_FORWARDING"]), False, False),
        (aui(executed_workflows=[{"name": "CONVERSATION_FORWARDING"}]), False, False),
        (aui(trace_info={"response": {"type": "error"}}), False, True),
        (aui(trace_info={"response": {"type": "blocked"}}), False, False),
        (aui(trace_info={"response": "error"}), False, False),
        ({"attributes": {"aui": None}}, False, False),
        ({"type": "handoff", "output": "a human colleague"}, True, False),
        ({"type": "handoff", "output": "billing_agent"}, False, False),
        ({"type": "error", "error": "no such order"}, False, True),
    ],
)
def test_escalations_and_error_answers_are_told_by_the_event(
    fields: dict[str, Any], escalates: bool, fails: bool
) -> None:
    event = Event.model_validate({"idx": 0, "actor": "agent", "type": "message", **fields})
    assert (is_escalation(event), has_error_answer([event])) == (escalates, fails)


def conversation(**changes: Any) -> dict[str, Any]:
    """Build a case whose user is simulated in the second turn."""
    case = {
        "case_id": "refund",
        "turns": [{"input": "Hello"}, {"auto": True, "expectation": "it asks for the order"}],
        "conversation": {"guidelines": "You want your money back.", "user_info": {"plan": "Pro"}},
    }
    return {**case, **changes}


def test_a_turn_may_leave_the_input_to_the_simulated_user() -> None:
    case = Case.model_validate(conversation())
    assert [turn.auto for turn in case.turns] == [False, True]
    assert case.conversation is not None
    assert case.conversation.max_turns == 7


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

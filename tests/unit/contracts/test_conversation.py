"""Conversations with a simulated user: what a case may say, and how traces record the end."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent_eval.contracts import Case, Event
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


@pytest.mark.parametrize(
    ("fields", "escalates", "fails"),
    [
        ({"attributes": {"aui": {"executed_workflows": ["CONVERSATION_FORWARDING_TIER2"]}}}, True, False),
        ({"attributes": {"aui": {"executed_workflows": "CONVERSATION_FORWARDING"}}}, True, False),
        ({"attributes": {"aui": {"executed_workflows": ["PRE_CONVERSATION_FORWARDING"]}}}, False, False),
        (
            {"attributes": {"aui": {"executed_workflows": [{"name": "CONVERSATION_FORWARDING"}]}}},
            False,
            False,
        ),
        ({"attributes": {"aui": {"trace_info": {"response": {"type": "error"}}}}}, False, True),
        ({"attributes": {"aui": {"trace_info": {"response": {"type": "blocked"}}}}}, False, False),
        ({"attributes": {"aui": {"trace_info": {"response": "error"}}}}, False, False),
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

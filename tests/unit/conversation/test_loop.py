"""The loop of turns: one reason to end, one answer to each message, fixed turns as they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.contracts import Trace
from agent_eval.contracts.conversation import CONVERSATION_END, STOP_TOKEN, EndReason
from agent_eval.conversation.loop import SIMULATED
from agent_eval.errors import FailureKind
from tests.unit.conversation.agents import BOTH, ERROR, FORWARDED, ScriptedAgent, end_of, hold, said

GO_ON = [{"turn": turn, "text": f"message {turn}"} for turn in range(1, 9)]
FIXED = [{"input": "Hello"}, {"input": "And now?"}]


def goal(text: str, turn: int | None = None) -> dict[str, Any]:
    row = {"object": {"message": text, "done": True, "reason": "goal"}}
    return row if turn is None else {"turn": turn, **row}


REASONS: list[tuple[EndReason, ScriptedAgent, list[dict[str, Any]], dict[str, Any]]] = [
    (EndReason.GOAL, ScriptedAgent(), [GO_ON[0], goal("")], {}),
    (EndReason.STOP, ScriptedAgent(), [GO_ON[0], {"text": STOP_TOKEN}], {}),
    (EndReason.ESCALATION, ScriptedAgent("ok", FORWARDED), GO_ON, {}),
    (EndReason.AGENT_ERROR, ScriptedAgent("ok", ERROR), GO_ON, {}),
    (EndReason.AGENT_INFRASTRUCTURE, ScriptedAgent("ok", FailureKind.INFRASTRUCTURE), GO_ON, {}),
    (EndReason.TURN_LIMIT, ScriptedAgent(), GO_ON, {"conversation": {"max_turns": 2}}),
    (EndReason.SIMULATOR_ERROR, ScriptedAgent(), [GO_ON[0], GO_ON[1], {"fault": "empty"}], {}),
    (EndReason.CANCELLED, ScriptedAgent(), GO_ON, {"cancelled": iter([False, True]).__next__}),
    (EndReason.BUDGET, ScriptedAgent("ok", FailureKind.BUDGET_EXCEEDED), GO_ON, {}),
]


@pytest.mark.parametrize(("reason", "agent", "rows", "fields"), REASONS, ids=[row[0] for row in REASONS])
def test_each_end_has_its_reason_in_the_trace(
    reason: EndReason, agent: ScriptedAgent, rows: list[dict[str, Any]], fields: dict[str, Any]
) -> None:
    result = hold(agent, *rows, **fields)
    end = end_of(result)
    turns = 1 if reason in (EndReason.GOAL, EndReason.STOP) else 2
    assert (end.reason, end.turn, len(said(result))) == (reason, turns, turns)
    last = result.events[-1]
    assert (last.type, last.actor, last.turn) == (CONVERSATION_END, "environment", turns)
    assert Trace(result.events).final_output == Trace(result.events[:-1]).final_output


@pytest.mark.parametrize(
    ("agent", "rows"),
    [
        (ScriptedAgent(FORWARDED), GO_ON),
        (ScriptedAgent(ERROR), GO_ON),
        (ScriptedAgent(FailureKind.TIMEOUT), GO_ON),
        (ScriptedAgent(), [goal("Thanks!")]),
    ],
)
def test_a_run_that_is_ended_leaves_no_trace_in_a_conversation_that_has_its_own_end(
    agent: ScriptedAgent, rows: list[dict[str, Any]]
) -> None:
    end = end_of(hold(agent, *rows, cancelled=lambda: True))
    assert end == end_of(hold(agent, *rows))
    assert end.reason is not EndReason.CANCELLED


def test_every_reason_has_its_conversation() -> None:
    assert {row[0] for row in REASONS} == set(EndReason)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (FailureKind.AGENT_ERROR, EndReason.AGENT_ERROR),
        (FailureKind.MISSING_OUTPUT, EndReason.AGENT_ERROR),
        (FailureKind.PARSE_ERROR, EndReason.AGENT_ERROR),
        (FailureKind.OUTPUT_LIMIT, EndReason.AGENT_ERROR),
        (FailureKind.TIMEOUT, EndReason.BUDGET),
        (FailureKind.INFRASTRUCTURE, EndReason.AGENT_INFRASTRUCTURE),
    ],
)
def test_a_failed_turn_ends_the_conversation_and_fails_the_attempt(
    failure: FailureKind, reason: EndReason
) -> None:
    # The attempt's 60 s are less than a turn's own 120 s.
    result = hold(ScriptedAgent("ok", failure), *GO_ON, seconds=60)
    assert (result.failure, end_of(result).reason, end_of(result).turn) == (failure, reason, 2)
    assert end_of(result).words == result.problem


@pytest.mark.parametrize(
    ("turns", "seconds", "reason"),
    [
        ([{"input": "Hello"}], None, EndReason.AGENT_ERROR),
        ([{"input": "Hello", "timeout": 200}], None, EndReason.TURN_LIMIT),
        ([{"input": "Hello", "timeout": 200}], 100, EndReason.BUDGET),
        ([{"input": "Hello", "timeout": 5}], 100, EndReason.AGENT_ERROR),
    ],
)
def test_each_turn_has_120_seconds_or_its_own_timeout(
    turns: list[Any], seconds: float | None, reason: EndReason
) -> None:
    result = hold(ScriptedAgent(takes=150), turns=turns, seconds=seconds, conversation={"max_turns": 1})
    assert end_of(result).reason is reason


@pytest.mark.parametrize(
    ("answer", "rows", "reason", "flags"),
    [
        (BOTH, GO_ON, EndReason.AGENT_ERROR, ["escalation", "turn-limit"]),
        (BOTH, [GO_ON[0], goal("Bye")], EndReason.AGENT_ERROR, ["escalation", "goal", "turn-limit"]),
        (FORWARDED, [GO_ON[0], goal("Bye")], EndReason.ESCALATION, ["goal", "turn-limit"]),
        ("ok", [GO_ON[0], goal("Bye")], EndReason.GOAL, ["turn-limit"]),
        (FailureKind.INFRASTRUCTURE, [GO_ON[0], goal("Bye")], EndReason.AGENT_INFRASTRUCTURE,
         ["goal", "turn-limit"]),
    ],
)  # fmt: skip
def test_the_first_reason_stays_and_later_facts_are_flags(
    answer: Any, rows: list[dict[str, Any]], reason: EndReason, flags: list[str]
) -> None:
    end = end_of(hold(ScriptedAgent("ok", answer), *rows, conversation={"max_turns": 2}))
    assert (end.reason, end.flags) == (reason, flags)


def test_text_that_comes_with_the_stop_is_said_and_answered_first() -> None:
    result = hold(ScriptedAgent("hi", "bye"), GO_ON[0], {"text": f"Thanks, that is all. {STOP_TOKEN}"})
    assert said(result) == ["message 1", "Thanks, that is all."]
    assert (end_of(result).reason, result.output) == (EndReason.STOP, "bye")


def test_fixed_turns_are_said_byte_for_byte_and_then_the_user_is_simulated_up_to_the_limit() -> None:
    agent = ScriptedAgent()
    turns = [{"input": " Hello \n"}, {"auto": True}, {"input": {"order": 7}}]
    result = hold(agent, *GO_ON, turns=turns)
    assert said(result) == [" Hello \n", "message 2", {"order": 7}, *[f"message {n}" for n in range(4, 8)]]
    assert end_of(result).reason is EndReason.TURN_LIMIT
    simulated = [bool(event.attributes.get(SIMULATED)) for event in result.events if event.actor == "user"]
    assert simulated == [False, True, False, True, True, True, True]
    assert end_of(result).simulated == 5


def test_a_stop_with_fixed_turns_left_ends_the_conversation_and_says_how_many() -> None:
    turns = [{"input": "Hello"}, {"auto": True}, {"input": "never"}, {"auto": True}, {"input": "said"}]
    result = hold(ScriptedAgent(), {"text": STOP_TOKEN}, turns=turns)
    assert (end_of(result).reason, end_of(result).unsent, said(result)) == (EndReason.STOP, 2, ["Hello"])


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({"turns": [{"input": str(n)} for n in range(9)]}, [str(n) for n in range(9)]),
        ({"given": "Hello", "conversation": {"max_turns": 2}}, ["Hello", "message 2"]),
    ],
    ids=["more turns than the limit are all said", "an input without turns is said first"],
)
def test_what_the_case_states_is_said(fields: dict[str, Any], texts: list[str]) -> None:
    assert said(hold(ScriptedAgent(), *GO_ON, **fields)) == texts


def test_the_agent_gets_no_guidelines_and_no_expectation() -> None:
    agent = ScriptedAgent()
    turns = [{"input": "Hello", "expectation": "EXPECTED-1"}, {"auto": True, "expectation": "EXPECTED-2"}]
    conversation = {"guidelines": "SECRET-AIM", "user_info": {"name": "Jane"}, "max_turns": 2}
    hold(agent, *GO_ON, turns=turns, conversation=conversation)
    payloads = str([task.payload() for task in agent.tasks])
    assert "EXPECTED" not in payloads
    assert "SECRET-AIM" not in payloads
    assert [task.payload()["user_info"] for task in agent.tasks] == [{"name": "Jane"}] * 2


def test_a_failed_simulated_user_is_no_failure_of_the_agent() -> None:
    result = hold(ScriptedAgent("hi"), GO_ON[0], {"fault": "refusal"})
    assert result.failure is FailureKind.SIMULATOR_ERROR
    assert result.problem == "the simulated user was cut off or refused to reply (refusal)"
    assert not any(event.error for event in result.events)


def test_what_the_simulated_user_costs_is_recorded_apart_from_the_agent() -> None:
    rows = [{**row, "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.01} for row in GO_ON]
    result = hold(ScriptedAgent(), *rows, conversation={"max_turns": 3})
    simulator = end_of(result).simulator
    assert simulator is not None
    assert (simulator["provider"], simulator["prompt"], simulator["calls"]) == ("scripted", "user-1", 3)
    assert (simulator["input_tokens"], simulator["cost_usd"]) == (30, 0.03)
    assert result.tokens == 0
    assert all(event.usage is None for event in result.events)


ANSWERS = st.sampled_from(["ok", None, *FailureKind, FORWARDED, ERROR, BOTH, {"trace_info": {}}])
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "text": st.sampled_from(["a", "b 7", f"c {STOP_TOKEN}", STOP_TOKEN, "", '{"x": 1}', "Thought: x"])
    },
).map(lambda row: row or {"object": {"message": "m", "done": True, "reason": "goal"}})
TURNS = st.lists(st.sampled_from([{"input": "fixed"}, {"auto": True}]), max_size=4)


@settings(max_examples=150, deadline=None)
@given(
    answers=st.lists(ANSWERS, min_size=1, max_size=5),
    rows=st.lists(ROWS, min_size=1, max_size=6),
    turns=TURNS,
    limit=st.integers(1, 5),
    cancel_after=st.integers(0, 6),
)
def test_each_script_ends_once_and_turns_alternate(
    answers: list[Any], rows: list[Any], turns: list[Any], limit: int, cancel_after: int
) -> None:
    asked = iter(range(100))
    script = [{"turn": turn, **row} for turn, row in enumerate(rows, 1)] + [{"text": "and further"}]
    result = hold(
        ScriptedAgent(*answers),
        *script,
        turns=turns,
        conversation={"max_turns": limit},
        cancelled=lambda: next(asked) >= cancel_after,
    )
    ends = [event for event in result.events if event.type == CONVERSATION_END]
    assert ends == [result.events[-1]]
    assert [event.idx for event in result.events] == list(range(len(result.events)))
    messages = said(result)
    assert len(messages) == end_of(result).turn == len(result.turns) <= max(limit, len(turns))
    assert not any(STOP_TOKEN in message or not message for message in messages)
    of_users = [event.turn for event in result.events if event.actor == "user"]
    assert of_users == list(range(1, len(messages) + 1))

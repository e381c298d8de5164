"""How one event is read: whose it is, whether it is output, and why it has no content."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent_eval.contracts import Event, TokenUsage, Trace
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.event import EVENT_TYPES


def said(idx: int = 0, **fields: Any) -> Event:
    return Event(idx=idx, **{"actor": "agent", "type": "message", **fields})


@pytest.mark.parametrize("kind", sorted(set(EVENT_TYPES) - {"message"}))
def test_only_messages_are_output(kind: str) -> None:
    other = said(1, type=kind, tool="lookup", output="not said")
    assert Trace([said(output="said"), other]).final_output == "said"
    assert Trace([other]).final_output is None


@pytest.mark.parametrize("kind", ["reasoning", "model_call", "guardrail", "state", "error"])
def test_what_an_agent_keeps_to_itself_is_no_act(kind: str) -> None:
    assert not Trace([said(type=kind, output="to itself")]).has_act
    assert Trace([said(type="final_answer", output="yes")]).final_output == "yes", "of no fixed meaning"


ROLES = {
    "agent": ("weather_agent", "WebSurfer", "AI", "Assistant", "user_support_agent"),
    "user": ("Human", "user_proxy", "UserSimulator"),
    "tool": ("function", "search_api"),
    "system": ("developer",),
    "environment": ("environment",),
}


@pytest.mark.parametrize(("actor", "role"), [(name, role) for role, names in ROLES.items() for name in names])
def test_actors_are_told_apart_by_their_names(actor: str, role: str) -> None:
    event = said(actor=actor, output="It rains.")
    assert event.role == role
    assert event.is_agent == (role == "agent")
    assert (Trace([event]).final_output is None) == (role != "agent")


def test_an_actor_with_a_name_of_its_own_is_an_agent_only_where_it_does_what_agents_do() -> None:
    assert said(actor="planner", output="x").is_agent
    assert said(actor="planner", type="tool_call", tool="lookup").is_agent
    assert not said(actor="lookup", type="tool_result", output="x").is_agent
    assert not said(actor="pager", type="notification", output="x").is_agent


def test_the_name_of_the_agent_is_its_agent_name_else_an_actor_with_a_name() -> None:
    assert said(agent_name="triage").agent == "triage"
    actors = ("weather_agent", "assistant", "user")
    assert [said(actor=actor).agent for actor in actors] == ["weather_agent", None, None]


STOPS = [{"stop_reason": "length"}, {"stop_reason": "refusal"}, {"block_reason": "moderation"}]


@pytest.mark.parametrize("reason", [*STOPS, {"content_recorded": False}])
def test_an_answer_without_content_is_not_replaced_by_an_earlier_one(reason: dict[str, Any]) -> None:
    trace = Trace([said(output="Let me look."), said(1, **reason)])
    assert trace.final_event is trace.events[1]
    assert trace.final_output is None
    assert Trace([said(output="Let me look."), said(1, stop_reason="stop")]).final_output == "Let me look."
    assert Trace([said(content_recorded=False)]).has_act
    assert not Trace([said()]).has_act


def test_parts_are_the_content_where_there_is_no_text_beside_them() -> None:
    image = {"type": "image", "media_type": "image/png", "sha256": "0" * 64, "size": 70}
    text = {"type": "text", "text": "Here it is."}
    assert Event(idx=0, actor="agent", type="message", parts=[text, text]).content == "Here it is." * 2
    assert said(parts=[text, image]).content == [text, image]
    assert said(output="Here.", parts=[image]).content == "Here."
    assert Event(idx=0, actor="user", type="message", parts=[text]).content == "Here it is."


@pytest.mark.parametrize(
    "fields",
    [
        {"usage": {"input_tokens": -1}},
        {"parts": [{"type": "video"}]},
        {"parts": [{"type": "image", "sha256": "abc"}]},
        {"turn": "1"},
        {"turn": -1},
        {"content_recorded": "no"},
    ],
)
def test_values_of_another_type_are_refused_in_fields_that_1_2_added(fields: dict[str, Any]) -> None:
    event = {"idx": 0, "actor": "agent", "type": "message", **fields}
    with pytest.raises(ValidationError):
        Event.model_validate(event)
    # Before 1.2 the same names were the author's own.
    assert Event.model_validate(event, context=EARLIER).to_json() == said().to_json()


@pytest.mark.parametrize(
    "broken", [{"idx": True}, {"idx": "0"}, {"idx": 0.0}, {"actor": 1}, {"latency_ms": "3"}]
)
def test_wrong_types_are_refused_whatever_the_version(broken: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Event.model_validate({"idx": 0, "actor": "a", "type": "message", **broken}, context=EARLIER)


def test_fields_that_have_nothing_to_say_are_not_written() -> None:
    before = said(output="x").to_json()
    assert "usage" not in before
    assert before["ts"] is None
    written = said(agent_name="a", usage={"input_tokens": 1}).to_json()
    assert (written["agent_name"], written["usage"]) == ("a", {"input_tokens": 1})


def test_usage_may_have_the_names_of_chat_completions() -> None:
    usage = TokenUsage.model_validate({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7})
    assert (usage.input_tokens, usage.output_tokens) == (3, 4)
    assert TokenUsage(input_tokens=3, reasoning_tokens=None).to_json() == {"input_tokens": 3}

"""How a conversation ended, and what in a trace shows that the agent escalated or answered with an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from pydantic import StrictInt, StrictStr

from agent_eval.contracts.base import SparseContract
from agent_eval.contracts.event import ERROR, HANDOFF, Event

TURN_SECONDS = 120.0
"""Seconds that an agent has for a turn of a conversation that states no other time limit."""

STOP_TOKEN = "###STOP###"  # noqa: S105 - the word by which a simulated user ends the conversation
"""What the simulated user writes to end the conversation. No message that the agent gets contains it."""

CONVERSATION_END = "conversation_end"
"""Type of the last event of a conversation: `ConversationEnd` in its `output`."""

CONVERSATION_RESTART = "conversation_restart"
"""Type of the first event of a conversation that was begun anew: after which `turn`, for which `problem`."""

AUI = "aui"
"""Attribute of an agent's event: `executed_workflows` and `trace_info` of an AUI agent's answer."""

AUI_V3 = "v3"
"""`api` of that attribute where it is from the later API, which records no workflows and no parameters."""

FORWARDING = "CONVERSATION_FORWARDING"
"""Begin of the names of workflows that hand a conversation over to a human."""


class EndReason(StrEnum):
    """Why a conversation ended. The first reason counts; later facts do not replace it."""

    GOAL = "goal"
    """The simulated user has what it wanted."""
    STOP = "stop"
    """The simulated user gave up or had nothing more to say; or all fixed turns of a case were sent."""
    ESCALATION = "escalation"
    """The agent handed the conversation over to a human."""
    AGENT_ERROR = "agent-error"
    """The agent answered with an error, failed, or did not answer in the time of its turn."""
    AGENT_INFRASTRUCTURE = "agent-infrastructure"
    """The agent could not be reached."""
    TURN_LIMIT = "turn-limit"
    """All turns were used."""
    SIMULATOR_ERROR = "simulator-error"
    """The simulated user's model failed or wrote nothing usable, which says nothing of the agent."""
    CANCELLED = "cancelled"
    """The run was ended."""
    BUDGET = "budget"
    """A limit of the attempt was reached."""


class ConversationEnd(SparseContract, frozen=True):
    """Why and when a conversation ended, as the last event of its trace records it."""

    reason: EndReason
    turn: StrictInt = 0
    """The last turn that the agent was asked."""
    words: StrictStr | None = None
    """The simulated user's own reason, or the failure in words."""
    unsent: StrictInt | None = None
    """Fixed turns that were not sent."""
    flags: list[StrictStr] | None = None
    """What else was true at the end, and did not decide: other reasons, by their names."""
    warnings: list[StrictStr] | None = None
    """What was odd about the simulated user's words, in packs of earlier versions."""
    simulated: StrictInt | None = None
    """Messages that the simulated user wrote."""
    simulator: dict[StrictStr, Any] | None = None
    """The model that played the user, its prompt, and what it used; no cost of the agent."""


def conversation_end(events: Iterable[Event]) -> ConversationEnd | None:
    """Return why a recorded conversation ended; None if the trace does not say."""
    for event in reversed(list(events)):
        if event.type == CONVERSATION_END and isinstance(event.output, Mapping):
            return ConversationEnd.model_validate(event.output)
    return None


def is_escalation(event: Event) -> bool:
    """Tell whether an event hands the conversation over to a human."""
    if AUI in event.attributes:
        return any(name.startswith(FORWARDING) for name in executed_workflows(event.attributes[AUI]))
    return event.type == HANDOFF and isinstance(event.output, str) and "human" in event.output.casefold()


def has_error_answer(events: Sequence[Event]) -> bool:
    """Tell whether the agent's answer in these events of one turn is an error.

    Of an AUI agent the trace says so. Of any other it is an event `error` after which the agent says nothing.
    """
    answers = [object_of(event.attributes[AUI]) for event in events if AUI in event.attributes]
    if answers:
        infos = [object_of(answer.get("trace_info")) for answer in answers]
        return any(object_of(info.get("response")).get("type") == "error" for info in infos)
    for event in reversed(events):
        if event.is_answer:
            return False
        if event.type == ERROR and event.is_agent:
            return True
    return False


def executed_workflows(answer: Any) -> list[str]:
    """List the workflows that an answer of an AUI agent names; one name may be a text."""
    names = object_of(answer).get("executed_workflows")
    names = [names] if isinstance(names, str) else names
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def object_of(value: Any) -> Mapping[str, Any]:
    """Return a value of recorded JSON as an object; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}

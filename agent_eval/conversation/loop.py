"""Hold a conversation: say, ask, check, and go on until there is a reason to end.

    OPEN -> SAY n -> ASK n -> CHECK -> next message -> SAY n+1, or END

Every message is answered once before the end. The first reason to end counts, in the order of `_check`; what
else was true then is recorded as a flag.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_eval.agents.base import Agent, AttemptResult, Surroundings, Task
from agent_eval.contracts import Case, Event
from agent_eval.contracts.conversation import (
    CONVERSATION_END,
    TURN_SECONDS,
    ConversationEnd,
    EndReason,
    has_error_answer,
    is_escalation,
)
from agent_eval.contracts.suite import CaseTurn
from agent_eval.conversation.session import Session
from agent_eval.conversation.simulated_user import (
    Exchange,
    Place,
    SimulatedUser,
    Simulation,
    SimulatorError,
)
from agent_eval.errors import FailureKind, UsageError

_REASONS = {
    FailureKind.INFRASTRUCTURE: EndReason.AGENT_INFRASTRUCTURE,
    FailureKind.ENVIRONMENT: EndReason.AGENT_INFRASTRUCTURE,
    FailureKind.TIMEOUT: EndReason.AGENT_INFRASTRUCTURE,
    FailureKind.BUDGET_EXCEEDED: EndReason.BUDGET,
}
"""Reasons by the failure of a turn; every other failure is the agent's."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a conversation needs besides its agent and task.

    Attributes:
        simulation: The model that plays the user; None where every turn is fixed.
        loop: Number of the trial, from 1.
    """

    simulation: Simulation | None = None
    loop: int = 1
    cancelled: Callable[[], bool] = lambda: False


def attempt_case(
    agent: Agent, task: Task, surroundings: Surroundings, setting: Setting | None = None
) -> AttemptResult:
    """Attempt a case: its one input, its turns until the agent fails in one of them, or a conversation.

    The limits of the attempt hold for all turns together, and the tools keep their state. In a conversation
    each turn has a time limit of its own.

    Raises:
        AgentEvalError: As `Agent.attempt`; the model that plays the user would refuse every request.
    """
    if agent.replays:
        return agent.attempt(task, surroundings)
    if task.case.conversation is not None:
        return _Conversation(agent, task, surroundings, setting or Setting()).hold()
    if task.case.turns:
        return _say_all(agent, task, surroundings)
    return agent.attempt(task, surroundings)


def _say_all(agent: Agent, task: Task, surroundings: Surroundings) -> AttemptResult:
    """Say the turns of a case without a simulated user."""
    session = Session(task)
    try:
        for turn in task.case.turns:
            turn_task = session.next_task(turn, seconds=turn.timeout)
            session.add(agent.attempt(turn_task, surroundings))
            if session.failure is not None:
                break
    finally:
        agent.end_session(session.session_id)
    return session.result()


class _Conversation:
    """One conversation, from its first message to its end."""

    def __init__(self, agent: Agent, task: Task, surroundings: Surroundings, setting: Setting) -> None:
        assert task.case.conversation is not None
        self._agent, self._surroundings, self._setting = agent, surroundings, setting
        self._session = Session(task)
        self._turns = planned_turns(task.case)
        self._user: SimulatedUser | None = None
        if setting.simulation is not None:
            place = Place(task.case.case_id, setting.loop, task.attempt)
            self._user = SimulatedUser(setting.simulation, task.case.conversation, place)
        self._exchanges: list[Exchange] = []
        self._last_words: EndReason | None = None
        self._warnings: list[str] = []
        self._end: ConversationEnd | None = None

    def hold(self) -> AttemptResult:
        """Hold the conversation; return it as one attempt, with its end as the last event."""
        try:
            end = self._talk()
        finally:
            self._agent.end_session(self._session.session_id)
        return self._result(end)

    def _talk(self) -> ConversationEnd:
        """Say one message after the other until there is a reason to end."""
        for turn in self._turns:
            message = turn if not turn.auto else self._simulated(turn)
            if message is not None:
                self._ask(message, simulated=turn.auto)
            if self._end is not None:
                return self._end
        raise AssertionError("the last turn ends the conversation")  # pragma: no cover

    def _simulated(self, turn: CaseTurn) -> CaseTurn | None:
        """Have the user say something; None where that ends the conversation."""
        if self._user is None:
            raise UsageError(
                "a conversation has turns of a simulated user, and no model plays it",
                remedy="Name one with --llm-key or --provider, or give every turn an input.",
            )
        try:
            message = self._user.next_message(self._exchanges)
        except SimulatorError as error:
            self._end_by(EndReason.SIMULATOR_ERROR, words=error.problem)
            return None
        self._warnings += message.warnings
        if not message.text:
            assert message.ends is not None
            self._end_by(message.ends)
            return None
        self._last_words = message.ends
        return turn.model_copy(update={"input": message.text})

    def _ask(self, turn: CaseTurn, *, simulated: bool) -> None:
        seconds = TURN_SECONDS if turn.timeout is None else turn.timeout
        turn_task = self._session.next_task(turn, seconds=seconds)
        result = self._agent.attempt(turn_task, self._surroundings)
        events = self._session.add(result, simulated=simulated)
        self._exchanges.append(Exchange(_text(turn.input), _answer_of(events)))
        reasons = list(self._check(result.failure, events))
        if reasons:
            self._end_by(reasons[0], flags=reasons[1:], words=self._session.result().problem)

    def _check(self, failure: FailureKind | None, events: Sequence[Event]) -> Iterator[EndReason]:
        """Yield every reason to end now; the first one counts."""
        if failure is FailureKind.TIMEOUT and not self._session.has_own_time:
            yield EndReason.BUDGET
        elif failure is not None:
            yield _REASONS.get(failure, EndReason.AGENT_ERROR)
        elif has_error_answer(events):
            yield EndReason.AGENT_ERROR
        if any(map(is_escalation, events)):
            yield EndReason.ESCALATION
        if self._last_words is not None:
            yield self._last_words
        if self._session.turns == len(self._turns):
            yield EndReason.TURN_LIMIT
        if self._setting.cancelled():
            yield EndReason.CANCELLED

    def _end_by(self, reason: EndReason, *, flags: Sequence[EndReason] = (), words: str = "") -> None:
        rest = self._turns[self._session.turns :]
        self._end = ConversationEnd.model_validate(
            _without_empty(
                {
                    "reason": reason,
                    "turn": self._session.turns,
                    "words": words,
                    "unsent": sum(not turn.auto for turn in rest),
                    "flags": [flag.value for flag in flags],
                    "warnings": self._warnings,
                    "simulated": self._user.written if self._user is not None else 0,
                    "simulator": self._user.describe() if self._user is not None else None,
                }
            )
        )

    def _result(self, end: ConversationEnd) -> AttemptResult:
        """Return all turns as one attempt. A failed simulated user or a cancelled run is no fault of it."""
        result = self._session.result()
        event = Event(
            idx=len(result.events),
            ts=self._surroundings.clocks.stamp(),
            actor="environment",
            type=CONVERSATION_END,
            output=end.to_json(),
            turn=max(end.turn, 1),
            attempt=self._session.task.attempt,
        )
        result = replace(result, events=[*result.events, event])
        if end.reason is EndReason.SIMULATOR_ERROR:
            problem = f"the simulated user {end.words}"
            return replace(result, failure=FailureKind.SIMULATOR_ERROR, problem=problem)
        if end.reason is EndReason.CANCELLED:
            return replace(result, failure=FailureKind.INFRASTRUCTURE, problem="the run was ended")
        return result


def planned_turns(case: Case) -> list[CaseTurn]:
    """List the turns of a conversation: those of the case, then simulated ones up to `max_turns`.

    Example:
        >>> case = Case(case_id="refund", input="Hello", conversation={"max_turns": 3})
        >>> [turn.auto for turn in planned_turns(case)]
        [False, True, True]
    """
    turns = list(case.turns) or ([CaseTurn(input=case.input)] if case.input is not None else [])
    limit = case.conversation.max_turns if case.conversation is not None else 0
    return turns + [CaseTurn(auto=True) for _ in range(limit - len(turns))]


def _answer_of(events: Sequence[Event]) -> str:
    """Join the texts of the agent in a turn, as its user reads them."""
    contents = (event.content for event in events if event.is_message)
    return "\n\n".join(_text(content) for content in contents if content is not None)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, sort_keys=True)


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value or name == "turn"}

"""Hold a conversation: say, ask, check, and go on until there is a reason to end.

    OPEN -> SAY n -> ASK n -> CHECK -> next message -> SAY n+1, or END

Every message is answered once before the end. The first reason to end counts, in the order of `_check`; what
else was true then is recorded as a flag.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agent_eval.agents.base import Agent, AttemptResult, SessionSoFar, Surroundings, Task
from agent_eval.contracts import Case, Event
from agent_eval.contracts.conversation import (
    CONVERSATION_END,
    CONVERSATION_RESTART,
    TURN_SECONDS,
    ConversationEnd,
    EndReason,
    has_error_answer,
    is_escalation,
)
from agent_eval.contracts.suite import CaseTurn
from agent_eval.conversation.simulated_user import Exchange, SimulatedUser, Simulation, SimulatorError
from agent_eval.errors import FailureKind, UsageError
from agent_eval.models.retries import within

SIMULATED = "agent_eval.simulated"
"""Attribute of a user's message that a model wrote."""


class Session:
    """The turns of one attempt so far.

    Attributes:
        result: The turns as one attempt, whose output is that of the last turn.
        has_own_time: Whether the last turn had a time limit of its own, shorter than what was left of the
            attempt's.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.session_id = secrets.token_hex(16)
        self._inputs: list[Any] = []
        self._history: list[dict[str, Any]] = []
        self._call_ids: set[str] = set()
        self.result = AttemptResult([])
        self.has_own_time = False

    @property
    def turns(self) -> int:
        """Number of turns that were asked."""
        return len(self._inputs)

    def next_task(self, turn: CaseTurn, *, seconds: float | None = None) -> Task:
        """Make the task of the next turn, with `seconds` for it; None for what is left of the attempt."""
        self._inputs.append(turn.input)
        done, limits = self.result, self.task.limits
        spent = {
            "seconds": done.seconds,
            "steps": done.steps,
            "tool_calls": len(done.tool_calls),
            "tokens": done.tokens,
        }
        remaining = {
            name: max(getattr(limits, name) - amount, 0)
            for name, amount in spent.items()
            if getattr(limits, name) is not None
        }
        self.has_own_time = seconds is not None and (
            "seconds" not in remaining or seconds <= remaining["seconds"]
        )
        if self.has_own_time:
            remaining["seconds"] = seconds
        own = {"input": turn.input, "turns": [], "expected_output": turn.expected_output}
        return replace(
            self.task,
            case=self.task.case.model_copy(update=own),
            limits=limits.model_copy(update=remaining),
            session=SessionSoFar(self.session_id, self.turns, tuple(self._history), done.conversation),
        )

    def add(self, result: AttemptResult, *, simulated: bool = False) -> Sequence[Event]:
        """Add what the agent did in the turn whose task was made last; return the turn's events."""
        answer = {"assistant_output": result.output, "tool_calls": result.tool_calls}
        self._history.append({"input": self._inputs[-1], **answer})
        before, seconds = self.result, self.task.limits.seconds
        events = self._events(result.events, simulated)
        artifacts = {f"turn-{self.turns}-{name}": data for name, data in result.artifacts.items()}
        problem = f"in turn {self.turns}: {result.problem}" if result.problem else ""
        if result.failure is FailureKind.TIMEOUT and seconds is not None and not self.has_own_time:
            # Its words speak of the turn's share of the limit.
            problem = f"did not end within {seconds:g} s, in turn {self.turns}"
        self.result = replace(
            result,
            events=[*before.events, *events],
            tool_calls=[*before.tool_calls, *result.tool_calls],
            problem=problem,
            seconds=before.seconds + result.seconds,
            retries=before.retries + result.retries,
            steps=before.steps + result.steps,
            tokens=before.tokens + result.tokens,
            artifacts={**before.artifacts, **artifacts},
            turns=[*before.turns, answer],
        )
        return events

    def _events(self, events: list[Event], simulated: bool) -> list[Event]:
        """Number the events of a turn as those of the attempt; agents may use the id of a call again."""
        renamed: dict[str | None, str | None] = {None: None}
        for wanted in sorted({event.call_id for event in events if event.call_id is not None}):
            unique, count = wanted, self.turns
            while unique in self._call_ids:
                unique, count = f"{wanted}-turn-{count}", count + 1
            renamed[wanted] = unique
        self._call_ids.update(filter(None, renamed.values()))
        numbered = []
        for place, event in enumerate(events, start=len(self.result.events)):
            update: dict[str, Any] = {"idx": place, "turn": self.turns, "call_id": renamed[event.call_id]}
            if simulated and event.actor == "user":
                update["attributes"] = {**event.attributes, SIMULATED: True}
            numbered.append(event.model_copy(update=update))
        return numbered


_REASONS = {
    FailureKind.INFRASTRUCTURE: EndReason.AGENT_INFRASTRUCTURE,
    FailureKind.ENVIRONMENT: EndReason.AGENT_INFRASTRUCTURE,
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

    A message that may have arrived although no answer came is not sent again: the conversation begins anew,
    once, and its first event says so.

    Raises:
        AgentEvalError: As `Agent.attempt`; the model that plays the user would refuse every request.
    """
    setting = setting or Setting()
    if agent.replays:
        return agent.attempt(task, surroundings)
    attempt: Callable[[], AttemptResult] = partial(_attempt_turns, agent, task, surroundings)
    if task.case.conversation is not None:
        attempt = _Conversation(agent, task, surroundings, setting).hold
    first = attempt()
    if not first.is_uncertain or setting.cancelled():
        return first
    event = Event(
        idx=0,
        ts=surroundings.clocks.stamp(),
        actor="environment",
        type=CONVERSATION_RESTART,
        output={"turn": max(1, len(first.turns)), "problem": first.problem},
        turn=0,
        attempt=task.attempt,
        cost_usd=sum(event.cost_usd or 0 for event in first.events) or None,
    )
    second = attempt()
    events = [event, *(each.model_copy(update={"idx": each.idx + 1}) for each in second.events)]
    seconds, retries = first.seconds + second.seconds, first.retries + second.retries
    return replace(second, events=events, seconds=seconds, retries=retries)


def _attempt_turns(agent: Agent, task: Task, surroundings: Surroundings) -> AttemptResult:
    """Attempt a case whose messages are all known."""
    if not task.case.turns:
        return agent.attempt(task, surroundings)
    session = Session(task)
    try:
        for turn in task.case.turns:
            turn_task = session.next_task(turn, seconds=turn.timeout)
            with within(turn.timeout):
                session.add(agent.attempt(turn_task, surroundings))
            if session.result.failure is not None:
                break
    finally:
        agent.end_session(session.session_id)
    return session.result


class _Conversation:
    def __init__(self, agent: Agent, task: Task, surroundings: Surroundings, setting: Setting) -> None:
        self._agent, self._surroundings, self._setting = agent, surroundings, setting
        self._task = task
        self._turns = planned_turns(task.case)
        self._user: SimulatedUser | None = None
        if (simulation := setting.simulation) is not None:
            self._user = SimulatedUser(simulation, task.case, loop=setting.loop, attempt=task.attempt)

    def _begin(self) -> None:
        self._session = Session(self._task)
        self._exchanges: list[Exchange] = []
        self._last_words: EndReason | None = None
        self._end: ConversationEnd | None = None
        if self._user is not None:
            self._user.written = 0

    def hold(self) -> AttemptResult:
        """Hold the conversation from its beginning; return it as one attempt, whose last event is its end.

        A failed simulated user or a cancelled run is no failure of the agent.
        """
        self._begin()
        try:
            for turn in self._turns:
                message = turn if not turn.auto else self._simulated(turn)
                if message is not None:
                    self._ask(message, simulated=turn.auto)
                if self._end is not None:
                    break
        finally:
            self._agent.end_session(self._session.session_id)
        end, result = self._end, self._session.result
        assert end is not None, "the last turn ends the conversation"
        event = Event(
            idx=len(result.events),
            ts=self._surroundings.clocks.stamp(),
            actor="environment",
            type=CONVERSATION_END,
            output=end.to_json(),
            turn=max(end.turn, 1),
            attempt=self._task.attempt,
        )
        result = replace(result, events=[*result.events, event])
        if end.reason is EndReason.SIMULATOR_ERROR:
            problem = f"the simulated user {end.words}"
            return replace(result, failure=FailureKind.SIMULATOR_ERROR, problem=problem)
        if end.reason is EndReason.CANCELLED:
            return replace(result, failure=FailureKind.INFRASTRUCTURE, problem="the run was ended")
        return result

    def _simulated(self, turn: CaseTurn) -> CaseTurn | None:
        """Have the user say something; None where that ends the conversation."""
        if self._user is None:
            raise UsageError(
                "a conversation has turns of a simulated user, and no model plays it",
                remedy="Name one with --llm-key or --provider, or give every turn an input.",
            )
        try:
            with within(TURN_SECONDS if turn.timeout is None else turn.timeout):
                message = self._user.next_message(self._exchanges)
        except SimulatorError as error:
            self._end_by(EndReason.SIMULATOR_ERROR, words=str(error))
            return None
        if not message.text:
            assert message.ends is not None
            self._end_by(message.ends)
            return None
        self._last_words = message.ends
        return turn.model_copy(update={"input": message.text})

    def _ask(self, turn: CaseTurn, *, simulated: bool) -> None:
        seconds = TURN_SECONDS if turn.timeout is None else turn.timeout
        turn_task = self._session.next_task(turn, seconds=seconds)
        with within(seconds):
            result = self._agent.attempt(turn_task, self._surroundings)
        events = self._session.add(result, simulated=simulated)
        contents = (event.content for event in events if event.is_message)
        answer = "\n\n".join(_text(content) for content in contents if content is not None)
        self._exchanges.append(Exchange(_text(turn.input), answer))
        reasons = list(self._check(result.failure, events))
        if not reasons and self._setting.cancelled():  # no flag of a conversation that ended by itself
            reasons = [EndReason.CANCELLED]
        if reasons:
            self._end_by(reasons[0], flags=reasons[1:], words=self._session.result.problem)

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

    def _end_by(self, reason: EndReason, *, flags: Sequence[EndReason] = (), words: str = "") -> None:
        rest = self._turns[self._session.turns :]
        fields = {
            "reason": reason,
            "turn": self._session.turns,
            "words": words,
            "unsent": sum(not turn.auto for turn in rest),
            "flags": [flag.value for flag in flags],
            "simulated": self._user.written if self._user is not None else 0,
            "simulator": self._user.describe() if self._user is not None else None,
        }
        known = {name: value for name, value in fields.items() if value or name == "turn"}
        self._end = ConversationEnd.model_validate(known)


def planned_turns(case: Case) -> list[CaseTurn]:
    """List the turns of a conversation: those of the case, then simulated ones up to `max_turns`."""
    turns = list(case.turns) or ([CaseTurn(input=case.input)] if case.input is not None else [])
    limit = case.conversation.max_turns if case.conversation is not None else 0
    return turns + [CaseTurn(auto=True) for _ in range(limit - len(turns))]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, sort_keys=True)

"""Attempt a case with several turns: one input after the other, in one conversation.

Each turn is a task of its own to the agent, with the conversation so far (`SessionSoFar`). The result is one
attempt: its events in order, each with the number of its turn.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from agent_eval.agents.base import Agent, AttemptResult, Surroundings, Task
from agent_eval.agents.session_so_far import SessionSoFar
from agent_eval.contracts import AttemptLimits, Case, Event
from agent_eval.contracts.suite import CaseTurn
from agent_eval.errors import FailureKind


def attempt_case(agent: Agent, task: Task, surroundings: Surroundings) -> AttemptResult:
    """Attempt a case: its one input, or its turns until the agent fails in one of them.

    The limits of the attempt hold for all turns together, and the tools keep their state.

    Args:
        agent: The agent under test.
        task: The attempt.
        surroundings: Clocks, tools and retries.

    Raises:
        AgentEvalError: As `Agent.attempt`.
    """
    if not task.case.turns or agent.replays:
        return agent.attempt(task, surroundings)
    session = _Session(task)
    for turn in task.case.turns:
        session.add(agent.attempt(session.next_task(turn), surroundings))
        if session.failure is not None:
            break
    return session.result()


class _Session:
    """The turns of one attempt so far."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._id = secrets.token_hex(16)
        self._inputs: list[Any] = []
        self._history: list[dict[str, Any]] = []
        self._call_ids: set[str] = set()
        self._sum = AttemptResult([])

    @property
    def failure(self) -> FailureKind | None:
        """Why the session is over; None while it is not."""
        return self._sum.failure

    def next_task(self, turn: CaseTurn) -> Task:
        """Make the task of the next turn."""
        self._inputs.append(turn.input)
        so_far = SessionSoFar(self._id, len(self._inputs), tuple(self._history), self._sum.conversation)
        case = _case_of_turn(self._task.case, turn)
        return replace(self._task, case=case, limits=self._remaining(), session=so_far)

    def _remaining(self) -> AttemptLimits:
        """Compute what the turns before remaining of the attempt's limits."""
        limits, used = self._task.limits, self._sum
        spent = {
            "seconds": used.seconds,
            "steps": used.steps,
            "tool_calls": len(used.tool_calls),
            "tokens": used.tokens,
        }
        remaining = {
            name: max(getattr(limits, name) - amount, 0)
            for name, amount in spent.items()
            if _is_set(limits, name)
        }
        return limits.model_copy(update=remaining)

    def add(self, result: AttemptResult) -> None:
        """Add what the agent did in the turn whose task was made last."""
        number = len(self._inputs)
        answer = {"assistant_output": result.output, "tool_calls": result.tool_calls}
        self._history.append({"input": self._inputs[-1], **answer})
        before = self._sum
        self._sum = replace(
            result,
            events=[*before.events, *self._events(result.events, number)],
            tool_calls=[*before.tool_calls, *result.tool_calls],
            problem=self._problem(result),
            seconds=before.seconds + result.seconds,
            retries=before.retries + result.retries,
            steps=before.steps + result.steps,
            tokens=before.tokens + result.tokens,
            artifacts={
                **before.artifacts,
                **{f"turn-{number}-{name}": data for name, data in result.artifacts.items()},
            },
            turns=[*before.turns, answer],
        )

    def _events(self, events: list[Event], number: int) -> list[Event]:
        """Number the events of a turn as those of the attempt; agents may use the id of a call again."""
        offset = len(self._sum.events)
        ids = {event.call_id for event in events if event.call_id is not None}
        renamed = {call_id: self._unique(call_id) for call_id in sorted(ids)}
        self._call_ids.update(renamed.values())
        return [
            event.model_copy(
                update={
                    "idx": offset + place,
                    "turn": number,
                    "call_id": renamed.get(event.call_id) if event.call_id is not None else None,
                }
            )
            for place, event in enumerate(events)
        ]

    def _unique(self, call_id: str) -> str:
        unique = call_id
        count = len(self._inputs)
        while unique in self._call_ids:
            unique, count = f"{call_id}-turn-{count}", count + 1
        return unique

    def _problem(self, result: AttemptResult) -> str:
        """Return a failure's words, which speak of the turn's share of a limit, for the whole attempt."""
        seconds = self._task.limits.seconds
        if result.failure is FailureKind.TIMEOUT and seconds is not None:
            return f"did not end within {seconds:g} s, in turn {len(self._inputs)}"
        return f"in turn {len(self._inputs)}: {result.problem}" if result.problem else ""

    def result(self) -> AttemptResult:
        """Return the turns as one attempt, whose output is that of the last turn."""
        return self._sum


def _case_of_turn(case: Case, turn: CaseTurn) -> Case:
    update = {"input": turn.input, "turns": [], "expected_output": turn.expected_output}
    return case.model_copy(update=update)


def _is_set(limits: AttemptLimits, name: str) -> bool:
    return getattr(limits, name) is not None

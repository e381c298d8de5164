"""The turns of one attempt so far, as one result with its events in order."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_eval.agents.base import AttemptResult, Task
from agent_eval.agents.session_so_far import SessionSoFar
from agent_eval.contracts import AttemptLimits, Case, Event
from agent_eval.contracts.suite import CaseTurn
from agent_eval.errors import FailureKind

SIMULATED = "agent_eval.simulated"
"""Attribute of a user's message that a model wrote."""


class Session:
    """The turns of one attempt so far.

    Attributes:
        has_own_time: Whether the last turn had a time limit of its own, shorter than what was left of the
            attempt's.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._id = secrets.token_hex(16)
        self._inputs: list[Any] = []
        self._history: list[dict[str, Any]] = []
        self._call_ids: set[str] = set()
        self._sum = AttemptResult([])
        self.has_own_time = False

    @property
    def session_id(self) -> str:
        """Id of the session, as the agent gets it."""
        return self._id

    @property
    def turns(self) -> int:
        """Number of turns that were asked."""
        return len(self._inputs)

    @property
    def failure(self) -> FailureKind | None:
        """Why the agent failed in its last turn; None if it did not."""
        return self._sum.failure

    def next_task(self, turn: CaseTurn, *, seconds: float | None = None) -> Task:
        """Make the task of the next turn.

        Args:
            seconds: Time limit of the turn; None for what is left of the attempt.
        """
        self._inputs.append(turn.input)
        so_far = SessionSoFar(self._id, len(self._inputs), tuple(self._history), self._sum.conversation)
        case = _case_of_turn(self.task.case, turn)
        limits = self._remaining()
        self.has_own_time = seconds is not None and (limits.seconds is None or seconds <= limits.seconds)
        if self.has_own_time:
            limits = limits.model_copy(update={"seconds": seconds})
        return replace(self.task, case=case, limits=limits, session=so_far)

    def _remaining(self) -> AttemptLimits:
        """Compute what the turns before remaining of the attempt's limits."""
        limits, used = self.task.limits, self._sum
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

    def add(self, result: AttemptResult, *, simulated: bool = False) -> Sequence[Event]:
        """Add what the agent did in the turn whose task was made last; return the turn's events."""
        number = len(self._inputs)
        answer = {"assistant_output": result.output, "tool_calls": result.tool_calls}
        self._history.append({"input": self._inputs[-1], **answer})
        before = self._sum
        events = self._events(result.events, number, simulated)
        self._sum = replace(
            result,
            events=[*before.events, *events],
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
        return events

    def _events(self, events: list[Event], number: int, simulated: bool) -> list[Event]:
        """Number the events of a turn as those of the attempt; agents may use the id of a call again."""
        offset = len(self._sum.events)
        ids = {event.call_id for event in events if event.call_id is not None}
        renamed = {call_id: self._unique(call_id) for call_id in sorted(ids)}
        self._call_ids.update(renamed.values())
        numbered = [
            event.model_copy(
                update={
                    "idx": offset + place,
                    "turn": number,
                    "call_id": renamed.get(event.call_id) if event.call_id is not None else None,
                }
            )
            for place, event in enumerate(events)
        ]
        return _marked(numbered) if simulated else numbered

    def _unique(self, call_id: str) -> str:
        unique = call_id
        count = len(self._inputs)
        while unique in self._call_ids:
            unique, count = f"{call_id}-turn-{count}", count + 1
        return unique

    def _problem(self, result: AttemptResult) -> str:
        """Return a failure's words, which speak of the turn's share of a limit, for the whole attempt."""
        seconds = self.task.limits.seconds
        if result.failure is FailureKind.TIMEOUT and seconds is not None and not self.has_own_time:
            return f"did not end within {seconds:g} s, in turn {len(self._inputs)}"
        return f"in turn {len(self._inputs)}: {result.problem}" if result.problem else ""

    def result(self) -> AttemptResult:
        """Return the turns as one attempt, whose output is that of the last turn."""
        return self._sum


def _marked(events: list[Event]) -> list[Event]:
    """Mark the user's message as written by a model."""
    return [
        event.model_copy(update={"attributes": {**event.attributes, SIMULATED: True}})
        if event.actor == "user"
        else event
        for event in events
    ]


def _case_of_turn(case: Case, turn: CaseTurn) -> Case:
    update = {"input": turn.input, "turns": [], "expected_output": turn.expected_output}
    return case.model_copy(update=update)


def _is_set(limits: AttemptLimits, name: str) -> bool:
    return getattr(limits, name) is not None

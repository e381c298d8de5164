"""What an agent is sent of the turns before the present one of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SessionSoFar:
    """The turns before the present one of a conversation.

    Attributes:
        session_id: The same in each turn of one attempt, and in no other attempt; never recorded.
        turn: Number of the present turn, from 1.
        history: For each turn before, its `input`, and the agent's `assistant_output` and `tool_calls`.
        conversation: What the agent's `AttemptResult.conversation` was in the turn before.

    Example:
        >>> before = {"input": "Hi", "assistant_output": "Hello!", "tool_calls": []}
        >>> sorted(SessionSoFar("s-1", 2, [before]).payload())
        ['history', 'session_id', 'turn']
    """

    session_id: str
    turn: int
    history: Sequence[Mapping[str, Any]] = ()
    conversation: Sequence[Any] = ()

    def payload(self) -> dict[str, Any]:
        """Return what a task of a conversation has beside the fields of every task."""
        return {"session_id": self.session_id, "turn": self.turn, "history": list(self.history)}
